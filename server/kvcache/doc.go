// Package kvcache rents out the pages of a KV pool to sessions: a byte budget, all-or-nothing
// leases, a bounded first-come wait, and a cap per peer. It counts; it computes nothing, and
// it knows neither streams nor what is written to a page.
//
// Where KV lives:
//
//	tensor.KV (one pool per span, memory of the device)
//	  page 0 | page 1 | page 2 | ...          each page: 64 positions of every layer of
//	     |        |        |                  the span, keys and values
//	     +--------+--------+--> Lease.View(): the pages of one session, in order of
//	                            position; what tensor.Batch carries to Attend
//
// A lease takes all pages of a session's whole budget at once, so that a session that was
// accepted never runs out of cache half-way. Pages are not cleared: a session reads only
// positions it has written.
//
// The sequences of a beam search share what they have in common ([Tables]). Their lease is
// for the worst case, nothing in common: sequences times the pages of the session's length.
// A step copies at most one page per sequence and layer, and only for sequences that have
// just parted.
package kvcache
