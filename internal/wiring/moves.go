package wiring

import (
	"time"

	"whorl/server"
)

// MoveOptions say how eager a server is to move to other blocks.
type MoveOptions struct {
	Quality float64
	Check   time.Duration
}

func (f *MoveOptions) apply(c *server.Config) {
	c.Balance.Quality, c.Balance.Check = f.Quality, f.Check
}

// validate refuses what means nothing.
func (f *MoveOptions) validate() error {
	if !(f.Quality >= 0) || f.Check <= 0 {
		return Usagef("--balance-quality %v and --mean-balance-check-period %v: want 0 or more, and more than 0", f.Quality, f.Check)
	}
	return nil
}
