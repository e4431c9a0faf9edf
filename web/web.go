package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"whorl/store"
	"whorl/swarm"
	"whorl/web/view"
)

// directory tells of the swarm.
type directory interface {
	// Views are snapshots of all models known. It must be fast: no network.
	Views() []swarm.View
}

// node tells of this node.
type node interface {
	Status() swarm.NodeStatus
}

// Invitation is a word that anybody may use to bring a server.
type Invitation struct {
	Word  string
	Model swarm.UID // that it leads to
	Files bool      // a guest needs files of its own
}

// Config holds the numbers of the dashboard.
type Config struct {
	// Period is the time between two samples of the directory. What is older than two
	// periods is stale.
	Period time.Duration
	// Debounce is how long a change waits for others, so that a burst makes one sample. A
	// swarm that changes all the time is sampled at most five times a period.
	Debounce time.Duration
	// StoreTimeout bounds every use of the history.
	StoreTimeout time.Duration
	// Heartbeat is how often an unchanged model or server is written again: the resolution
	// of charts, and of when a server was seen last.
	Heartbeat time.Duration
	// PruneEvery is the time between two prunings of the history.
	PruneEvery time.Duration
	// Redundancy is how many holders each block should have: a model with fewer is
	// degraded. With 1, a private swarm without spare servers is healthy.
	Redundancy int
	// Remember is how long a model that nobody serves any more, and a server that left, are
	// still shown.
	Remember time.Duration
	// Streams bounds the event streams open at once.
	Streams int
	// JoinPeers are the addresses newcomers are told to start from; if empty, this node's.
	JoinPeers []string
	// APIBase is put before the paths of the API, "" if it is served beside the pages.
	APIBase string
}

// DefaultConfig is what a gateway runs with.
func DefaultConfig() Config {
	return Config{
		Period: 5 * time.Second, Debounce: 100 * time.Millisecond, StoreTimeout: 2 * time.Second, Heartbeat: 15 * time.Second,
		PruneEvery: 10 * time.Minute, Redundancy: 1, Remember: time.Hour, Streams: 256,
	}
}

// Validate refuses numbers that make no sense.
func (c Config) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"period", c.Period}, {"store timeout", c.StoreTimeout}, {"heartbeat", c.Heartbeat}, {"prune interval", c.PruneEvery}, {"remember", c.Remember},
	} {
		if d.value <= 0 {
			return fmt.Errorf("dashboard: %s of %v, want more than 0", d.name, d.value)
		}
	}
	if c.Debounce < 0 || c.Redundancy < 1 || c.Streams < 1 {
		return fmt.Errorf("dashboard: debounce %v (at least 0), redundancy %d and streams %d (at least 1)", c.Debounce, c.Redundancy, c.Streams)
	}
	return nil
}

// Deps are what the dashboard shows.
type Deps struct {
	Directory directory
	Store     store.Store
	Node      node // nil if there is nothing to tell
	// Invite gives an invitation to this node's swarm that anybody may see; nil or false for none.
	Invite func() (Invitation, bool)
	// Models are the names this gateway generates with, for the playground; nil for none.
	Models func() []string
	// Changes announces that the directory changed; nil if it does not tell.
	Changes <-chan struct{}
	// Synced tells why the directory may be behind: an error means the last exchange with
	// the swarm failed. nil if it cannot tell.
	Synced func() error
	// Avoided says until when this gateway avoids a server and why, false if it does not; nil if
	// it avoids nobody.
	Avoided func(swarm.PeerID) (until time.Time, why string, ok bool)
	// Contract is the OpenAPI document of the API, for the page about it.
	Contract []byte
	Log      *slog.Logger // nil for none
}

// watcher is a store that tells of events other gateways added.
type watcher interface {
	Watch(ctx context.Context, notify func(source swarm.PeerID)) error
}

// Site is the dashboard. Its handler serves from the start; what it shows comes from Run.
type Site struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	reference view.Reference

	now     atomic.Pointer[snapshot]
	streams atomic.Int64
	ended   chan struct{} // closed when Run ends: streams end, too

	mu     sync.Mutex                // guards charts
	charts map[chartKey]view.History // made of one history load, shared by all visitors
}

// New makes the dashboard; Run brings it to life.
func New(cfg Config, d Deps) (*Site, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Directory == nil || d.Store == nil {
		return nil, errors.New("dashboard: needs a directory and a store")
	}
	if d.Models == nil {
		d.Models = func() []string { return nil }
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	s := &Site{cfg: cfg, deps: d, log: d.Log, ended: make(chan struct{})}
	s.now.Store(&snapshot{next: make(chan struct{})})
	var err error
	if d.Contract != nil {
		s.reference, err = readReference(d.Contract, false)
	}
	return s, err
}
