package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/dir"
)

// oneWay is how long a message of the directory takes.
const oneWay = 100 * time.Millisecond

// refresh is how often a node asks its tellers.
var refresh = dir.DefaultConfig().Refresh

// gossip gives every server a directory of its own (dir.Book), which passes on what is new as in the product: whoever
// has something new tells some at once, and everybody asks tellers in each refresh, a node that the operator
// named among them. While nobody has anything to tell, nobody asks.
type gossip struct {
	w     *world
	rng   *rand.Rand
	first *knower   // that all begin with
	nodes []*knower // per server
	order []*knower // by name
	names map[swarm.PeerID]*knower
	moved time.Duration // when somebody last learned anything
	doze  bool          // some do not ask
	spread
}

// knower is one node.
type knower struct {
	server  *server // nil: the first
	book    *dir.Book
	census  *balance.Census
	phase   time.Duration // of its refreshes
	ticking bool
	met     []bool // per server: it is connected if that is there
}

const firstPeer = swarm.PeerID("first")

// quiet is for how long nobody must have learned anything until all is known to everybody.
var quiet = 3 * refresh

func newGossip(w *world, seed uint64) *gossip {
	g := &gossip{w: w, rng: rand.New(rand.NewPCG(seed, 0)), names: map[swarm.PeerID]*knower{}}
	node := func(s *server, name swarm.PeerID) *knower {
		k := &knower{server: s, phase: time.Duration(g.rng.Float64() * float64(refresh))}
		g.names[name] = k
		g.begin(k, name)
		return k
	}
	g.first = node(nil, firstPeer)
	for _, s := range w.servers {
		g.nodes = append(g.nodes, node(s, s.Peer))
	}
	g.order = slices.SortedFunc(slices.Values(g.nodes), func(a, b *knower) int { return cmp.Compare(a.server.Peer, b.server.Peer) })
	g.doze = true
	return g
}

// begin makes a node one that knows nobody.
func (g *gossip) begin(k *knower, name swarm.PeerID) {
	k.book = dir.NewBook(name, g.manifest())
	k.census = balance.Count(swarm.NewView(g.manifest(), g.w.clock(), nil), nil)
	k.met = make([]bool, len(g.w.servers))
}

func (g *gossip) manifest() swarm.Manifest { return swarm.Manifest{Name: "m", Blocks: g.w.sc.Blocks} }

// here tells whether a node is there, on a side of a partition.
func (k *knower) here(side int) bool {
	if k.server == nil {
		return side == 0
	}
	return k.server.up && k.server.side == side
}

func (k *knower) side() int {
	if k.server == nil {
		return 0
	}
	return k.server.side
}

// come has a newcomer ask the first node, or any other that it can reach.
func (g *gossip) come(s *server) {
	k := g.nodes[s.id]
	g.begin(k, s.Peer)
	teller := g.first
	if !teller.here(s.side) {
		for _, o := range g.order { // it remembers whom it saw
			if o != k && o.here(s.side) {
				teller = o
				break
			}
		}
	}
	g.rouse(k)
	if teller.here(s.side) {
		g.exchange(k, teller)
	}
}

// connected are the peers that a node has a connection to: the first, and all that it has reached and that are there.
func (g *gossip) connected(k *knower) (all []swarm.PeerID) {
	if k != g.first && g.first.here(k.side()) {
		all = append(all, firstPeer)
	}
	for _, o := range g.order {
		if k.met[o.server.id] && o != k && o.here(k.side()) {
			all = append(all, o.server.Peer)
		}
	}
	return all
}

// exchange lets a node ask a teller.
func (g *gossip) exchange(k, teller *knower) {
	if k.book.Exchange(teller.book, teller == g.first, g.w.clock()) {
		g.learn(k)
		g.learn(teller)
		g.news()
	}
}

// learn has a node's census follow what its book says.
func (g *gossip) learn(k *knower) {
	changed := k.book.Changed()
	for _, p := range changed {
		r, met := k.book.Row(p, g.w.clock())
		k.met[g.names[p].server.id] = r != nil && met
		if r == nil {
			k.census.Put(&swarm.Record{Peer: p, State: swarm.Offline}, false, false)
			continue
		}
		told := *r
		g.w.lately(&told)
		k.census.Put(&told, !met, g.unsteady(k.server, p))
		g.spread.heard(k, r, g.w.now)
	}
	if len(changed) == 0 || k.server == nil || k.server.Span == nil {
		return
	}
	if p, ok := k.server.pilot.(*ourPilot); ok && p.alarmed(k.census) {
		g.w.lookIn(k.server, time.Duration(g.rng.Float64()*float64(lookEvery)))
	}
}

// news has everybody ask who does not: there is something to tell.
func (g *gossip) news() {
	if g.moved = g.w.now; !g.doze {
		return
	}
	g.doze = false
	g.rouse(g.first)
	for _, k := range g.nodes {
		g.rouse(k)
	}
}

// rouse has a node that is there ask its tellers from its next refresh on.
func (g *gossip) rouse(k *knower) {
	if k.ticking || k.server != nil && !k.server.up {
		return
	}
	k.ticking = true
	wait := k.phase - g.w.now%refresh
	if wait <= 0 {
		wait += refresh
	}
	g.w.after(wait, func() { g.tick(k) })
}

// tell spreads a record: some hear it at once, the others when they ask one who has it.
func (g *gossip) tell(s *server) {
	k := g.nodes[s.id]
	k.book.Announce(s.record, g.w.clock())
	g.spread.told(g, s)
	g.learn(k)
	g.news()
	if !s.up { // its last word
		g.ask(k, dir.Fanout)
		g.expire(s, expiration)
		return
	}
	g.w.during(s, oneWay, func() { g.ask(k, dir.Fanout) })
}

// ask has a node ask some tellers.
func (g *gossip) ask(k *knower, n int) {
	for _, p := range k.book.Tellers(n, []swarm.PeerID{firstPeer}, g.connected(k), g.w.clock()) {
		g.exchange(k, g.names[p])
	}
}

// tick is a refresh.
func (g *gossip) tick(k *knower) {
	if k.ticking = k.server == nil || k.server.up; !k.ticking {
		return
	}
	g.ask(k, dir.Tellers)
	for _, p := range k.book.Unmet(g.w.clock()) {
		if g.ping(k, p) {
			g.news()
		}
	}
	if k.ticking = g.w.now-g.moved < quiet; k.ticking {
		g.w.after(refresh, func() { g.tick(k) })
	} else {
		g.doze = true
	}
}

// ping has a node measure another, and tells whether that answers.
func (g *gossip) ping(k *knower, p swarm.PeerID) bool {
	answers := g.names[p].here(k.side())
	k.book.Ping(p, answers, g.rng.Float64(), g.w.clock())
	g.learn(k)
	return answers
}

// lose has the others find out that a server is gone: each when it pings it, or when the record expires.
func (g *gossip) lose(s *server, expires time.Duration) {
	if s.record.Seq == 0 {
		return
	}
	for _, k := range g.nodes {
		if k.here(s.side) {
			g.miss(k, s)
		}
	}
	g.expire(s, expires)
}

// miss has a node find out, when it pings a server next, that it is out of reach.
func (g *gossip) miss(k *knower, s *server) {
	seq := s.record.Seq
	wait := time.Duration(g.rng.Float64() * float64(dir.PingRound(len(g.nodes))))
	g.w.during(k.server, wait+dir.PingTimeout, func() {
		if r, _ := k.book.Row(s.Peer, g.w.clock()); r != nil && r.Seq == seq && (!s.up || s.side != k.side()) {
			g.ping(k, s.Peer)
		}
	})
}

// expire takes a record out of all books when its time is over.
func (g *gossip) expire(s *server, expires time.Duration) {
	seq := s.record.Seq
	g.w.after(expires, func() {
		for _, k := range append([]*knower{g.first}, g.nodes...) {
			if s.up && s.record.Seq == seq && k.side() == s.side { // a partition: its own side hears it renew its record
				continue
			}
			k.book.Strike(s.Peer, seq)
			g.learn(k)
		}
	})
}

// census is what a server decides by. The running one counts all as reached.
func (g *gossip) census(s *server) *balance.Census {
	k := g.nodes[s.id]
	if !k.book.Strangers() {
		return k.census
	}
	v := g.view(s)
	for i := range v.Servers {
		g.w.lately(&v.Servers[i])
	}
	count := balance.Count
	if s.Span == nil {
		count = balance.CountNew
	}
	return count(v, func(p swarm.PeerID) bool { return g.unsteady(s, p) })
}

// unsteady tells whether a server takes another for one that comes and goes; it knows nothing of its own past.
func (g *gossip) unsteady(s *server, p swarm.PeerID) bool {
	return (s == nil || s.Peer != p) && g.w.past.Unsteady(p, g.w.clock())
}

func (g *gossip) view(s *server) swarm.View { return g.nodes[s.id].book.View(g.w.clock()) }

// cut ends all talk between the sides of a partition, and join lets them talk again.
func (g *gossip) cut() {
	for _, s := range g.w.servers {
		if !s.up || s.record.Seq == 0 {
			continue
		}
		for _, k := range g.nodes {
			if k.server.up && k.side() != s.side {
				g.miss(k, s)
			}
		}
		g.expire(s, expiration)
	}
}

func (g *gossip) join() {
	for _, s := range g.w.servers {
		if s.up && s.record.Seq > 0 {
			s.record.Seq++
			g.tell(s)
		}
	}
}

// spread measures how long records take to everybody, where it is asked for.
type spread struct {
	on    bool
	under map[swarm.PeerID]*telling
	took  []time.Duration // to the last, per record
	each  []time.Duration // to each
}

// telling is a record that is on its way.
type telling struct {
	seq  uint64
	at   time.Duration
	lack map[*knower]bool
}

func (m *spread) told(g *gossip, s *server) {
	if !m.on {
		return
	}
	if m.under == nil {
		m.under = map[swarm.PeerID]*telling{}
	}
	t := &telling{seq: s.record.Seq, at: g.w.now, lack: map[*knower]bool{}}
	for _, k := range g.nodes {
		if k.server != s && k.here(s.side) {
			t.lack[k] = true
		}
	}
	m.under[s.Peer] = t
}

func (m *spread) heard(k *knower, r *swarm.Record, now time.Duration) {
	t := m.under[r.Peer]
	if t == nil || r.Seq < t.seq || !t.lack[k] {
		return
	}
	delete(t.lack, k)
	m.each = append(m.each, now-t.at)
	if len(t.lack) == 0 {
		m.took = append(m.took, now-t.at)
		delete(m.under, r.Peer)
	}
}
