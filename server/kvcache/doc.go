// Package kvcache hands out the pages of a KV pool to sessions. It counts; it computes
// nothing, knows neither streams nor what is written to a page, and does not decide who gets
// pages: server/admission does.
//
// Where KV lives:
//
//	tensor.KV (one pool per span, memory of the device)
//	  page 0 | page 1 | page 2 | ...          each page: 64 positions of every layer of
//	     |        |        |                  the span, keys and values
//	     +--------+--------+--> the pages of one session, in order of position; what
//	                            tensor.Batch carries to Attend
//
// A session takes all pages of its whole budget at once, so that one that was accepted never
// runs out of cache half-way. Pages are not cleared: a session reads only positions it has
// written.
//
// The sequences of a beam search share what they have in common ([Tables]). They take pages
// for the worst case, nothing in common: sequences times the pages of the session's length.
// A step copies at most one page per sequence and layer, and only for sequences that have
// just parted.
package kvcache
