package balance

import (
	"errors"
	"time"
)

// Config is how eager a server is to move.
type Config struct {
	// Quality is the share of an even spread that the worst-served block may fall to before
	// servers move for throughput: Petals' --balance_quality. 0 never moves, not even for a
	// hole; above 1 every gain counts.
	Quality float64
	// Gain is how many times as much a server must be worth elsewhere, beyond 1: the dead
	// band that keeps equal places from being exchanged.
	Gain float64
	// Eager is the gain from which on a move is made after Looks checks in a row that want it
	// for throughput. What gains less waits for as many times as long: much churn asks for few
	// moves, and calm swarms have the time.
	Eager float64
	Looks int
	// Cooldown is how long a server stays after it has loaded blocks; an alarm waits for no
	// more than one Check.
	Cooldown time.Duration
	// Check is the mean time between two checks: Petals' --mean_balance_check_period.
	Check time.Duration
	// Settle is how long a newcomer chooses: half of it to hear who else does, half for its
	// place to stand. Who serves waits three times as long, which is twice the time in which
	// the last of a few hundred servers has a record (docs/sim.md). 0 waits for nothing.
	Settle time.Duration
	// Moving is the share of the servers that may be under way at one time, one at least.
	Moving float64
	// Shorter is how many times as much a span of less than the full length must be worth,
	// beyond 1: it makes longer chains.
	Shorter float64
}

// DefaultConfig is what the simulator found to be calm and near the optimum (docs/sim.md).
func DefaultConfig() Config {
	return Config{
		Quality: 0.98, Gain: 0.5, Eager: 60, Looks: 2, Cooldown: 5 * time.Minute, Check: time.Minute, Settle: 6 * time.Second,
		Moving: 0.02, Shorter: 3,
	}
}

// Validate refuses what makes no sense.
func (c Config) Validate() error {
	if !(c.Quality >= 0) || !(c.Gain > 0) || !(c.Eager >= 0) || c.Looks < 1 || c.Cooldown < 0 || c.Check <= 0 || c.Settle < 0 || !(c.Moving >= 0 && c.Moving <= 1) || !(c.Shorter >= 0) {
		return errors.New("balance: Quality, Cooldown, Settle, Eager and Shorter must not be negative, Gain and Check must be positive, Looks at least 1 and Moving a share")
	}
	return nil
}
