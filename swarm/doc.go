// Package swarm is the vocabulary of whorl: who a peer is, what a model served in a swarm
// is, what servers say of themselves, what a snapshot of them looks like, and how errors
// carry a verdict. Plain data and the standard library only.
//
// It does not talk to anybody (p2p, dir), does not decide anything (route, balance), and
// knows nothing of tensors.
package swarm
