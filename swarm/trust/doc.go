// Package trust remembers what was observed of peers and decides which of them to avoid, for
// how long and why. It is the only place that decides so: routing, audits and the directory
// ask it, and an operator reads and undoes what it says.
//
// What it knows is first-hand: what this node saw, and evidence that this node checked by
// computing it again. A peer's word about another peer is no observation. What a caller's
// own deadline or cancellation interrupted is none either.
//
// Observations are of two sorts. Failures (lost, late, refused, broken frames, quarrels) happen to
// honest servers too: a peer is left alone for seconds, longer when they repeat, and is
// taken all the same where nobody else holds a block. Lies (wrong rows) do not happen to
// honest servers: a suspected liar is left alone until a third party has judged, a proven
// one for days, and no block depends on it so much that it would be asked.
//
// Pure: the clock and the draws are passed in, and the caller keeps the book on disk.
package trust
