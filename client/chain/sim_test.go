package chain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

// habit is what is wrong with a server of the simulation.
type habit string

const (
	honest  habit = ""
	dies    habit = "dies"    // and everybody who talks to it hears so
	hangs   habit = "hangs"   // and nobody does
	high    habit = "high"    // pushes rows one position too high
	low     habit = "low"     // and one too low
	keeps   habit = "keeps"   // computes and never pushes
	accuses habit = "accuses" // puts failures down to its neighbours
	caller  habit = "caller"  // says that its caller is at fault
	skews   habit = "skews"   // answers with rows that it has not
	parks   habit = "parks"   // gives sessions up, honestly
	slow    habit = "slow"    // takes a thousand times what it announces
	late    habit = "late"    // pushes after a while
	leaves  habit = "leaves"  // says that it will, and then does
)

var habits = []habit{dies, hangs, high, low, keeps, accuses, caller, skews, parks, slow, late, leaves}

// host is a server of the simulation; post is its part in the session.
type host struct {
	peer  swarm.PeerID
	span  swarm.Span
	habit habit
	from  time.Time // when the habit sets in
}

func (h *host) is(x habit, now time.Time) bool { return h.habit == x && !now.Before(h.from) }

type post struct {
	*host
	stage  int
	place  Place
	inputs []uint64
	expect int    // the next row of the predecessor's pushes; -1 for any
	told   uint32 // the epoch that the client is in with it
	over   bool
	said   bool // that it leaves
}

// notice is how long before it leaves a server says so.
const notice = 400 * time.Millisecond

// world runs a machine against servers whose messages arrive in order on each way and
// otherwise whenever they like.
type world struct {
	t     *testing.T
	r     *rand.Rand
	m     *Machine
	now   time.Time
	hosts []*host
	posts map[int]*post
	avoid map[swarm.PeerID]time.Time
	mail  []letter
	todo  []Action
	busy  bool
	last  map[string]time.Time // when the last letter of a way arrives

	rows     []uint64       // inputs of the session: its ids
	outs     map[int]uint64 // accepted
	next     int
	journals map[[2]int]uint64 // block, row
	seen     map[swarm.PeerID]string
	places   int
	deaf     map[[2]swarm.PeerID]bool // the second cannot be reached from the first
	passed   int                      // rows that the client passed on
	gone     int                      // servers that had left before their session went elsewhere
	done     bool
	err      error
}

type letter struct {
	at  time.Time
	way string
	do  func()
}

func (w *world) post(way string, d time.Duration, do func()) {
	at := w.now.Add(d)
	if l := w.last[way]; at.Before(l) {
		at = l
	}
	w.last[way] = at
	w.mail = append(w.mail, letter{at, way, do})
}

func (w *world) delay() time.Duration { return time.Duration(1+w.r.IntN(20)) * time.Millisecond }

// compute is what blocks make of rows: every output depends on all inputs before it.
func compute(s swarm.Span, inputs []uint64) []uint64 {
	rows := slices.Clone(inputs)
	for b := s.Start; b < s.End; b++ {
		sum := uint64(b)
		for i, v := range rows {
			sum = sum*0x9e3779b97f4a7c15 + v
			rows[i] = sum ^ sum>>29
		}
	}
	return rows
}

// tell hands an event to the machine and carries out what it says.
func (w *world) tell(e Event, rows []uint64) {
	epoch, known := w.m.epoch, w.m.find(e.Stage) != nil
	for _, a := range slices.Clone(w.m.Step(e, w.now)) {
		if (a.Kind == Take || a.Kind == Keep) && (e.Epoch != epoch || !known) {
			w.t.Fatalf("rows of epoch %d and stage %d are accepted in epoch %d", e.Epoch, e.Stage, epoch)
		}
		switch a.Kind {
		case Take:
			if a.From != w.next {
				w.t.Fatalf("rows %d:%d are taken where %d comes next", a.From, a.To, w.next)
			}
			for ; w.next < a.To; w.next++ {
				w.outs[w.next] = rows[w.next-e.From]
			}
		case Keep:
			for i := a.From; i < a.To; i++ {
				w.journals[[2]int{a.Block, i}] = rows[i-e.From]
			}
		case Finish:
			w.done, w.err = true, a.Err
		default:
			w.todo = append(w.todo, a)
		}
	}
	if w.busy {
		return
	}
	for w.busy = true; len(w.todo) > 0; {
		a := w.todo[0]
		w.todo = w.todo[1:]
		p := w.posts[a.Stage]
		if p != nil && p.over && a.Kind != Observe { // dropped
			continue
		}
		switch a.Kind {
		case Forget:
			for k := range w.journals {
				if k[0] == a.Block && k[1] >= a.From {
					delete(w.journals, k)
				}
			}
		case Plan:
			w.plan(a.Whole)
		case Relieve:
			w.relieve(a.From, a.To)
		case Compare:
			w.tell(Event{Kind: Compared, Stage: a.Stage, OK: w.r.IntN(2) == 0}, nil)
		case Dial:
			w.dial(a)
		case Open, Route:
			w.places++
			p.told = a.Place.Epoch
			w.send(p, func() { w.placed(p, a.Place) })
		case Ask:
			w.send(p, func() { w.answer(p, len(p.inputs)) })
		case Send:
			var rows []uint64
			for i := a.From; i < a.To; i++ {
				v := uint64(0)
				if p.span.Start == 0 {
					v = w.rows[i]
				} else {
					var ok bool
					if v, ok = w.journals[[2]int{p.span.Start, i}]; !ok {
						w.t.Fatalf("row %d is sent to %s and is not known", i, p.peer)
					}
				}
				rows = append(rows, v)
			}
			epoch := p.told
			w.send(p, func() { w.take(p, epoch, a.From, a.Want, rows, false) })
		case Drop:
			p.over = true
		case Observe:
			w.seen[a.Peer] += a.What.String() + " "
			w.avoid[a.Peer] = w.now
		}
	}
	w.busy = false
}

func (w *world) send(p *post, do func()) {
	w.post("client "+fmt.Sprint(p.stage), w.delay(), func() {
		if !p.over && !p.is(dies, w.now) && !p.is(hangs, w.now) {
			do()
		}
	})
}

// hear sends an event of a post to the machine.
func (w *world) hear(p *post, e Event, rows []uint64) {
	e.Stage = p.stage
	w.post(fmt.Sprint(p.stage)+" client", w.delay(), func() {
		if !p.over && !p.is(hangs, w.now) {
			w.tell(e, rows)
		}
	})
}

func (w *world) dial(a Action) {
	i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.peer == a.Hop.Peer })
	p := &post{host: w.hosts[i], stage: a.Stage, expect: -1}
	p.span = w.hosts[i].span
	q := *w.hosts[i]
	q.span = a.Hop.Span
	p.host = &q
	w.posts[a.Stage] = p
	w.post("dial", w.delay(), func() {
		if p.is(dies, w.now) {
			w.tell(Event{Kind: Lost, Stage: p.stage, What: swarm.Unreachable, Err: errors.New("refused")}, nil)
			return
		}
		w.tell(Event{Kind: Dialled, Stage: p.stage}, nil)
	})
	if p.habit == dies && w.now.Before(p.from) { // all its streams end when it dies
		w.post("end "+fmt.Sprint(a.Stage), p.from.Sub(w.now)+w.delay(), func() {
			w.tell(Event{Kind: Lost, Stage: p.stage, What: swarm.Vanished, Err: errors.New("reset")}, nil)
		})
	}
}

// plan covers what is missing with the servers that are not avoided, at random; those that
// failed last come last.
func (w *world) plan(whole bool) {
	var alive []Hop
	if !whole {
		alive = w.m.Alive()
	}
	var hops []Hop
	at := 0
	fill := func(end int) bool {
		for at < end {
			var best *host
			for _, i := range w.r.Perm(len(w.hosts)) {
				h := w.hosts[i]
				if h.span.Start > at || h.span.End <= at || h.is(leaves, w.now) || slices.ContainsFunc(hops, func(o Hop) bool { return o.Peer == h.peer }) ||
					slices.ContainsFunc(alive, func(o Hop) bool { return o.Peer == h.peer }) {
					continue
				}
				if best == nil || w.avoid[h.peer].Before(w.avoid[best.peer]) {
					best = h
				}
			}
			if best == nil {
				return false
			}
			to := min(best.span.End, end)
			hops = append(hops, Hop{Hop: swarm.Hop{Peer: best.peer, Span: swarm.Span{Start: at, End: to}}, Decode: time.Millisecond, Prefill: time.Millisecond})
			at = to
		}
		return true
	}
	for _, h := range append(slices.Clip(alive), Hop{Hop: swarm.Hop{Span: swarm.Span{Start: 6}}}) {
		if !fill(h.Span.Start) {
			w.tell(Event{Kind: Unplanned, Err: swarm.Errorf(swarm.CodeBlocksMissing, swarm.Elsewhere, "nobody")}, nil)
			return
		}
		if h.Peer != "" {
			hops = append(hops, h)
			at = h.Span.End
		}
	}
	w.tell(Event{Kind: Planned, Hops: hops}, nil)
}

func (w *world) placed(p *post, at Place) {
	if p.is(caller, w.now) && p.place.Epoch == 0 {
		w.hear(p, Event{Kind: Failed, Epoch: at.Epoch, Verdict: swarm.Caller, Code: "invalid_api_key"}, nil)
		return
	}
	if p.is(leaves, w.now.Add(-notice)) {
		w.hear(p, Event{Kind: Failed, Epoch: at.Epoch, Verdict: swarm.Elsewhere, Code: swarm.CodeDraining}, nil)
		return
	}
	w.goes(p)
	p.place, p.expect = at, -1
	if at.Resume > 0 {
		p.expect = at.Resume
	}
	p.inputs = p.inputs[:min(len(p.inputs), at.Truncate)]
	w.answer(p, len(p.inputs))
}

func (w *world) answer(p *post, rows int) {
	if p.is(skews, w.now) {
		rows += 1 + w.r.IntN(3)
	}
	w.hear(p, Event{Kind: Answered, Epoch: p.place.Epoch, To: rows}, nil)
}

// take is the server's side of rows, by the rules of package wire.
func (w *world) take(p *post, epoch uint32, from, want int, rows []uint64, pushed bool) {
	if p.over || p.is(dies, w.now) || p.is(hangs, w.now) || epoch < p.place.Epoch {
		return
	}
	if epoch > p.place.Epoch { // the predecessor is ahead
		w.post(fmt.Sprint("ahead ", p.stage), 5*time.Millisecond, func() { w.take(p, epoch, from, want, rows, pushed) })
		return
	}
	fail := func(v swarm.Verdict, c swarm.Code, peer swarm.PeerID) {
		w.hear(p, Event{Kind: Failed, Epoch: epoch, Verdict: v, Code: c, Peer: peer}, nil)
	}
	w.goes(p)
	if p.is(parks, w.now) {
		for _, h := range w.hosts { // once
			if h.peer == p.peer {
				h.habit = honest
			}
		}
		fail(swarm.Replay, swarm.CodeNoSession, "")
		return
	}
	if p.is(accuses, w.now) {
		fail(swarm.Elsewhere, swarm.CodePeerLost, []swarm.PeerID{p.place.Next, p.place.Prev, "nobody"}[w.r.IntN(3)])
		return
	}
	if p.is(caller, w.now) {
		fail(swarm.Caller, "invalid_api_key", "")
		return
	}
	if pushed {
		if p.expect >= 0 && from != p.expect {
			fail(swarm.Elsewhere, swarm.CodeBadFrame, p.place.Prev)
			return
		}
		p.expect = from + len(rows)
	}
	if from > len(p.inputs) {
		peer := swarm.PeerID("")
		if pushed {
			peer = p.place.Prev
		}
		fail(swarm.Replay, swarm.CodeGap, peer)
		return
	}
	before := len(p.inputs)
	if end := from + len(rows); end > before {
		p.inputs = append(p.inputs, rows[before-from:]...)
	}
	out := compute(p.span, p.inputs)
	have := len(p.inputs)
	if p.is(slow, w.now) {
		w.post(fmt.Sprint("compute ", p.stage), 4*time.Second, func() { w.give(p, epoch, before, have, want, out) })
		return
	}
	w.give(p, epoch, before, have, want, out)
}

// give sends what a post has made of rows before to have.
func (w *world) give(p *post, epoch uint32, before, have, want int, out []uint64) {
	if p.over || epoch != p.place.Epoch || p.is(dies, w.now) {
		return
	}
	if p.place.Next == "" {
		if at := max(before, want); at < have {
			w.hear(p, Event{Kind: Results, Epoch: epoch, From: at, To: have}, out[at:])
		}
	} else if at := max(before, p.place.Skip); p.place.Around {
		if at < have {
			w.passed += have - at
			w.hear(p, Event{Kind: Journalled, Epoch: epoch, From: at, To: have}, out[at:])
		}
	} else if at < have {
		w.push(p, epoch, at, want, out[at:])
	}
	if at := max(before, p.place.Journal); p.place.Journal >= 0 && !p.place.Around && at < have && w.r.IntN(10) > 0 { // now and then there is no room
		w.hear(p, Event{Kind: Journalled, Epoch: epoch, From: at, To: have}, out[at:])
	}
	w.hear(p, Event{Kind: Computed, Epoch: epoch, To: have}, nil)
}

func (w *world) push(p *post, epoch uint32, from, want int, rows []uint64) {
	switch {
	case p.is(keeps, w.now):
		return
	case p.is(high, w.now):
		from++
	case p.is(low, w.now):
		from = max(0, from-1)
	}
	for _, q := range w.posts {
		if q.peer != p.place.Next || q.over || q.place.Prev != "" && q.place.Prev != p.peer {
			continue
		}
		d := w.delay()
		if p.is(late, w.now) {
			d += 4 * time.Second
		}
		w.post(fmt.Sprint(p.stage, " ", q.stage, " ", epoch), d, func() {
			switch {
			case q.is(dies, w.now) || w.deaf[[2]swarm.PeerID{p.peer, q.peer}]:
				w.hear(p, Event{Kind: Failed, Epoch: epoch, Verdict: swarm.Elsewhere, Code: swarm.CodePeerLost, Peer: q.peer}, nil)
			default:
				w.take(q, epoch, from, want, rows, true)
			}
		})
	}
}

// run goes on until the call is over or a deadline.
func (w *world) run(limit time.Duration) {
	for end := w.now.Add(limit); !w.done && w.now.Before(end); {
		next, i := w.m.Next(), -1
		for j := range w.mail {
			if i < 0 || w.mail[j].at.Before(w.mail[i].at) {
				i = j
			}
		}
		if i >= 0 && (next.IsZero() || !next.Before(w.mail[i].at)) {
			l := w.mail[i]
			w.mail = slices.Delete(w.mail, i, i+1)
			w.now = l.at
			l.do()
			continue
		}
		if next.IsZero() {
			return
		}
		if next.After(w.now) {
			w.now = next
		}
		w.tell(Event{Kind: Tick}, nil)
	}
}

func newSim(t *testing.T, seed uint64, spans ...string) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 11)), m: New(params(6)), now: time.Unix(1000, 0), posts: map[int]*post{},
		avoid: map[swarm.PeerID]time.Time{}, last: map[string]time.Time{}, journals: map[[2]int]uint64{}, seen: map[swarm.PeerID]string{}, outs: map[int]uint64{},
	}
	for _, s := range spans {
		name, text, _ := strings.Cut(s, " ")
		span, err := swarm.ParseSpan(text)
		if err != nil {
			t.Fatal(err)
		}
		w.hosts = append(w.hosts, &host{peer: swarm.PeerID(name), span: span})
	}
	return w
}

// call is one advance by n rows.
func (w *world) call(n int) {
	for range n {
		w.rows = append(w.rows, w.r.Uint64())
	}
	want := max(0, len(w.rows)-1)
	w.next, w.done = want, false
	w.tell(Event{Kind: Advance, From: want, To: len(w.rows), Chunk: 1 + w.r.IntN(8)}, nil)
	w.run(10 * time.Minute)
}
