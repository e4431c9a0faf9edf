package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/route"
)

// Figures of the product: how often a running session looks for a better chain, how long one that was opened may be
// missing from records (client), over which time a server's busy share is a mean (server), and how long a server
// that failed is avoided.
const (
	improveEvery = 10 * time.Second
	fresh        = 5 * time.Second
	busyOver     = 10 * time.Second
	avoidFor     = time.Minute
)

// What is assumed of sessions: how long it takes to find out that a server is gone without a word, how often one
// without a chain tries again, and how long it does.
const (
	noticed   = 2 * time.Second
	retry     = time.Second
	patience  = time.Minute
	flowEvery = time.Second
)

// gate is a gateway, through which sessions come.
type gate struct {
	place
	id       int
	avoid    map[swarm.PeerID]time.Time
	observed map[swarm.PeerID]float64 // tokens per second through one block, as it saw them computed
	told     map[swarm.PeerID]swarm.Load
	view     swarm.View // made at a time, for all that ask at that time
	seen     time.Duration
}

// hop is a part of a session's chain.
type hop struct {
	server *server
	life   int // of the server, when it was chosen
	span   swarm.Span
}

// session is one answer that is being generated.
type session struct {
	*gate
	draw           uint64
	tokens, prompt float64
	left           float64 // tokens yet, and before the first one the prompt as tokens that take as long
	hops           []hop
	at             []float64     // seconds of a token at each of them
	link           float64       // seconds of a token on its way between machines
	step           float64       // seconds of a token
	wait           time.Duration // until then nothing is computed for it
	opened, moved  time.Duration
	looked         time.Duration // for a better chain
	stuck          time.Duration // since when it has no chain; 0: it has one
}

// traffic is all sessions of a world.
type traffic struct {
	w *world
	Readers
	rng   *rand.Rand // for who comes: nothing else draws from it, so that all policies have the same readers
	gates []*gate
	open  []*session
	known map[swarm.PeerID]*server
	near  []map[swarm.PeerID]float64 // per server
	queue []float64                  // per server: sessions that are there, waiting or computed, on average
	count []int                      // per server: sessions whose chain goes through it
	busy  []float64                  // per server: share of its time, averaged as servers do
	tally
}

func newTraffic(w *world, seed uint64) *traffic {
	n := len(w.servers)
	t := &traffic{w: w, Readers: *w.sc.Readers, rng: rand.New(rand.NewPCG(seed, 1<<40)), known: map[swarm.PeerID]*server{},
		queue: make([]float64, n), busy: make([]float64, n), count: make([]int, n)}
	for i := range t.Gateways {
		g := &gate{id: i, avoid: map[swarm.PeerID]time.Time{}, observed: map[swarm.PeerID]float64{}, told: map[swarm.PeerID]swarm.Load{}}
		g.place = t.Link.draw(t.rng)
		t.gates = append(t.gates, g)
	}
	for _, s := range w.servers {
		t.known[s.Peer] = s
		t.near = append(t.near, w.nearest(s))
	}
	w.after(flowEvery, t.tick)
	w.after(renewal, t.renew)
	t.next()
	return t
}

// next plans the arrival of a session: as many as Demand says come on average.
func (t *traffic) next() {
	mean := t.Tokens[0]
	if t.Tokens[1] > t.Tokens[0] {
		mean = (t.Tokens[1] - t.Tokens[0]) / math.Log(t.Tokens[1]/t.Tokens[0])
	}
	// Those that a day's hours bring fewer of are drawn and left out.
	peak := t.w.sc.Demand * t.w.measure.limit / mean * (1 + t.Day)
	gap := time.Minute
	if peak > 0 {
		gap = seconds(-math.Log(1-t.rng.Float64()) / peak)
	}
	draw, tokens, prompt, number := t.rng.Float64(), even(t.rng, t.Tokens), even(t.rng, t.Prompt), t.rng.Uint64()|1
	t.w.after(gap, func() {
		hour := 2 * math.Pi * t.w.now.Hours() / 24
		if peak > 0 && draw < (1-t.Day*math.Cos(hour))/(1+t.Day) {
			t.come(tokens, prompt, number)
		}
		t.next()
	})
}

// come opens a session.
func (t *traffic) come(tokens, prompt float64, number uint64) {
	tokens, prompt = math.Round(tokens), math.Round(prompt)
	x := &session{gate: t.gates[t.came%len(t.gates)], draw: number, tokens: tokens, prompt: prompt,
		left: tokens + prompt/route.DefaultPatience().ForwardTimes, opened: t.w.now, moved: t.w.now, looked: t.w.now}
	t.arrived(x)
	if !t.find(x, swarm.Span{End: t.w.sc.Blocks}) {
		t.refused++
		return
	}
	t.open = append(t.open, x)
}

// describe has a record say what the product's say beside the span.
func (t *traffic) describe(s *server) {
	rps := s.Rate * s.boast
	s.record.Rates.InferenceRPS = &rps
	if rows := s.Network; rows > 0 {
		s.record.Rates.NetworkRPS = &rows
	}
	s.record.CacheTotal, s.record.CacheLeft, s.record.NextRTT = swarm.MaxTokens, swarm.MaxTokens, t.near[s.id]
	if s.record.State == swarm.Online {
		load := t.load(s)
		s.record.Load = &load
	}
}

// load is what a server says that it has to do.
func (t *traffic) load(s *server) swarm.Load {
	return swarm.Load{Busy: min(1, math.Round(100*t.busy[s.id])/100), Sessions: t.count[s.id]}
}

// renew has all servers announce themselves anew, as they do to tell of their load.
func (t *traffic) renew() {
	for _, s := range t.w.servers {
		if s.up && s.record.State == swarm.Online {
			t.w.during(s, time.Duration(s.draws(t.w).Float64()*float64(renewal)), func() {
				t.w.announce(s, s.record.State, s.record.Span, s.record.Next)
			})
		}
	}
	t.w.after(renewal, t.renew)
}

// view is what a gateway knows: what a server beside it does, and with Routes so what the servers of its sessions
// say with their results.
func (t *traffic) view(g *gate) swarm.View {
	if g.seen != t.w.now || len(g.view.Servers) == 0 {
		g.view, g.seen = t.look(g), t.w.now
	}
	return g.view
}

func (t *traffic) look(g *gate) swarm.View {
	var up []*server
	for _, s := range t.w.servers {
		if s.up && s.side == 0 && s.record.Seq > 0 {
			up = append(up, s)
		}
	}
	if len(up) == 0 {
		return swarm.NewView(swarm.Manifest{Name: "m", Blocks: t.w.sc.Blocks}, t.w.clock(), nil)
	}
	v := t.w.views.view(up[g.id*len(up)/len(t.gates)])
	if t.Routes == "told" || t.Routes == "better" {
		for i := range v.Servers {
			if load, ok := g.told[v.Servers[i].Peer]; ok {
				v.Servers[i].Load = &load
			}
		}
	}
	return v
}

// query asks for a chain of a session, or a part of it.
func (t *traffic) query(x *session, span swarm.Span) route.Query {
	for p, at := range x.avoid {
		if t.w.clock().Sub(at) > avoidFor {
			delete(x.avoid, p)
		}
	}
	q := route.Query{View: t.view(x.gate), Range: span, Tokens: int(x.tokens + x.prompt), Avoid: x.avoid, Params: route.DefaultParams(),
		RTT: func(p swarm.PeerID) (time.Duration, bool) { return x.round(t.known[p].link), true },
		Observed: func(p swarm.PeerID) (float64, bool) {
			rps, ok := x.observed[p]
			return rps, ok
		}}
	if t.Routes != "best" {
		q.Draw = x.draw
		mine := map[swarm.PeerID]int{}
		for _, o := range t.open {
			if o.gate == x.gate && t.w.now-o.opened <= fresh {
				for _, h := range o.hops {
					mine[h.server.Peer]++
				}
			}
		}
		q.Mine = func(p swarm.PeerID) int { return mine[p] }
	}
	return q
}

// find gives a session a chain for a span that it has none for: all blocks, or those of servers that are gone. It
// tries again where a server that it was told of is gone.
func (t *traffic) find(x *session, span swarm.Span) bool {
	var before, after []hop
	for _, h := range x.hops {
		switch {
		case h.span.End <= span.Start:
			before = append(before, h)
		case h.span.Start >= span.End:
			after = append(after, h)
		}
	}
	q := t.query(x, span)
	if len(before) == 0 && len(after) == 0 {
		q.Prompt = int(x.prompt)
	}
	if len(before) > 0 {
		q.From = before[len(before)-1].server.Peer
	}
	if len(after) > 0 {
		q.To = after[0].server.Peer
	}
	for range 4 {
		c, err := route.Plan(q)
		if err != nil {
			return false
		}
		hops, gone := t.hops(c.Hops)
		if gone == nil {
			t.take(x, slices.Concat(before, hops, after))
			return true
		}
		x.avoid[gone.Peer] = t.w.clock()
		x.wait = max(x.wait, t.w.now) + noticed
	}
	return false
}

// hops are the servers of a chain; gone is one that does not serve its hop in truth.
func (t *traffic) hops(chain []swarm.Hop) (hops []hop, gone *server) {
	for _, h := range chain {
		s := t.known[h.Peer]
		x := hop{s, s.life, h.Span}
		if !x.there() {
			return nil, s
		}
		hops = append(hops, x)
	}
	return hops, nil
}

// there tells whether a server still serves a hop.
func (h hop) there() bool {
	return h.server.up && h.server.side == 0 && h.server.life == h.life && h.server.serving != nil && h.server.serving.Contains(h.span)
}

// take changes a session's chain. Servers that are new to it are fed its rows so far; who has none yet waits for its
// prompt to pass the lines.
func (t *traffic) take(x *session, hops []hop) {
	replay, rows := 0.0, x.rows()
	for _, h := range hops {
		if !slices.Contains(x.hops, h) {
			replay += rows * float64(h.span.Len()) / (h.server.Rate * h.server.pace * route.DefaultPatience().ForwardTimes)
			t.count[h.server.id]++
		}
	}
	for _, h := range x.hops {
		if !slices.Contains(hops, h) {
			t.count[h.server.id]--
		}
	}
	x.wait = max(x.wait, t.w.now) + seconds(replay)
	x.hops, x.at, x.moved = hops, nil, t.w.now
	at, first := x.place, 0.0
	x.link = 0
	for _, h := range hops {
		x.link += at.message(h.server.link, t.Row) + route.DefaultParams().HopOverhead.Seconds()
		first = max(first, at.message(h.server.link, t.Row*x.prompt)-at.message(h.server.link, 0))
		at = h.server.link
	}
	x.link += at.message(x.place, t.Row)
	if rows == 0 {
		x.wait += seconds(first)
	}
}

// rows is how many a new server must be fed.
func (x *session) rows() float64 {
	done := x.tokens - x.left
	if done <= 0 {
		return 0
	}
	return x.prompt + done
}
