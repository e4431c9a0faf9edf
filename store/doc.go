// Package store keeps the history of swarms: how the refresh rounds of a gateway went,
// what servers said of themselves, how the blocks of each model were covered, and what
// changed. It has two homes behind one interface and one test suite: Postgres, which
// several gateways may share, and bounded memory, which needs nothing.
//
// It is no source of truth: routing and serving never read it, and losing it costs nothing
// but the past. It does not watch the swarm itself; web samples it.
package store
