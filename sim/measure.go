package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// sampleEvery is how often the bottleneck is compared with the bound.
const sampleEvery = time.Minute

// measure keeps the figures of a run. What happens while the swarm warms up is in none.
type measure struct {
	sc      *Scenario
	rates   []float64 // per block, in truth
	counts  []int
	moves   int
	alarms  int // of the moves
	bytes   float64
	samples []Sample
	// moves and bytes when the swarm was warm
	warmMoves int
	warmBytes float64
	hours     float64 // of servers
	full      bool    // all blocks were held once
	holeOf    []*hole // per block
	holes     []*hole
	asked     float64
	served    float64
	limit     float64 // the last bound
	lines     []string
	past      time.Duration
}

// Sample is the state of the swarm at one time.
type Sample struct {
	At         time.Duration
	Servers    int
	Bottleneck float64
	Bound      float64
	Held       int // blocks
	Moves      int // since the start
}

// hole is a time in which some blocks had no holder.
type hole struct {
	from   time.Duration
	until  time.Duration // 0: it lasts
	blocks int           // that have none yet
	able   bool          // there were enough machines to fill it
}

func (m *measure) init(sc *Scenario) {
	m.sc = sc
	m.rates, m.counts, m.holeOf = make([]float64, sc.Blocks), make([]int, sc.Blocks), make([]*hole, sc.Blocks)
}

// add changes what serves a span.
func (m *measure) add(s swarm.Span, rate float64, count int) {
	for b := s.Start; b < s.End; b++ {
		m.rates[b] += rate
		if m.counts[b] += count; m.counts[b] == 0 {
			m.rates[b] = 0 // without what rounding left
		}
	}
}

// judge notes holes that open and close.
func (m *measure) judge(w *world) {
	if !m.full {
		m.full = !slices.Contains(m.counts, 0)
		return
	}
	var opened *hole
	for b, n := range m.counts {
		h := m.holeOf[b]
		switch {
		case n == 0 && h == nil:
			if opened == nil {
				opened = &hole{from: w.now}
				m.holes = append(m.holes, opened)
			}
			opened.blocks++
			m.holeOf[b] = opened
		case n > 0 && h != nil:
			if h.blocks--; h.blocks == 0 {
				h.until = w.now
			}
			m.holeOf[b] = nil
		}
	}
}

// pass lets time go by.
func (m *measure) pass(d time.Duration) {
	from := m.past
	m.past += d
	if m.past <= m.sc.Warm || d <= 0 {
		return
	}
	d = min(d, m.past-max(from, m.sc.Warm))
	want := m.sc.Demand * m.limit
	m.asked += want * d.Seconds()
	m.served += min(want, m.worst()) * d.Seconds()
}

func (m *measure) worst() float64 { return max(0, slices.Min(m.rates)) }

// sample compares with the bound.
func (w *world) sample() {
	m := &w.measure
	servers := w.machines()
	m.limit = bound(w.sc.Blocks, servers)
	s := Sample{At: w.now, Servers: len(servers), Bottleneck: m.worst(), Bound: m.limit, Moves: m.moves}
	for _, n := range m.counts {
		if n > 0 {
			s.Held++
		}
	}
	m.samples = append(m.samples, s)
	for _, h := range m.holes {
		if h.until == 0 && m.limit > 0 {
			h.able = true
		}
	}
	if w.now <= w.sc.Warm {
		m.warmMoves, m.warmBytes = m.moves, m.bytes
	} else {
		m.hours += float64(len(servers)) * sampleEvery.Hours()
	}
	w.after(sampleEvery, w.sample)
}

// maxLines bounds what a run tells of its moves.
const maxLines = 1000

// trace notes a move.
func (w *world) trace(s *server, d balance.Decision) {
	if len(w.lines) < maxLines && d.Reason != "" {
		w.lines = append(w.lines, fmt.Sprintf("%8.1fs %s: %s", w.now.Seconds(), s.Peer, d.Reason))
	}
}

// Result is what a run showed. The first fields are what scripts rely on.
type Result struct {
	Servers    int     `json:"servers"`
	Blocks     int     `json:"blocks"`
	Hours      float64 `json:"hours"`
	Moves      int     `json:"moves"`
	Bytes      float64 `json:"bytes_loaded"`
	Served     float64 `json:"served"`                // share of what readers wanted
	OverBound  float64 `json:"bottleneck_over_bound"` // mean over the minutes
	HealMedian float64 `json:"heal_seconds_median"`   // of the holes that machines could fill
	Seed       uint64  `json:"seed"`

	Scenario      string  `json:"scenario"`
	Policy        string  `json:"policy"`
	AlarmMoves    int     `json:"alarm_moves"`
	MovesPerHour  float64 `json:"moves_per_server_hour"`
	BytesPerHour  float64 `json:"bytes_per_server_hour"`
	WorstOver     float64 `json:"worst_minute_over_bound"`
	LastOver      float64 `json:"last_minute_over_bound"`
	Holes         int     `json:"holes"`
	HolesOpen     int     `json:"holes_open"`
	HealWorst     float64 `json:"heal_seconds_worst"`
	HealWithin    float64 `json:"heal_within_two_checks"`
	MovesLastHour int     `json:"moves_last_hour"`

	Sessions *Sessions `json:"sessions,omitempty"`

	Samples []Sample `json:"-"`
	Lines   []string `json:"-"` // the first moves, with their reasons
}

// Run plays a scenario by a rule.
func Run(sc *Scenario, rule Rule, seed uint64) *Result {
	w := newWorld(sc, rule, seed)
	w.run()
	return w.result(seed)
}

// result is what a run that has ended showed.
func (w *world) result(seed uint64) *Result {
	sc, m, rule := w.sc, &w.measure, w.rule
	r := &Result{Sessions: w.traffic.sessions(), Servers: len(w.servers), Blocks: sc.Blocks, Hours: sc.Length.Hours(), Moves: m.moves, Bytes: m.bytes, Seed: seed,
		Scenario: sc.Name, Policy: rule.Name(), AlarmMoves: m.alarms, Samples: m.samples, Lines: m.lines, WorstOver: math.Inf(1)}
	if m.asked > 0 {
		r.Served = m.served / m.asked
	}
	n := 0
	for _, s := range m.samples {
		if s.At > sc.Warm && s.Bound > 0 {
			over := s.Bottleneck / s.Bound
			r.OverBound += over
			r.WorstOver = min(r.WorstOver, over)
			r.LastOver = over
			n++
		}
		if s.At <= sc.Length-time.Hour {
			r.MovesLastHour = m.moves - s.Moves
		}
	}
	if n > 0 {
		r.OverBound /= float64(n)
	} else {
		r.WorstOver = 0
	}
	if m.hours > 0 {
		r.MovesPerHour, r.BytesPerHour = float64(m.moves-m.warmMoves)/m.hours, (m.bytes-m.warmBytes)/m.hours
	}
	var heals []float64
	for _, h := range m.holes {
		switch {
		case h.until > 0:
			heals = append(heals, (h.until - h.from).Seconds())
		case h.able:
			r.HolesOpen++
			heals = append(heals, (sc.Length - h.from).Seconds())
		default:
			continue
		}
		r.Holes++
	}
	slices.Sort(heals)
	if len(heals) > 0 {
		r.HealMedian, r.HealWorst = heals[(len(heals)-1)/2], heals[len(heals)-1]
		within := 0
		for _, h := range heals {
			if h <= 2*rule.check().Seconds() {
				within++
			}
		}
		r.HealWithin = float64(within) / float64(len(heals))
	}
	return r
}
