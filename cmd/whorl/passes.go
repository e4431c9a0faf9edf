package main

import (
	"time"

	"github.com/spf13/pflag"

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

func (f *passFlags) add(fs *pflag.FlagSet, def *server.Config) {
	fs.BoolVar(&f.on, "passes", true, "compute forward and backward passes for clients that train, while no session wants the device")
	fs.IntVar(&f.rows, "max-pass-rows", def.Passes.Rows, "most rows (tokens) of one pass")
	fs.IntVar(&f.most, "max-passes", def.Passes.Most, "most passes at once; one is computed, the others wait")
	fs.Var(&f.memory, "pass-memory", "bytes for the rows and the workspace of passes, such as 1GiB; 0: a thirty-second of --memory")
	f.timeout = def.Timeouts.Pass
	secondsVar(fs, &f.timeout, "request-timeout", "a pass that takes longer is ended")
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
