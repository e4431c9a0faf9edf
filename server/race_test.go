//go:build race

package server

// Under the race detector sync.Pool forgets on purpose.
func init() { poolsForget = true }
