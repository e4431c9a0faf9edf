package server

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/internal/sysmem"
	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/wire"
)

// Measuring says where the announced throughput comes from.
type Measuring uint8

// Where the announced throughput comes from.
const (
	MeasureAuto   Measuring = iota // as Deps.Speeds knows it, or measure the loaded blocks
	MeasureFresh                   // measure the loaded blocks in any case
	MeasureDryRun                  // measure, report, and end Run with ErrDryRun
	MeasureNever                   // announce Config.Throughput, and no rates
)

// Config of a server. Manifest is required; DefaultConfig has the rest.
type Config struct {
	Manifest   swarm.Manifest
	Span       *swarm.Span // blocks to hold; nil: the worst served ones
	NumBlocks  int         // how many to choose; 0: as many as fit
	Memory     int64       // bytes for weights, cache and buffers; 0: what is free, less a tenth
	MemoryFrom string      // where Memory comes from, for people; "": the operator said it
	Network    int64       // bytes that the node's connections may take, of Memory
	Head       int64       // bytes of the head that a gateway in this process loads, of Memory
	Spare      int64       // bytes to leave free
	CacheToken int         // size of the cache in tokens; 0: by the model's kind of attention
	MaxLength  int         // longest session; 0: the size of the cache
	StepRows   int         // most rows of one iteration

	MaxSessions    int     // of all peers
	PeerSessions   int     // of one peer; this node's own gateway has no cap
	PrefixSessions int     // of all peers behind one address prefix
	PeerCache      float64 // share of the cache that one peer may hold, above 0 to 1
	PrefixCache    float64 // share that all peers behind one address prefix may hold

	Measuring  Measuring
	Throughput float64       // declared, with MeasureNever
	MeasureFor time.Duration // time spent on each rate

	PublicName string
	Version    string
	Device     string // for people
	Tier       string // of the device's kernels

	// Balance is how eager the server is to move, and how long a choice stands before blocks are
	// loaded, so that servers that start together see each other's.
	Balance balance.Config
	Seed    uint64
	// StatsEvery is the time between lines of the log that say what was computed; 0: none.
	StatsEvery time.Duration
	Timeouts   Timeouts
	Queues     Queues
	Passes     Passes
}

// Timeouts of a server.
type Timeouts struct {
	Open     time.Duration // for a stream's first frame
	Cache    time.Duration // longest wait for cache, whatever a client asks
	Lease    time.Duration // a session keeps its place without rows; beside waits, between Accept and Commit
	Patience time.Duration // for cache, of who holds less than a fair share while others hold more
	Service  time.Duration // a session keeps its place after each open
	Rest     time.Duration // a session keeps its place after its last rows
	Hello    time.Duration // a push stream may be early by this much
	Dial     time.Duration // to open a push stream
	Write    time.Duration // for a peer to take one frame
	Linger   time.Duration // for a client to read why it was refused
	Idle     time.Duration // a session without rows ends after this; 0: never
	Session  time.Duration // a session ends so long after the first row that follows its prompt or replay; 0: never
	Drain    time.Duration // sessions may go on this long once the server drains
	Update   time.Duration // between announcements
	Coalesce time.Duration // least time between announcements of changing figures
	Ping     time.Duration // for a round trip to a possible successor
	Pass     time.Duration // for a pass to be computed, from its first frame
	Hang     time.Duration // least time after which an iteration hangs; below a minute counts as that
}

// Queues bounds what a session may have waiting, in bytes. At the bound its sender is
// stopped, or the session is left out of iterations; the journal is thinned out instead.
type Queues struct {
	In      int // rows to compute, per source
	Out     int // outputs to the successor or the client
	Journal int // outputs kept for the client
	// InTotal, OutTotal and JournalTotal bound those of all sessions together, since many
	// sessions at their own bounds would hold more memory than a plan leaves; 0: what the plan
	// gives. Beyond InTotal each source of a session may still have one frame waiting, and
	// beyond OutTotal each session one output.
	InTotal, OutTotal, JournalTotal int
	// Reading bounds the large frames that are being read, of all streams; 0: what the plan
	// gives.
	Reading int
	// JournalRate paces prefill journals, in bytes a second per session; 0: no limit.
	JournalRate int
}

// DefaultConfig has everything but the manifest.
func DefaultConfig() Config {
	return Config{
		Spare: 256 << 20, StepRows: 512, MaxSessions: 256, PeerSessions: 64, PrefixSessions: 128, PeerCache: 0.5, PrefixCache: 0.75,
		MeasureFor: time.Second, Balance: balance.DefaultConfig(),
		Timeouts: Timeouts{
			Open: 5 * time.Second, Cache: 10 * time.Minute, Lease: wire.LeaseTime, Hello: 10 * time.Second,
			Patience: 3 * time.Second, Service: 2 * time.Second, Rest: time.Minute,
			Dial: 5 * time.Second, Write: 30 * time.Second, Linger: 2 * time.Second, Idle: 5 * time.Minute, Session: 30 * time.Minute,
			Drain: 10 * time.Second, Update: 30 * time.Second, Coalesce: 2 * time.Second, Ping: 2 * time.Second, Pass: 3 * time.Minute,
		},
		Queues: Queues{In: 16 << 20, Out: 8 << 20, Journal: 64 << 20, JournalRate: 64 << 20},
		Passes: Passes{Rows: 2048, Most: 128},
	}
}

// maxCacheTokens keeps the sizes of a memory plan within an int64, whatever the model.
const maxCacheTokens = 1 << 32

// Validate refuses values that mean nothing.
func (c *Config) Validate() error {
	if err := c.Manifest.Validate(); err != nil {
		return err
	}
	if err := c.Balance.Validate(); err != nil {
		return err
	}
	if err := c.Passes.validate(); err != nil {
		return err
	}
	n := c.Manifest.Blocks
	switch {
	case c.Span != nil && (c.Span.Start < 0 || c.Span.Start >= c.Span.End || c.Span.End > n):
		return fmt.Errorf("blocks %v: %s has blocks 0:%d", *c.Span, c.Manifest.Name, n)
	case c.Span != nil && c.NumBlocks != 0 && c.NumBlocks != c.Span.Len():
		return fmt.Errorf("blocks %v and a number of %d blocks exclude each other: give one", *c.Span, c.NumBlocks)
	case c.NumBlocks < 0 || c.Memory < 0 || c.Head < 0 || c.Spare < 0 || c.CacheToken < 0 || c.MaxLength < 0:
		return errors.New("server: a negative number of blocks, bytes or tokens")
	case c.CacheToken > maxCacheTokens:
		return fmt.Errorf("server: a cache of %d tokens, want at most %d", c.CacheToken, int64(maxCacheTokens))
	case c.StepRows < 2 || c.MaxSessions < 1 || c.PeerSessions < 1 || c.PrefixSessions < 1:
		return fmt.Errorf("server: iterations of %d rows (at least 2), %d sessions, %d per peer, %d per address prefix (at least 1)", c.StepRows, c.MaxSessions, c.PeerSessions, c.PrefixSessions)
	case !(c.PeerCache > 0 && c.PeerCache <= 1) || !(c.PrefixCache > 0 && c.PrefixCache <= 1):
		return fmt.Errorf("server: shares of the cache: %v per peer, %v per address prefix, want above 0 and at most 1", c.PeerCache, c.PrefixCache)
	case !(c.Throughput >= 0 && c.Throughput <= swarm.MaxRate):
		return fmt.Errorf("server: throughput %v, want a number of 0 to %g", c.Throughput, float64(swarm.MaxRate))
	}
	return nil
}

// Deps are the parts of a node that a server uses. All but Pinger, Signer, Speeds, Addrs, Relayed, Loading, Memory, Left and Metrics
// are required.
type Deps struct {
	Self swarm.PeerID
	// Link is what passes between this node and others; false: not measured; nil: never.
	Link      func() (swarm.Link, bool)
	Loader    Loader
	Directory Directory
	Dialer    Dialer
	Pinger    Pinger          // nil: no round trips are announced
	Signer    Signer          // nil: sessions that ask for receipts are refused
	Speeds    Speeds          // nil: rates are measured at each start
	Addrs     func() []string // multiaddrs to announce, without /p2p
	Relayed   func() bool     // others reach this node through relays alone; nil: they do not
	// Loading tells how far the model's files are; nil, itself or what it returns: none are fetched.
	Loading func() *swarm.Loading
	// Memory tells what is left of memory; nil: it is not watched.
	Memory  func() (sysmem.Pressure, error)
	Left    func() float64        // part of the processor that other programs leave, 0 to 1; nil: all of it
	Metrics prometheus.Registerer // nil: not registered
	Log     *slog.Logger          // nil: slog.Default
}
