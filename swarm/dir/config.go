package dir

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm"
)

// Config of a Directory; DefaultConfig has sensible values.
type Config struct {
	Swarm     string   // name of the swarm: part of the DHT's protocol id
	Bootstrap []string // first peers, with /p2p; nil founds a swarm
	// Expiration is how long a record of ours lives without renewal: a killed server is
	// gone from every view after it at the latest.
	Expiration time.Duration
	// Refresh is how often records are exchanged with tellers, and round trips measured.
	Refresh time.Duration
	// Lonely is how long a node may be without any of its first peers before it dials them
	// again.
	Lonely time.Duration
	// Client makes a node that asks and keeps nothing for others: one that others cannot
	// reach, or that is gone in a minute.
	Client bool
	// PeersPath is a file of peers seen lately, tried when the first peers do not answer;
	// "" keeps none.
	PeersPath  string
	Registerer prometheus.Registerer // nil counts in vain
	Log        *slog.Logger          // nil for slog.Default()
	Clock      func() time.Time      // nil for time.Now
}

// DefaultConfig renews within seconds, which costs a few kB per node and teller.
func DefaultConfig() Config {
	return Config{Swarm: "main", Expiration: 60 * time.Second, Refresh: 3 * time.Second, Lonely: 15 * time.Second}
}

// swarmName is what may stand in a protocol id.
var swarmName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Validate refuses what cannot work.
func (c *Config) Validate() error {
	switch {
	case !swarmName.MatchString(c.Swarm):
		return fmt.Errorf("directory: swarm name %q: want 1 to 64 letters, digits, dots, dashes or underscores", c.Swarm)
	case c.Expiration <= 0 || c.Expiration > swarm.MaxLifetime:
		return fmt.Errorf("directory: expiration of %v: want at most %v", c.Expiration, swarm.MaxLifetime)
	case c.Refresh <= 0 || c.Lonely <= 0:
		return fmt.Errorf("directory: refresh of %v and lonely time of %v must be positive", c.Refresh, c.Lonely)
	}
	return nil
}

const (
	// staleAfter is how many refreshes may fail in a row before what is known counts as old.
	staleAfter = 5
	// tellers is how many nodes are asked per refresh: a lie by omission needs all three.
	tellers = 3
	// fanout is how many connected peers hear of a new state of ours at once.
	fanout = 8
	// exchangeTimeout bounds one exchange.
	exchangeTimeout = 5 * time.Second
	// recordTimeout is added to it for each record that is to come: at 700 bytes it is 1 Mbit/s.
	recordTimeout = 6 * time.Millisecond
	// pingTimeout bounds the ping that decides whether a peer is suspected.
	pingTimeout = 3 * time.Second
	// pingsPerRefresh bounds the round trips measured per refresh.
	pingsPerRefresh = 16
	// provideEvery and provideValidity keep provider records alive through a missed round.
	provideEvery    = 4 * time.Minute
	provideValidity = 10 * time.Minute
	// findTimeout bounds a search in the DHT, findEvery its frequency, findLimit its size.
	findTimeout = 10 * time.Second
	findEvery   = time.Minute
	findLimit   = 20
	// maxTold is how many records one exchange brings from a teller that the operator did
	// not name; the next brings more.
	maxTold = 1024
	// maxCursors is how many tellers are remembered with the place where they stopped.
	maxCursors = 256
	// warnEvery limits the lines about one thing, maxWarned the things remembered for it,
	// maxLines all of them in a minute.
	warnEvery = 10 * time.Minute
	maxWarned = 1024
	maxLines  = 64
)
