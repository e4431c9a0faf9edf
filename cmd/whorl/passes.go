package main

import (
	"time"

	"whorl/server"
	"whorl/swarm/wire"
)

// passFlags bound what a server computes for clients that train.
type passFlags struct {
	on      bool
	rows    int
	most    int
	memory  size
	timeout time.Duration
}

// check refuses wrong values by the name of their flag.
func (f *passFlags) check() error {
	switch {
	case f.rows < 1 || f.rows > wire.MaxPassRows:
		return usagef("--max-pass-rows %d: want 1 to %d", f.rows, wire.MaxPassRows)
	case f.most < 1:
		return usagef("--max-passes %d: want at least 1; --passes=false takes none", f.most)
	case f.timeout <= 0:
		return usagef("--request-timeout %v: want more than 0", f.timeout)
	}
	return nil
}

func (f *passFlags) apply(c *server.Config) {
	c.Passes = server.Passes{Off: !f.on, Rows: f.rows, Most: f.most, Memory: int64(f.memory)}
	c.Timeouts.Pass = f.timeout
}
