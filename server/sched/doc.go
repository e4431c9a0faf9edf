// Package sched is the step queue of a swarm server: which rows of which sessions the next
// iteration computes, and how long it waits for more of them. It does continuous batching:
// an iteration takes the decodes that are ready, after a moment in which others may come, and
// pieces of prompts beside them.
//
// Pure policy: it knows nothing of tensors or streams, the time is passed in, and it is not for
// concurrent use. What an iteration computes does not depend on what shares it (package
// tensor), so this package may choose freely. docs/adr/0012-shared-batches.md,
// 0030-one-group.md, 0042-prompts-beside-answers.md and 0050-pieces-and-latecomers.md have the reasons, testdata the tables of a simulation.
//
// The rules of [Queue.Next]:
//
//   - Only sessions with equal keys (blocks and activation mode) share an iteration. The
//     key is that of the oldest item in the queue, so no key starves.
//   - Of a session at most one item is taken, from its front; an item may be taken in pieces.
//   - It waits for sessions that come back soon (pace.go) where all together then get more
//     (wait.go): not for longer than a share of the iteration, not for who takes much longer
//     than those that are ready, not where rows of another key are ready, and never where
//     nobody is expected. What an iteration takes by its rows is measured (cost.go).
//   - Whether all do better in one group is measured where they were in one lately, and tried
//     now and then where the estimate does not say no (wait.go, lane.go).
//   - Where everybody is away for longer than others take, as in a chain, what is ready is
//     divided into groups, one for each stage (plan.go).
//   - Decodes come first. While prefill waits, an eighth of the budget is kept for it.
//   - Beside running answers, prompts have a budget in time: what hides behind the reading of
//     the weights, and a share more (plan.go): less where that is enough for their own speed, or
//     where they are short, and more where more wait with short ones than answers run. What rows of
//     long prompts add is measured apart (beside.go): it grows with their past.
//   - The oldest item gets at least a row, and an eighth of the budget that its class has, so
//     no session starves (a long prompt has nothing in one iteration of 25).
//   - Inside a class the peer that has received the least goes first, its oldest session
//     first: many sessions of one peer do not push out the one of another.
//   - Background sessions, for which nobody waits, have their turn while nothing else is ready,
//     a few rows at a time, and else after a wait of seconds.
//   - Sessions that are not ready, because their successor or client is slow, are passed by.
package sched
