package sched

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// The simulation is a closed loop of clients and a chain of stages, each with a queue as a
// server has it. What a stage takes for its rows and a client for its next row is given, and
// varies a little; everything else is the queue's own doing.

// ms is a time in milliseconds.
func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// engine is what iterations cost, in milliseconds: read bounds few rows, with a little for
// each; from some number on a row costs its arithmetic.
type engine struct{ base, row, full float64 }

func (e engine) took(rows int) float64 {
	return max(e.base+e.row*float64(rows), e.full*float64(rows))
}

// simClient asks for answers, one after another.
type simClient struct {
	away    float64       // ms from a result to the next row: head, sampling, network
	prompt  int           // rows; 8 if 0
	answer  int           // tokens; 96 if 0
	from    time.Duration // when it begins
	answers int           // how many; 0: for ever
	label   string
	// here is how many times as long it takes for its next row while others are computed, and
	// those with a row of it outside: it is a client on the stage's own machine. 0: it is elsewhere.
	here float64
}

type simWorld struct {
	rng    *rand.Rand
	now    time.Duration
	events simEvents
	order  int
	stages []*simStage
	users  []*simUser
}

type simStage struct {
	w      *simWorld
	q      *Queue
	engine engine
	busy   bool
	frames map[uint64]simFrame
	ids    uint64
	parts  int // decodes, of iterations that had any
	steps  int // those iterations
	waits  time.Duration
	worst  float64 // the longest wait, as a share of the time that everybody's rows take
	wake   int     // the last timer
}

type simFrame struct {
	user  *simUser
	class Class
	final bool // its last row gives a token
}

type simUser struct {
	simClient
	w        *simWorld
	id       Session
	left     int // tokens of the present answer
	out      bool
	started  time.Duration
	last     time.Duration   // the last token
	at       []time.Duration // of tokens
	gaps     []float64       // ms since the token before; 0 for the first of an answer
	prompted []float64       // ms from sending a prompt to its token
	done     int
}

type simEvent struct {
	at    time.Duration
	order int
	do    func()
}

type simEvents []simEvent

func (e simEvents) Len() int { return len(e) }
func (e simEvents) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}
func (e simEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *simEvents) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *simEvents) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func (w *simWorld) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, simEvent{w.now + d, w.order, do})
}

// vary is a time that differs from the mean as real ones do.
func (w *simWorld) vary(mean, by float64) time.Duration {
	return ms(mean * (1 + by*math.Abs(w.rng.NormFloat64())))
}

const hop = 0.15 // ms between two processes

// simulate runs for so long. hasty is the queue that neither waits nor divides.
func simulate(seed uint64, engines []engine, clients []simClient, hasty bool, long time.Duration) *simWorld {
	w := &simWorld{rng: rand.New(rand.NewPCG(seed, 11))}
	for _, e := range engines {
		s := &simStage{w: w, q: New(), engine: e, frames: map[uint64]simFrame{}}
		s.q.hasty = hasty
		w.stages = append(w.stages, s)
	}
	for i, c := range clients {
		c.prompt, c.answer = cmp.Or(c.prompt, 8), cmp.Or(c.answer, 96)
		u := &simUser{simClient: c, w: w, id: Session(i + 1)}
		w.users = append(w.users, u)
		for k, s := range w.stages {
			s.q.Open(u.id, fmt.Sprint("peer ", i), Key{Start: k, Whole: len(w.stages) == 1})
		}
		w.after(c.from, u.ask)
	}
	for len(w.events) > 0 && w.events[0].at <= long {
		e := heap.Pop(&w.events).(simEvent)
		w.now = e.at
		e.do()
	}
	return w
}

func (u *simUser) ask() {
	if u.answers > 0 && u.done == u.answers {
		return
	}
	u.done++
	u.left, u.started, u.last = u.answer, u.w.now, 0
	for left := u.prompt; left > 0; left -= 512 {
		class := Prefill
		if u.prompt == 1 {
			class = Decode
		}
		u.w.stages[0].arrive(simFrame{u, class, left <= 512}, min(left, 512))
	}
}

func (u *simUser) token() {
	u.out = false
	u.at = append(u.at, u.w.now)
	u.gaps = append(u.gaps, 0)
	if u.last > 0 {
		u.gaps[len(u.gaps)-1] = (u.w.now - u.last).Seconds() * 1000
	} else {
		u.prompted = append(u.prompted, (u.w.now-u.started).Seconds()*1000)
	}
	u.last = u.w.now
	if u.left--; u.left == 0 {
		u.w.after(ms(3), u.ask)
		return
	}
	u.w.stages[0].arrive(simFrame{u, Decode, true}, 1)
}

func (s *simStage) arrive(f simFrame, rows int) {
	s.ids++
	s.frames[s.ids] = f
	s.q.Push(s.w.now, f.user.id, s.ids, rows, f.class)
	s.turn()
}

// turn is the compute loop of a server.
func (s *simStage) turn() {
	if s.busy {
		return
	}
	grants, wait := s.q.Next(s.w.now, 512)
	if len(grants) == 0 {
		if wait > 0 {
			s.wake++
			me := s.wake
			s.w.after(wait, func() {
				if me == s.wake {
					s.turn()
				}
			})
		}
		return
	}
	s.wake++
	list := slices.Clone(grants)
	rows, decodes := 0, 0
	for _, g := range list {
		rows += g.Rows
		if s.frames[g.Item].class == Decode {
			decodes += g.Rows
		}
	}
	beside := 1.0
	for _, u := range s.w.users {
		if u.here > 0 && u.out {
			beside = 1.15
		}
	}
	took := s.w.vary(s.engine.took(rows)*beside, 0.03)
	if decodes > 0 {
		s.parts += decodes
		s.steps++
	}
	s.waits += s.q.Waited()
	s.worst = max(s.worst, s.q.Waited().Seconds()*1000/s.engine.took(len(s.w.users)))
	s.busy = true
	s.w.after(took, func() {
		s.busy = false
		s.q.Computed(s.w.now, took)
		for _, g := range list {
			f := s.frames[g.Item]
			if g.Last {
				delete(s.frames, g.Item)
			}
			s.leave(f, g)
		}
		s.turn()
	})
}

// leave sends the rows of a grant on.
func (s *simStage) leave(f simFrame, g Grant) {
	for i, t := range s.w.stages {
		if t == s && i+1 < len(s.w.stages) {
			next := s.w.stages[i+1]
			s.w.after(s.w.vary(hop, 0.3), func() { next.arrive(simFrame{f.user, f.class, f.final && g.Last}, g.Rows) })
			return
		}
	}
	if f.final && g.Last {
		away := f.user.away
		if u := f.user; u.here > 0 {
			u.out = true
			if items, _ := s.q.Len(); items > 0 {
				away *= u.here
			}
		}
		s.w.after(s.w.vary(away, 0.15), f.user.token)
	}
}

// quantile of values.
func quantile(v []float64, share float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[int(math.Ceil(share*float64(len(v))))-1]
}

// simResult is what users of one label got.
type simResult struct {
	label       string
	rate        float64 // tok/s of all
	median, p95 float64 // ms between tokens
}

// results of a span of time, by label, in the order of the users.
func (w *simWorld) results(from, to time.Duration) (out []simResult) {
	between := map[string][]float64{}
	for _, u := range w.users {
		i := slices.IndexFunc(out, func(r simResult) bool { return r.label == u.label })
		if i < 0 {
			i = len(out)
			out = append(out, simResult{label: u.label})
		}
		for k, at := range u.at {
			if at <= from || at > to {
				continue
			}
			out[i].rate += 1 / (to - from).Seconds()
			if gap := u.gaps[k]; gap > 0 {
				between[u.label] = append(between[u.label], gap)
			}
		}
	}
	for i := range out {
		r := &out[i]
		r.median, r.p95 = quantile(between[r.label], 0.5), quantile(between[r.label], 0.95)
	}
	return out
}

// clientsOf makes n alike, which begin one after the other.
func clientsOf(n int, away float64, label string) (out []simClient) {
	for i := range n {
		out = append(out, simClient{away: away, label: label, from: ms(float64(i) * 7)})
	}
	return out
}
