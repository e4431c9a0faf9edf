package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/dir"
	"whorl/swarm/health"
)

// epoch is when simulations begin.
var epoch = time.Unix(1_000_000_000, 0)

// server is one machine of a swarm.
type server struct {
	balance.Self
	id      int
	group   *Group
	pace    float64       // share of its rate that it computes at now
	load    time.Duration // of a block
	beside  bool
	night   float64    // hour of the day at which it leaves; NaN if it does not
	rng     *rand.Rand // for what befalls it; see draws
	life    int        // counts its stays: what was planned in an earlier one is void
	up      bool
	since   time.Duration // when it came
	looks   int           // checks that were planned
	loading bool
	serving *swarm.Span // in truth
	left    *swarm.Span // what it gave up before it chose anew
	rate    float64     // per block of it, in truth
	record  swarm.Record
	pilot   pilot
	side    int           // of a partition
	missed  time.Duration // until then others take it to be there, once it has left
	link    place
	boast   float64 // times what it gives
	polite  bool    // it said that it leaves, when it left last
}

// world is a swarm in virtual time.
type world struct {
	sc      *Scenario
	rule    Rule
	now     time.Duration
	events  events
	planned int
	servers []*server
	views   views
	past    health.Past
	orders  orders         // of the mind
	traffic *traffic       // nil: no readers
	seen    []swarm.Record // what it saw last, for its memory
	measure
}

type event struct {
	at time.Duration
	n  int // keeps the order of what happens at one time
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return cmp.Or(cmp.Compare(e[i].at, e[j].at), e[i].n-e[j].n) < 0 }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// after plans something.
func (w *world) after(d time.Duration, do func()) {
	w.planned++
	heap.Push(&w.events, event{w.now + max(0, d), w.planned, do})
}

// for s plans something for as long as this stay of the server lasts.
func (w *world) during(s *server, d time.Duration, do func()) {
	life := s.life
	w.after(d, func() {
		if s.life == life && s.up {
			do()
		}
	})
}

func (w *world) clock() time.Time { return epoch.Add(w.now) }

// seconds is a duration of so many.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// between draws evenly from a pair.
func between(rng *rand.Rand, p [2]float64) float64 { return p[0] + rng.Float64()*(p[1]-p[0]) }

// newWorld draws the machines. Each has a source of its own, so that what one policy does
// alters nothing of what comes.
func newWorld(sc *Scenario, rule Rule, seed uint64) *world {
	w := &world{sc: sc, rule: rule}
	w.measure.init(sc)
	total := 0
	for i := range sc.Groups {
		total += sc.Groups[i].Servers
	}
	names := rand.New(rand.NewPCG(seed, 1)).Perm(total)
	for i := range sc.Groups {
		g := &sc.Groups[i]
		for range g.Servers {
			id := len(w.servers)
			rng := rand.New(rand.NewPCG(seed, uint64(id)+2))
			s := &server{id: id, group: g, rng: rng, pace: 1, night: math.NaN()}
			s.Peer = swarm.PeerID(fmt.Sprintf("peer%05d", names[id]))
			s.Most = min(int(math.Round(between(rng, g.Span))), sc.Blocks)
			s.Least = g.Least
			s.Rate = g.Rate[0] * math.Pow(g.Rate[1]/g.Rate[0], rng.Float64())
			s.load = seconds(between(rng, g.Load))
			s.beside = rng.Float64() < g.Beside
			if rng.Float64() < g.Night {
				s.night = math.Mod(20+6*rng.Float64(), 24)
			}
			s.link, s.boast = g.Link.draw(rng), cmp.Or(g.Boast, 1)
			s.Network = s.link.rows(sc)
			w.servers = append(w.servers, s)
			w.after(seconds(between(rng, g.Start)), func() { w.come(s) })
		}
	}
	if total > maxViews {
		w.views = newShared(w)
	} else {
		w.views = newGossip(w, seed)
	}
	for _, i := range sc.Incidents {
		rng := rand.New(rand.NewPCG(seed, uint64(i.At)+uint64(len(i.Kind))))
		w.after(i.At, func() { w.befall(i, rng) })
	}
	if sc.Readers != nil {
		w.traffic = newTraffic(w, seed)
	}
	w.after(0, w.remember)
	w.after(sampleEvery, w.sample)
	return w
}

// run plays the scenario.
func (w *world) run() {
	for len(w.events) > 0 && w.events[0].at <= w.sc.Length {
		e := heap.Pop(&w.events).(event)
		w.measure.pass(e.at - w.now)
		w.now = e.at
		e.do()
	}
	w.measure.pass(w.sc.Length - w.now)
	w.now = w.sc.Length
}

// come starts a server.
func (w *world) come(s *server) {
	if s.up {
		return
	}
	s.life++
	s.up, s.since, s.loading, s.Span, s.left, s.record = true, w.now, false, nil, nil, swarm.Record{Seq: s.record.Seq}
	s.pilot = w.rule.pilot()
	w.views.come(s)
	w.lookIn(s, 0)
	if s.group.Life > 0 {
		stay := weibull(s.rng, s.group.Life, s.group.Shape)
		back, polite := between(s.rng, s.group.Away), s.rng.Float64() < s.group.Polite
		w.during(s, stay, func() { w.leave(s, polite, seconds(back)) })
	}
	if !math.IsNaN(s.night) {
		hour := math.Mod(w.now.Hours(), 24)
		w.during(s, seconds(3600*math.Mod(s.night-hour+24, 24)), func() { w.leave(s, true, 8*time.Hour) })
	}
}

// weibull draws the length of a stay with a mean, in seconds, and a shape.
func weibull(rng *rand.Rand, mean, shape float64) time.Duration {
	scale := mean / math.Gamma(1+1/shape)
	return seconds(scale * math.Pow(-math.Log(1-rng.Float64()), 1/shape))
}

// leave ends a stay. What others know of it ends at once after a word, and otherwise when
// the record expires.
func (w *world) leave(s *server, polite bool, back time.Duration) {
	s.life++
	s.up, s.loading, s.polite = false, false, polite
	w.serve(s, nil)
	if polite && s.record.State != swarm.Offline {
		s.record.State, s.record.Next = swarm.Offline, nil
		s.record.Seq++
		w.views.tell(s)
	} else {
		left := expiration - time.Duration(s.draws(w).Float64()*float64(renewal))
		s.missed = w.now + min(left, dir.PingRound(len(w.servers))/2+dir.PingTimeout)
		w.views.lose(s, left)
	}
	w.after(back, func() { w.come(s) })
}

// The product's figures: how long a record lives, and how often it is renewed.
const (
	expiration = 60 * time.Second
	renewal    = 30 * time.Second
)

// serve changes what a server serves in truth.
func (w *world) serve(s *server, span *swarm.Span) {
	if s.serving != nil {
		w.measure.add(*s.serving, -s.rate, -1)
	}
	if s.serving = span; span != nil {
		s.rate = s.offer(span.Len())
		w.measure.add(*span, s.rate, 1)
	}
	w.measure.judge(w)
}

// offer is what a server gives each block of a span of n, in truth.
func (s *server) offer(n int) float64 {
	m := machine{rate: s.Rate * s.pace, rows: s.Network}
	return m.offer(n)
}

// announce tells all what a server is about.
func (w *world) announce(s *server, state swarm.State, at swarm.Span, next *swarm.Intent) {
	s.record = swarm.Record{Peer: s.Peer, State: state, Span: at, Next: next, Seq: s.record.Seq + 1, Throughput: s.boasts(at.Len())}
	if w.traffic != nil {
		w.traffic.describe(s)
	}
	w.views.tell(s)
}

// lookIn plans a server's next check, in the place of the one that was planned.
func (w *world) lookIn(s *server, d time.Duration) {
	s.looks++
	n := s.looks
	w.during(s, d, func() {
		if s.looks == n {
			w.look(s)
		}
	})
}

// look is a server's check.
func (w *world) look(s *server) {
	if !s.up || s.loading {
		return
	}
	d := s.pilot.next(w, s)
	state, at := swarm.Online, d.Span
	if s.Span == nil {
		state = swarm.Joining
	} else {
		at = *s.Span
	}
	if next := s.pilot.intent(); s.record.Seq == 0 || s.record.State != state || !same(next, s.record.Next) || s.record.Span != at {
		if s.Span != nil || next != nil || d.Do == balance.Go {
			w.announce(s, state, at, next)
		}
	}
	if d.Do != balance.Go {
		w.lookIn(s, d.Again)
		return
	}
	w.move(s, d)
}

func same(a, b *swarm.Intent) bool { return a == b || a != nil && b != nil && *a == *b }

// move loads the blocks that a server lacks, and serves them. Without room for both it gives
// up the old ones first.
func (w *world) move(s *server, d balance.Decision) {
	s.loading = true
	lacks, old := d.Span.Len(), s.Span
	if s.left != nil {
		old, s.left = s.left, nil
	}
	if old != nil {
		lacks -= max(0, min(d.Span.End, old.End)-max(d.Span.Start, old.Start)) // who moves a little reads little
		w.measure.moves++
		if d.Alarm {
			w.measure.alarms++
		}
		if !s.beside || !w.rule.beside() {
			var kept *swarm.Span
			w.serve(s, kept)
		}
		w.trace(s, d)
	}
	w.measure.bytes += float64(lacks) * w.sc.BlockBytes
	w.during(s, time.Duration(lacks)*s.load, func() {
		s.loading, s.Span = false, &d.Span
		s.pilot.loaded(w)
		w.serve(s, &d.Span)
		w.announce(s, swarm.Online, d.Span, nil)
		w.lookIn(s, time.Duration(s.draws(w).Float64()*float64(2*w.rule.check())))
	})
}

// remember lets the memory of who came and went see the swarm.
func (w *world) remember() {
	w.seen = w.seen[:0]
	for _, s := range w.servers {
		if s.up && s.record.Seq > 0 {
			w.seen = append(w.seen, s.record)
		}
	}
	w.past.See(swarm.View{Servers: w.seen}, w.clock()) // it asks for no order
	w.after(renewal, w.remember)
}

// befall lets an incident happen.
func (w *world) befall(i Incident, rng *rand.Rand) {
	var here []*server
	for _, s := range w.servers {
		if s.up {
			here = append(here, s)
		}
	}
	rng.Shuffle(len(here), func(a, b int) { here[a], here[b] = here[b], here[a] })
	here = here[:int(math.Round(i.Share*float64(len(here))))]
	switch i.Kind {
	case "kill":
		for _, s := range here {
			w.leave(s, false, maxLength)
		}
	case "flap": // away for a minute, there for three
		until := w.now + i.Length
		for _, s := range here {
			var fall func()
			fall = func() {
				if w.now < until && s.up {
					w.leave(s, false, time.Minute)
				}
				if w.now < until {
					w.after(4*time.Minute, fall)
				}
			}
			w.after(seconds(240*rng.Float64()), fall)
		}
	case "slow":
		for _, s := range here {
			s.pace = i.Factor
			w.serve(s, s.serving)
		}
		// A server measures itself again in the background, and then says what it gives.
		for _, s := range here {
			w.after(5*time.Minute, func() {
				s.Rate, s.pace = s.Rate*s.pace, 1
				if s.up && s.Span != nil {
					w.serve(s, s.serving)
					w.announce(s, s.record.State, s.record.Span, s.record.Next)
				}
			})
		}
	case "partition":
		for _, s := range here {
			s.side = 1
		}
		w.views.cut()
		w.after(i.Length, func() {
			for _, s := range w.servers {
				s.side = 0
			}
			w.views.join()
		})
	}
}

// machines are those that are there and had the time to load what they hold.
func (w *world) machines() (all []machine) {
	for _, s := range w.servers {
		if s.up && s.side == 0 && w.now-s.since > time.Duration(s.Most)*s.load+joining {
			all = append(all, machine{s.Most, s.Least, s.Rate * s.pace, s.Network})
		}
	}
	slices.SortFunc(all, func(a, b machine) int { return cmp.Or(a.most-b.most, cmp.Compare(a.rate, b.rate)) })
	return all
}

// joining is what a newcomer may take beside loading: to choose.
const joining = 15 * time.Second
