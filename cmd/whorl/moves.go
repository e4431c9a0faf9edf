package main

import (
	"time"

	"github.com/spf13/pflag"

	"whorl/server"
	"whorl/swarm/balance"
)

// moveFlags say how eager a server is to move to other blocks.
type moveFlags struct {
	quality float64
	check   time.Duration
}

func (f *moveFlags) add(fs *pflag.FlagSet) {
	def := balance.DefaultConfig()
	fs.Float64Var(&f.quality, "balance-quality", def.Quality, "move when the worst-served block has less than this share of an even spread; 0: never, also not for blocks without a holder")
	f.check = def.Check
	secondsVar(fs, &f.check, "mean-balance-check-period", "mean time between looks whether other blocks need this server more")
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
