package balance

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
)

// world is a swarm in which records take their time: each reaches each other server after
// its own delay.
type world struct {
	cfg    Config
	blocks int
	rng    *rand.Rand
	delay  func() time.Duration
	load   time.Duration // of a span
	now    time.Duration // since the start
	nodes  []*node
	events events
	moves  int
	trace  func(format string, a ...any)
	broke  []string // blocks that a mover left without a holder
}

type node struct {
	Self
	mover   Mover
	record  swarm.Record
	seen    map[swarm.PeerID]swarm.Record
	dead    bool
	loading bool
}

type event struct {
	at time.Duration
	n  int // keeps order
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return cmp.Or(cmp.Compare(e[i].at, e[j].at), e[i].n-e[j].n) < 0 }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any          { x := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return x }

func newWorld(blocks int, seed uint64) *world {
	w := &world{cfg: DefaultConfig(), blocks: blocks, rng: rand.New(rand.NewPCG(seed, 7)), load: time.Second}
	w.delay = func() time.Duration { return time.Duration(w.rng.Float64() * float64(3*time.Second)) }
	w.trace = func(string, ...any) {}
	return w
}

var count int

func (w *world) after(d time.Duration, do func()) {
	count++
	heap.Push(&w.events, event{w.now + d, count, do})
}

func (w *world) clock() time.Time { return time.Unix(1e9, 0).Add(w.now) }

// start adds a server after a time: a newcomer of n blocks, or one that serves a span.
func (w *world) start(d time.Duration, id string, n int, rate float64, span string) *node {
	x := &node{Self: Self{Peer: swarm.PeerID(id), Most: n, Declared: rate}, seen: map[swarm.PeerID]swarm.Record{}}
	w.after(d, func() {
		for _, o := range w.nodes { // who starts hears of those that are there
			if !o.dead {
				w.tell(o.record, x)
			}
		}
		w.nodes = append(w.nodes, x)
		if span != "" {
			s, err := swarm.ParseSpan(span)
			if err != nil {
				panic(err)
			}
			x.Span, x.Most = &s, s.Len()
			w.announce(x, swarm.Online, swarm.Span{})
			w.after(5*time.Second+time.Duration(w.rng.Float64()*float64(w.cfg.Check)), func() { w.look(x) })
			return
		}
		w.look(x)
	})
	return x
}

func (w *world) announce(x *node, s swarm.State, at swarm.Span) {
	x.record = swarm.Record{Peer: x.Peer, State: s, Throughput: x.Declared, Seq: x.record.Seq + 1, Next: x.mover.Intent()}
	if x.record.Span = at; x.Span != nil {
		x.record.Span = *x.Span
	}
	r := x.record
	x.seen[x.Peer] = r
	for _, o := range w.nodes {
		if o != x {
			w.tell(r, o)
		}
	}
}

func (w *world) tell(r swarm.Record, o *node) {
	w.after(w.delay(), func() {
		if old, ok := o.seen[r.Peer]; !ok || old.Seq < r.Seq {
			o.seen[r.Peer] = r
		}
	})
}

func (w *world) view(x *node) swarm.View {
	var all []swarm.Record
	for _, r := range x.seen {
		all = append(all, r)
	}
	return swarm.NewView(swarm.Manifest{Name: "m", Blocks: w.blocks}, w.clock(), all)
}

// look is what a server's loop does.
func (w *world) look(x *node) {
	if x.dead || x.loading {
		return
	}
	before := x.mover.Intent()
	d := x.mover.Next(w.cfg, Count(w.view(x), nil), x.Self, w.clock())
	w.trace("%6.1fs %s %v %v: %s", w.now.Seconds(), x.Peer, d.Do, d.Span, d.Reason)
	state := swarm.Online
	if x.Span == nil {
		state = swarm.Joining
	}
	if x.mover.Intent() != before {
		w.announce(x, state, d.Span)
	}
	if d.Do != Go {
		w.after(d.Again, func() { w.look(x) })
		return
	}
	x.loading = true
	w.after(w.load, func() {
		if x.dead {
			return
		}
		if x.Span != nil {
			w.moves++
			w.leaves(x, d.Span)
		}
		x.loading, x.Span = false, &d.Span
		x.mover.Loaded(w.clock())
		w.announce(x, swarm.Online, swarm.Span{})
		w.after(w.cfg.Check, func() { w.look(x) })
	})
}

// leaves notes the blocks that nobody else holds.
func (w *world) leaves(x *node, to swarm.Span) {
	c := w.counts()
	for b := x.Span.Start; b < x.Span.End; b++ {
		if c[b] == 1 && !to.Holds(b) {
			w.broke = append(w.broke, fmt.Sprintf("%s left block %d alone at %v", x.Peer, b, w.now))
		}
	}
}

// counts is how many servers hold each block in truth.
func (w *world) counts() []int {
	c := make([]int, w.blocks)
	for _, x := range w.nodes {
		if !x.dead && x.Span != nil {
			for b := x.Span.Start; b < x.Span.End; b++ {
				c[b]++
			}
		}
	}
	return c
}

// rates is what each block has in truth.
func (w *world) rates() []float64 {
	t := make([]float64, w.blocks)
	for _, x := range w.nodes {
		if !x.dead && x.Span != nil {
			for b := x.Span.Start; b < x.Span.End; b++ {
				t[b] += x.Declared
			}
		}
	}
	return t
}

// kill ends a server; others hear of it when its record expires.
func (w *world) kill(x *node, heard time.Duration) {
	x.dead = true
	for _, o := range w.nodes {
		w.after(heard, func() { delete(o.seen, x.Peer) })
	}
}

func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

func (w *world) covered() (n int) {
	for _, c := range w.counts() {
		if c > 0 {
			n++
		}
	}
	return n
}

func (w *world) bottleneck() float64 { return slices.Min(w.rates()) }
