package swarm

import "time"

// Intent is where a server means to go: the span it will hold instead of the one it holds
// now, if any.
type Intent struct {
	// Span is empty while a newcomer hears who else chooses.
	Span Span `json:"span,omitzero"`
	// Open says that the choice is not final. Those who choose at one time see each other's
	// intents, and whoever began later chooses around the others. A final one is being loaded.
	Open bool `json:"open,omitempty"`
	// Since is when the server began to choose, by its own clock, in unix milliseconds: the
	// order, which all see alike, in which those that choose are asked.
	Since int64 `json:"since_ms,omitempty"`
}

// Placement is what a server decided about its blocks, and why.
type Placement struct {
	Do     string    `json:"do"` // "stay", "intend" or "go"
	Span   Span      `json:"span"`
	From   string    `json:"from,omitempty"`  // the span that it holds; "" where nobody asked
	To     string    `json:"to,omitempty"`    // Span as text
	Gain   float64   `json:"gain"`            // how many times as much it is worth there, beyond 1
	Alarm  bool      `json:"alarm,omitempty"` // blocks without a steady holder are the reason
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Benchmark is what a server measured of its blocks while it served.
type Benchmark struct {
	Span             Span          `json:"span"`
	Rates            Rates         `json:"rates"`
	Before           Rates         `json:"before"` // what was announced until then
	Throughput       float64       `json:"throughput"`
	ThroughputBefore float64       `json:"throughput_before"`
	Announced        bool          `json:"announced"` // false where the operator declared a throughput
	Took             time.Duration `json:"took_ns"`
}

// Load is how much a server has to do, on average over its last seconds.
type Load struct {
	Busy     float64 `json:"busy"`              // share of the time in which it computes, 0 to 1
	Sessions int     `json:"sessions"`          // that hold cache
	Waiting  int     `json:"waiting,omitempty"` // sessions that wait for cache
}

// maxSessions bounds a claim of sessions: each holds a page of cache at least.
const maxSessions = 1 << 20

// valid tells whether a load makes sense.
func (l *Load) valid() bool {
	count := func(n int) bool { return n >= 0 && n <= maxSessions }
	return l == nil || l.Busy >= 0 && l.Busy <= 1 && count(l.Sessions) && count(l.Waiting)
}

// Final tells whether a server has decided where it goes: it leaves its present span for
// the intended one, or joins there.
func (r *Record) Final() bool {
	return r.Next != nil && !r.Next.Open || r.Next == nil && r.State == Joining
}

// Choosing tells whether a server still chooses where to go.
func (r *Record) Choosing() bool { return r.Next != nil && r.Next.Open }

// valid tells whether an intent makes sense in a model of n blocks.
func (i *Intent) valid(n int) bool {
	if i == nil || i.Open && i.Span == (Span{}) {
		return i == nil || i.Since >= 0
	}
	return i.Since >= 0 && i.Span.Start >= 0 && i.Span.Start < i.Span.End && i.Span.End <= n
}
