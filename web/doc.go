// Package web is the dashboard: a loop that samples the directory into the history, and
// the pages that show both, live over server-sent events.
//
//	directory -> Run: snapshot -> store        every period, and at once when told of a change
//	                  snapshot -> pages, event streams
//
// Pages are made from the last snapshot and the last history that could be read: nothing
// that a visitor asks for waits for the swarm, and a database that is gone only makes the
// pages say so. The pages only read; control is api's.
package web
