// Package sched is the step queue of a swarm server: which rows of which sessions the next
// iteration computes. It does continuous batching: every iteration takes all ready decodes
// and fills what is left of its row budget with pieces of prefill.
//
// Pure policy: it knows nothing of tensors, streams or time, and is not for concurrent use.
// What an iteration computes does not depend on what shares it (package tensor), so this
// package may choose freely.
//
// The rules of [Queue.Next]:
//
//   - Only sessions with equal keys (blocks and activation mode) share an iteration. The
//     key is that of the oldest item in the queue, so no key starves.
//   - Of a session at most one item is taken, from its front; an item may be taken in pieces.
//   - Decodes come first. While prefill waits, an eighth of the budget is kept for it.
//   - The oldest item gets at least an eighth of the budget, so no session starves.
//   - Inside a class the peer that has received the least goes first, its oldest session
//     first: many sessions of one peer do not push out the one of another.
//   - Sessions that are not ready, because their successor or client is slow, are passed by.
package sched
