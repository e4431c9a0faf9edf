package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// views is what servers know of each other.
type views interface {
	come(s *server)                        // it hears from its first peers
	tell(s *server)                        // it has a new record
	lose(s *server, expires time.Duration) // it is gone without a word
	census(s *server) *balance.Census
	view(s *server) swarm.View
	split()
	join()
}

// maxViews is up to how many servers each has a view of its own.
const maxViews = 500

// Figures of the directory (swarm/dir): how often a node asks, how many, whom it tells a new
// state at once, and how long that takes.
const (
	refresh = 3 * time.Second
	tellers = 3
	fanout  = 8
	oneWay  = 100 * time.Millisecond
)

// news is a record on its way to a server.
type news struct {
	at   time.Duration
	from int
	seq  uint64
}

// gossip gives every server its own view.
type gossip struct {
	w     *world
	rng   *rand.Rand
	nodes []*knower
	old   map[int]map[uint64]swarm.Record // records by server and sequence that somebody may not have yet
	parts bool
	// spread is how long records took to everybody, for the report.
	spread []time.Duration
}

// knower is what one server knows.
type knower struct {
	known  []uint64 // sequence, per server
	census *balance.Census
	coming []news
	phase  time.Duration // of its exchanges
}

func newGossip(w *world, seed uint64) *gossip {
	g := &gossip{w: w, rng: rand.New(rand.NewPCG(seed, 0)), old: map[int]map[uint64]swarm.Record{}}
	for range w.servers {
		g.nodes = append(g.nodes, &knower{phase: time.Duration(g.rng.Float64() * float64(refresh))})
	}
	return g
}

// come gives a newcomer what one server knows, and what is still on its way to that one.
func (g *gossip) come(s *server) {
	k := &knower{known: make([]uint64, len(g.nodes)), census: balance.Count(swarm.NewView(g.manifest(), g.w.clock(), nil), nil), phase: g.nodes[s.id].phase}
	g.nodes[s.id] = k
	var up []*server
	for _, o := range g.w.servers {
		if o.up && o != s && o.side == s.side {
			up = append(up, o)
		}
	}
	if len(up) == 0 {
		return
	}
	for _, o := range up {
		if o.record.Seq == 0 {
			continue
		}
		// Each record reached its first peers a while ago, or is on its way.
		k.coming = append(k.coming, news{g.w.now + oneWay + time.Duration(g.rng.Float64()*float64(oneWay)), o.id, o.record.Seq})
	}
}

func (g *gossip) manifest() swarm.Manifest { return swarm.Manifest{Name: "m", Blocks: g.w.sc.Blocks} }

// tell spreads a record: some hear it at once, the others when they ask one who has it.
func (g *gossip) tell(s *server) {
	if g.old[s.id] == nil {
		g.old[s.id] = map[uint64]swarm.Record{}
	}
	g.old[s.id][s.record.Seq] = s.record
	delete(g.old[s.id], s.record.Seq-64) // nobody is so far behind
	var up []*server
	for _, o := range g.w.servers {
		if o.up && o != s && o.side == s.side {
			up = append(up, o)
		}
	}
	heard := make(map[int]time.Duration, len(up)+1)
	heard[s.id] = g.w.now
	for _, i := range g.rng.Perm(len(up))[:min(fanout, len(up))] {
		heard[up[i].id] = g.w.now + oneWay
	}
	last := time.Duration(0)
	for cycle := 0; len(heard) <= len(up) && cycle < 20; cycle++ {
		slices.SortFunc(up, func(a, b *server) int { return int(g.nodes[a.id].phase - g.nodes[b.id].phase) })
		start := g.w.now - g.w.now%refresh + time.Duration(cycle)*refresh
		for _, o := range up {
			at := start + g.nodes[o.id].phase
			if _, ok := heard[o.id]; ok || at < g.w.now {
				continue
			}
			for range tellers {
				if t, ok := heard[up[g.rng.IntN(len(up))].id]; ok && t <= at {
					heard[o.id] = at + oneWay
					break
				}
			}
		}
	}
	for _, o := range up {
		if at, ok := heard[o.id]; ok {
			g.nodes[o.id].coming = append(g.nodes[o.id].coming, news{at, s.id, s.record.Seq})
			last = max(last, at-g.w.now)
		}
	}
	if len(up) > 1 && len(g.spread) < 10000 {
		g.spread = append(g.spread, last)
	}
}

// lose takes a server out of all views when its record expires.
func (g *gossip) lose(s *server, expires time.Duration) {
	if s.record.Seq == 0 {
		return
	}
	s.record.Seq++
	gone := swarm.Record{Peer: s.Peer, State: swarm.Offline, Seq: s.record.Seq}
	if g.old[s.id] == nil {
		g.old[s.id] = map[uint64]swarm.Record{}
	}
	g.old[s.id][gone.Seq] = gone
	for _, o := range g.w.servers {
		if o.up && o != s {
			g.nodes[o.id].coming = append(g.nodes[o.id].coming, news{g.w.now + expires, s.id, gone.Seq})
		}
	}
}

// hear takes in what has come by now.
func (g *gossip) hear(s *server) *knower {
	k := g.nodes[s.id]
	rest := k.coming[:0]
	for _, n := range k.coming {
		switch {
		case n.at > g.w.now:
			rest = append(rest, n)
		case n.seq > k.known[n.from]:
			if r, ok := g.old[n.from][n.seq]; ok {
				k.known[n.from] = n.seq
				g.w.lately(&r)
				k.census.Put(&r, false, g.w.past.Unsteady(r.Peer, g.w.clock()))
			}
		}
	}
	k.coming = rest
	return k
}

func (g *gossip) census(s *server) *balance.Census { return g.hear(s).census }

func (g *gossip) view(s *server) swarm.View {
	k := g.hear(s)
	var all []swarm.Record
	for i, seq := range k.known {
		if r, ok := g.old[i][seq]; ok && seq > 0 && r.State >= swarm.Joining {
			all = append(all, r)
		}
	}
	if s.record.Seq > 0 && s.record.State >= swarm.Joining {
		all = append(all, s.record)
	}
	return swarm.NewView(g.manifest(), g.w.clock(), all)
}

// split ends all talk between the sides of a partition: records of the other side expire.
func (g *gossip) split() {
	for _, o := range g.w.servers {
		for _, s := range g.w.servers {
			if o.up && s.up && o.side != s.side && s.record.Seq > 0 {
				// The same record is told again when the sides meet.
				k := g.nodes[o.id]
				w, gone := g.w, swarm.Record{Peer: s.Peer, State: swarm.Offline}
				w.after(expiration, func() {
					if o.side != s.side {
						g.hear(o)
						k.census.Put(&gone, false, false)
						k.known[s.id] = 0
					}
				})
			}
		}
	}
}

// join lets both sides hear of each other.
func (g *gossip) join() {
	for _, s := range g.w.servers {
		if s.up && s.record.Seq > 0 {
			g.tell(s)
		}
	}
}

// shared is one view for all, in which every record arrives after a time that small swarms
// need: see TestSpread.
type shared struct {
	w *world
	c *balance.Census
	r map[swarm.PeerID]swarm.Record
}

// spreadSmall is how long a record takes to everybody in a swarm of maxViews servers, and
// spreadDoubled what each doubling adds: asking three tellers, whoever lacks a record are
// fewer by much more than half in each round.
const (
	spreadSmall   = 4 * time.Second
	spreadDoubled = 500 * time.Millisecond
)

func newShared(w *world) *shared {
	return &shared{w, balance.Count(swarm.NewView(swarm.Manifest{Name: "m", Blocks: w.sc.Blocks}, epoch, nil), nil), map[swarm.PeerID]swarm.Record{}}
}

func (h *shared) delay() time.Duration {
	d := spreadSmall
	for n := len(h.w.servers); n > maxViews; n /= 2 {
		d += spreadDoubled
	}
	return d
}

func (h *shared) come(*server) {}

func (h *shared) tell(s *server) {
	r := s.record
	h.w.after(h.delay(), func() { h.put(r) })
}

func (h *shared) put(r swarm.Record) {
	if old, ok := h.r[r.Peer]; ok && old.Seq >= r.Seq {
		return
	}
	h.r[r.Peer] = r
	h.c.Put(&r, false, h.w.past.Unsteady(r.Peer, h.w.clock()))
}

func (h *shared) lose(s *server, expires time.Duration) {
	if s.record.Seq == 0 {
		return
	}
	s.record.Seq++
	gone := swarm.Record{Peer: s.Peer, State: swarm.Offline, Seq: s.record.Seq}
	h.w.after(expires, func() { h.put(gone) })
}

func (h *shared) census(*server) *balance.Census { return h.c }

func (h *shared) view(*server) swarm.View {
	all := make([]swarm.Record, 0, len(h.r))
	for _, r := range h.r {
		if r.State >= swarm.Joining {
			all = append(all, r)
		}
	}
	return swarm.NewView(swarm.Manifest{Name: "m", Blocks: h.w.sc.Blocks}, h.w.clock(), all)
}

func (h *shared) split() {}
func (h *shared) join()  {}

// lately has a record tell the load of the last while, as a node's memory has it.
func (w *world) lately(r *swarm.Record) {
	if r.Load == nil {
		return
	}
	busy, ok := w.past.Busy(r.Peer)
	if w.sc.Readers.Deaf || !ok {
		r.Load = nil
		return
	}
	load := *r.Load
	load.Busy = busy
	r.Load = &load
}
