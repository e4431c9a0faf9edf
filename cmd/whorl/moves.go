package main

import (
	"time"

	"whorl/server"
)

// moveFlags say how eager a server is to move to other blocks.
type moveFlags struct {
	quality float64
	check   time.Duration
}

func (f *moveFlags) apply(c *server.Config) {
	c.Balance.Quality, c.Balance.Check = f.quality, f.check
}

// validate refuses what means nothing.
func (f *moveFlags) validate() error {
	if !(f.quality >= 0) || f.check <= 0 {
		return usagef("--balance-quality %v and --mean-balance-check-period %v: want 0 or more, and more than 0", f.quality, f.check)
	}
	return nil
}
