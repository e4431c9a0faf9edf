// Package plan decides what a session does when its route breaks: which
// stages roll back to where, and which rows are replayed into which stage. Pure functions
// over snapshots, shared with the simulator: no clock, no stream, no tensor.
package plan
