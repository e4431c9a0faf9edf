package store

import (
	"context"
	"strings"
	"time"

	"whorl/swarm"
)

// Store keeps history. Methods are safe for concurrent use; times are kept to the
// microsecond and come back in UTC. Every call may fail without harm.
type Store interface {
	Writer
	Reader
}

// Writer takes history in.
type Writer interface {
	// Write keeps all of a sample or nothing. Writing a sample again, after an error that
	// left its fate unknown, adds nothing.
	Write(ctx context.Context, s Sample) error
	// Prune forgets what the limits do not allow. Reads may see rows beyond the limits
	// until it ran.
	Prune(ctx context.Context, now time.Time) error
}

// Reader gives history out.
type Reader interface {
	// Crawls are oldest first, the newest maxRows of the window. Step is ignored.
	Crawls(ctx context.Context, w Window) ([]Crawl, error)
	// Coverage is the past of a model's blocks, oldest first. With a step, each step is
	// told by its worst moment, so that a short outage never vanishes from a long chart.
	Coverage(ctx context.Context, model swarm.UID, w Window) ([]Coverage, error)
	// Observations are the past of one server, oldest first; with a step, the last of each.
	Observations(ctx context.Context, peer swarm.PeerID, w Window) ([]Observation, error)
	// Servers are the last observations of servers seen since then, those seen last first.
	// An empty model means all.
	Servers(ctx context.Context, model swarm.UID, since time.Time) ([]Server, error)
	// Events are newest first.
	Events(ctx context.Context, q EventQuery) ([]Event, error)
}

// maxRows bounds every answer.
const maxRows = 5000

// Window is a stretch of time: from From up to but not including To. Steps are counted
// from the Unix epoch, so that a window that moves on cuts time at the same places.
type Window struct {
	From, To time.Time
	Step     time.Duration // 0: every row
}

// holds tells whether the window contains a time.
func (w Window) holds(t time.Time) bool { return !t.Before(w.From) && t.Before(w.To) }

// bucket numbers the step a time lies in.
func (w Window) bucket(t time.Time) int64 { return t.UnixMicro() / max(1, w.Step.Microseconds()) }

// Sample is what one round of a gateway's refresh loop adds.
type Sample struct {
	Source       swarm.PeerID // the gateway
	Crawl        Crawl        // with Source, the sample's identity
	Coverage     []Coverage
	Observations []Observation
	// Events are in the order they happened. One is kept only if it is later than the last
	// event of the same model and peer, and says something else: gateways that share a
	// database, and one that was restarted, do not repeat each other.
	Events []Event
}

// Crawl is how a refresh round went.
type Crawl struct {
	Started  time.Time
	Duration time.Duration
	Error    string // "" if it succeeded
}

// Outcome is "ok" or "failed".
func (c Crawl) Outcome() string {
	if c.Error != "" {
		return "failed"
	}
	return "ok"
}

// Observation is what a server said of itself at some time.
type Observation struct {
	At         time.Time
	Model      swarm.UID
	ModelName  string
	Peer       swarm.PeerID
	Span       swarm.Span
	State      swarm.State
	Rates      swarm.Rates
	Throughput float64 // tokens per second and block; 0: not measured
	CacheTotal int64   // tokens of whole sessions
	CacheLeft  int64
	Version    string
	PublicName string
	Relay      bool
}

// Observe makes an observation of a record.
func Observe(r *swarm.Record, at time.Time) Observation {
	return Observation{
		At: at, Model: r.UID, ModelName: r.Manifest.Name, Peer: r.Peer, Span: r.Span, State: r.State, Rates: r.Rates,
		Throughput: r.Throughput, CacheTotal: r.CacheTotal, CacheLeft: r.CacheLeft, Version: r.Version,
		PublicName: r.PublicName, Relay: r.Relay,
	}
}

// Server is the last observation of a server, and since when it is known.
type Server struct {
	Observation // At is when it was seen last
	First       time.Time
}

// Kind is what an event tells.
type Kind string

// The kinds of events: of a server, then of a model as a whole.
const (
	ServerJoining  Kind = "server_joining"
	ServerOnline   Kind = "server_online"
	ServerDraining Kind = "server_draining"
	ServerOffline  Kind = "server_offline" // it said so, or its record ran out
	ServerMoved    Kind = "server_moved"   // Detail is the span it left, as "0:10"
	ServerIntends  Kind = "server_intends" // Detail is the span that it means to hold instead, as "0:10"
	ModelHealthy   Kind = "model_healthy"  // Detail says for how long it lacked blocks, if it did
	ModelDegraded  Kind = "model_degraded" // Detail says why, and that
	ModelBroken    Kind = "model_broken"   // Detail is the missing ranges, as "4-7, 9"
)

// Event is a change of state.
type Event struct {
	ID         int64 // rises; given by the store
	At         time.Time
	Kind       Kind
	Model      swarm.UID
	ModelName  string
	Peer       swarm.PeerID // "" for events of a model
	PublicName string
	Span       swarm.Span // of a server
	Detail     string
}

// repeats tells whether e adds nothing to the last event of its subject.
func (e *Event) repeats(last *Event) bool {
	return !e.At.After(last.At) || e.Kind == last.Kind && e.Span == last.Span && e.Detail == last.Detail
}

// EventQuery selects events.
type EventQuery struct {
	Model  swarm.UID    // "" for all
	Peer   swarm.PeerID // "" for all
	Before int64        // an Event.ID: only older ones; 0 for the newest
	Limit  int          // 0 means 50
}

// limit is how many rows a query may give.
func (q EventQuery) limit() int {
	if q.Limit <= 0 {
		return 50
	}
	return min(q.Limit, maxRows)
}

// Limits bound what is kept.
type Limits struct {
	Age          time.Duration // older rows are forgotten
	Crawls       int           // rows, for these five
	Coverage     int
	Observations int
	Events       int
	Servers      int
}

// DefaultLimits are those of a database: eight days, so that the week of a chart is whole,
// and a bound per table of a few hundred megabytes.
func DefaultLimits() Limits {
	return Limits{Age: 8 * 24 * time.Hour, Crawls: 200_000, Coverage: 1_000_000, Observations: 2_000_000, Events: 100_000, Servers: 20_000}
}

// MemoryLimits are those of the ring in memory: about a day of a small swarm in some ten
// megabytes.
func MemoryLimits() Limits {
	return Limits{Age: 48 * time.Hour, Crawls: 20_000, Coverage: 8192, Observations: 16_384, Events: 2048, Servers: 2048}
}

// clean returns the sample as both homes keep it. Names come from strangers, and Postgres
// refuses a NUL in a text: one bad name must not stop all history.
func (s Sample) clean() Sample {
	s.Crawl.Started, s.Crawl.Error = moment(s.Crawl.Started), text(s.Crawl.Error)
	s.Coverage = append([]Coverage(nil), s.Coverage...)
	for i := range s.Coverage {
		c := &s.Coverage[i]
		c.At, c.ModelName = moment(c.At), text(c.ModelName)
	}
	s.Observations = append([]Observation(nil), s.Observations...)
	for i := range s.Observations {
		o := &s.Observations[i]
		o.At, o.ModelName, o.Version, o.PublicName = moment(o.At), text(o.ModelName), text(o.Version), text(o.PublicName)
	}
	s.Events = append([]Event(nil), s.Events...)
	for i := range s.Events {
		e := &s.Events[i]
		e.At, e.ModelName, e.PublicName, e.Detail = moment(e.At), text(e.ModelName), text(e.PublicName), text(e.Detail)
	}
	return s
}

func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
