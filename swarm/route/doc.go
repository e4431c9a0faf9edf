// Package route chooses the chain of servers for a session: the path of least expected
// time per token through a snapshot of the swarm. Pure and deterministic: a query in, a
// chain out; no clock, no network, no randomness. It does not open sessions (client) and
// does not decide who holds what (balance).
package route
