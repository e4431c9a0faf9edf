package wiring

import (
	"time"

	"whorl/server"
	"whorl/swarm/wire"
)

// PassOptions bound what a server computes for clients that train.
type PassOptions struct {
	On      bool
	Rows    int
	Most    int
	Memory  Size
	Timeout time.Duration
}

// check refuses wrong values by the name of their flag.
func (f *PassOptions) check() error {
	switch {
	case f.Rows < 1 || f.Rows > wire.MaxPassRows:
		return Usagef("--max-pass-rows %d: want 1 to %d", f.Rows, wire.MaxPassRows)
	case f.Most < 1:
		return Usagef("--max-passes %d: want at least 1; --passes=false takes none", f.Most)
	case f.Timeout <= 0:
		return Usagef("--request-timeout %v: want more than 0", f.Timeout)
	}
	return nil
}

func (f *PassOptions) apply(c *server.Config) {
	c.Passes = server.Passes{Off: !f.On, Rows: f.Rows, Most: f.Most, Memory: int64(f.Memory)}
	c.Timeouts.Pass = f.Timeout
}
