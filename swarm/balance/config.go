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
	// for throughput. What gains less waits for as many times as long, since where servers come
	// and go the next change would undo it.
	Eager float64
	Looks int
	// Calm is how long nobody must have come or gone until Fine takes the place of Eager: what
	// is gained then lasts.
	Calm time.Duration
	Fine float64
	// Cooldown is how long a server stays after it has loaded blocks; an alarm waits for no
	// more than one Check.
	Cooldown time.Duration
	// Urgent is the share of an even spread of the worst-served block below which Hasty takes
	// the place of Cooldown, and no gain waits for longer than Looks.
	Urgent float64
	Hasty  time.Duration
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
		Quality: 0.98, Gain: 0.05, Eager: 340, Looks: 2, Calm: 15 * time.Minute, Fine: 0.5, Cooldown: 5 * time.Minute, Urgent: 0.6, Hasty: time.Minute, Check: time.Minute, Settle: 6 * time.Second,
		Moving: 0.02, Shorter: 3,
	}
}

// Validate refuses what makes no sense.
func (c Config) Validate() error {
	if !(c.Quality >= 0) || !(c.Gain > 0) || !(c.Eager >= 0) || !(c.Fine >= 0) || !(c.Urgent >= 0) || c.Calm < 0 || c.Hasty < 0 || c.Looks < 1 || c.Cooldown < 0 || c.Check <= 0 || c.Settle < 0 || !(c.Moving >= 0 && c.Moving <= 1) || !(c.Shorter >= 0) {
		return errors.New("balance: Quality, Calm, Cooldown, Hasty, Settle, Eager, Fine, Urgent and Shorter must not be negative, Gain and Check must be positive, Looks at least 1 and Moving a share")
	}
	return nil
}
