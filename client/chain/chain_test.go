package chain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

// rig drives a machine by hand: a session over stages of two blocks each.
type rig struct {
	t    *testing.T
	m    *Machine
	now  time.Time
	acts []Action // of the last step
	log  []string // who was dropped and observed since the last look
}

func params(blocks int) Params {
	return Params{
		Blocks: blocks, MaxLength: 99, Open: 5 * time.Second, Probe: 2 * time.Second, Answer: 2 * time.Second, Step: 30 * time.Second,
		Recover: 30 * time.Second, First: 3 * time.Second, Backoff: 50 * time.Millisecond, Pages: 100, PageRows: 4,
		Frame: func(_, to, _ int) int { return to },
	}
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, m: New(params(6)), now: time.Unix(1000, 0)}
}

func (r *rig) step(e Event) []Action {
	r.acts = append(r.acts[:0], r.m.Step(e, r.now)...)
	for _, a := range r.acts {
		if a.Kind == Observe {
			r.log = append(r.log, fmt.Sprintf("%s %s", a.Peer, a.What))
		}
	}
	return r.acts
}

func (r *rig) has(k ActionKind) bool {
	return slices.ContainsFunc(r.acts, func(a Action) bool { return a.Kind == k })
}

// chain plans a chain of peers, two blocks each, around the stages that live.
func (r *rig) chain(peers ...swarm.PeerID) {
	r.t.Helper()
	if !r.has(Plan) {
		r.t.Fatalf("no plan is asked for: %+v", r.acts)
	}
	alive, hops := r.m.Alive(), make([]Hop, len(peers))
	for i, p := range peers {
		hops[i] = Hop{Hop: swarm.Hop{Peer: p, Span: swarm.Span{Start: 2 * i, End: 2*i + 2}}, Decode: 10 * time.Millisecond, Prefill: time.Millisecond}
		if j := slices.IndexFunc(alive, func(h Hop) bool { return h.Peer == p }); j >= 0 {
			hops[i].Stage = alive[j].Stage
		}
	}
	for _, a := range slices.Clone(r.step(Event{Kind: Planned, Hops: hops})) {
		if a.Kind == Dial {
			r.step(Event{Kind: Dialled, Stage: a.Stage})
		}
	}
	for _, a := range slices.Clone(r.acts) {
		if a.Kind == Open || a.Kind == Route {
			r.step(Event{Kind: Answered, Stage: a.Stage, Epoch: a.Place.Epoch, To: a.Place.Truncate})
		}
	}
}

// whole is a session whose ten prompt rows are computed by stages 1, 2, 3 of servers a, b, c,
// with the row after them on its way.
func wholeRig(t *testing.T) *rig {
	r := newRig(t)
	r.step(Event{Kind: Advance, Chunk: 100})
	r.chain("a", "b", "c")
	if !r.has(Finish) {
		t.Fatalf("the chain is not whole: %+v", r.acts)
	}
	r.rows(10)
	for i := 1; i <= 3; i++ {
		r.pass(i, 0, 10)
	}
	r.rows(11)
	r.log = nil
	return r
}

// rows begins a call up to a row, whose output is wanted.
func (r *rig) rows(to int) { r.step(Event{Kind: Advance, From: to - 1, To: to, Chunk: 100}) }

// pass has a stage compute rows and send what it should.
func (r *rig) pass(stage, from, to int) {
	k := Journalled
	if stage == 3 {
		k, from = Results, to-1
	}
	r.step(Event{Kind: k, Stage: stage, Epoch: r.m.Epoch(), From: from, To: to})
	r.step(Event{Kind: Computed, Stage: stage, Epoch: r.m.Epoch(), To: to})
}

func (r *rig) fail(stage int, v swarm.Verdict, c swarm.Code, names swarm.PeerID) {
	r.step(Event{Kind: Failed, Stage: stage, Epoch: r.m.Epoch(), Verdict: v, Code: c, Peer: names})
}

func (r *rig) wait(d time.Duration) {
	for end := r.now.Add(d); r.now.Before(end); {
		r.now = r.now.Add(100 * time.Millisecond)
		r.step(Event{Kind: Tick})
	}
}

func (r *rig) alive() string {
	var out []string
	for _, h := range r.m.Alive() {
		out = append(out, string(h.Peer))
	}
	return strings.Join(out, "")
}

var lostErr = errors.New("reset")

// Who is dropped, and what is observed of whom: the rules of guilt, case by case. b is the
// server in the middle.
func TestGuilt(t *testing.T) {
	for _, c := range []struct {
		name   string
		events func(r *rig)
		alive  string // of a, b, c
		seen   string
	}{
		{"a stream ends", func(r *rig) { r.step(Event{Kind: Lost, Stage: 2, What: swarm.Vanished, Err: lostErr}) }, "ac", "b vanished"},
		{"the neighbour of a dead server complains later", func(r *rig) {
			r.step(Event{Kind: Lost, Stage: 2, What: swarm.Vanished, Err: lostErr})
			r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
			r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
		}, "ac", "b vanished"},
		{"the neighbour of a dead server complains first", func(r *rig) {
			r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
			r.step(Event{Kind: Lost, Stage: 2, What: swarm.Vanished, Err: lostErr})
		}, "ac", "b vanished"},
		{"the neighbour of a hanging server complains", func(r *rig) {
			r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
			r.wait(2 * time.Second)
		}, "ac", "b mute"},
		{"a server cannot reach one that answers: once", func(r *rig) {
			r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
			r.step(Event{Kind: Answered, Stage: 2, Epoch: r.m.Epoch(), To: 10})
		}, "abc", ""},
		{"a server cannot reach one that answers: twice", func(r *rig) {
			for i := range 2 {
				r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
				r.step(Event{Kind: Answered, Stage: 2, Epoch: r.m.Epoch(), To: 10})
				if i == 0 {
					r.chain("a", "b", "c")
				}
			}
		}, "abc", ""},
		{"a server cannot reach one that answers: though the client passes its rows on", func(r *rig) {
			for i := range 4 {
				r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "b")
				r.step(Event{Kind: Answered, Stage: 2, Epoch: r.m.Epoch(), To: 10})
				for n := 0; i < 3 && !r.has(Plan) && n < 40; n++ { // attempts in a row wait
					r.now = r.now.Add(100 * time.Millisecond)
					r.step(Event{Kind: Tick})
				}
				if i < 3 {
					r.chain("a", "b", "c")
				}
			}
		}, "bc", "a accused"},
		{"a gap is the sender's fault", func(r *rig) { r.fail(3, swarm.Replay, swarm.CodeGap, "") }, "ac", "b accused"},
		{"and if the next sender is accused as well, both are dropped", func(r *rig) {
			r.fail(3, swarm.Replay, swarm.CodeGap, "")
			r.chain("a", "d", "c")
			for r.m.phase == feeding { // c lacks what the accused made
				for _, st := range r.m.chain {
					r.step(Event{Kind: Computed, Stage: st.id, Epoch: r.m.Epoch(), To: st.sent})
				}
			}
			r.fail(3, swarm.Replay, swarm.CodeGap, "")
		}, "a", "b accused, d accused, c accused"},
		{"rows that are not finite are the sender's fault", func(r *rig) { r.fail(3, swarm.Elsewhere, swarm.CodeBadOutput, "b") }, "ac", "b accused"},
		{"a gap at the first stage, which the client feeds", func(r *rig) { r.fail(1, swarm.Replay, swarm.CodeGap, "") }, "bc", "a broke"},
		{"it blames one that is no neighbour", func(r *rig) { r.fail(1, swarm.Elsewhere, swarm.CodePeerLost, "c") }, "bc", "a refused"},
		{"a caller's fault", func(r *rig) { r.fail(2, swarm.Caller, "invalid_api_key", "") }, "ac", "b refused"},
		{"it failed to compute", func(r *rig) { r.fail(2, swarm.Elsewhere, swarm.CodeInternal, "b") }, "ac", "b broke"},
		{"a failure of an older epoch", func(r *rig) {
			r.step(Event{Kind: Gone, Err: lostErr})
			r.rows(11)
			r.chain("a", "b", "c")
			r.step(Event{Kind: Failed, Stage: 2, Epoch: 1, Verdict: swarm.Elsewhere, Code: swarm.CodeInternal})
		}, "abc", ""},
		{"a parked session is opened again on its server", func(r *rig) { r.fail(2, swarm.Replay, swarm.CodeNoSession, "") }, "abc", ""},
		{"results from a row too high", func(r *rig) { r.pass(3, 11, 12) }, "abc", ""}, // rows nobody asked for
		{"results out of order", func(r *rig) {
			r.step(Event{Kind: Gone, Err: lostErr})
			r.step(Event{Kind: Cut, To: 10})
			r.rows(13)
			r.chain("a", "b", "c")
			r.step(Event{Kind: Gone, Err: lostErr})
			r.step(Event{Kind: Cut, To: 10})
			r.step(Event{Kind: Advance, From: 10, To: 13, Chunk: 100})
			r.chain("a", "b", "c")
			r.step(Event{Kind: Results, Stage: 3, Epoch: r.m.Epoch(), From: 11, To: 12})
		}, "ab", "c wrong"},
		{"the last stage reports rows and sends none", func(r *rig) {
			r.step(Event{Kind: Computed, Stage: 3, Epoch: r.m.Epoch(), To: 11})
		}, "ab", "c withheld"},
		{"a stage does not answer", func(r *rig) {
			r.pass(1, 10, 11)
			r.wait(2 * time.Second)
			r.step(Event{Kind: Answered, Stage: 1, Epoch: r.m.Epoch(), To: 11})
			r.step(Event{Kind: Answered, Stage: 3, Epoch: r.m.Epoch(), To: 10})
			r.wait(2 * time.Second)
		}, "ac", "b mute"},
		{"a stage that is fed answers and computes nothing", func(r *rig) {
			r.pass(1, 10, 11)
			r.step(Event{Kind: Lost, Stage: 1, What: swarm.Vanished, Err: lostErr})
			r.log = nil
			r.chain("d", "b", "c")
			for range 31 {
				r.wait(time.Second)
				for _, h := range r.m.Alive() {
					r.step(Event{Kind: Answered, Stage: h.Stage, Epoch: r.m.Epoch(), To: map[swarm.PeerID]int{"b": 10, "c": 10}[h.Peer]})
				}
			}
		}, "dc", "b stuck"},
		{"an answer of more rows than were left", func(r *rig) {
			r.step(Event{Kind: Gone, Err: lostErr})
			r.step(Event{Kind: Cut, To: 5})
			r.rows(6)
			hops := r.m.Alive()
			r.step(Event{Kind: Planned, Hops: hops})
			r.step(Event{Kind: Answered, Stage: 2, Epoch: r.m.Epoch(), To: 10})
		}, "ac", "b wrong"},
		{"the caller leaves", func(r *rig) {
			r.step(Event{Kind: Gone, Err: lostErr})
			r.wait(40 * time.Second)
		}, "abc", ""},
	} {
		r := wholeRig(t)
		c.events(r)
		if got, seen := r.alive(), strings.Join(r.log, ", "); got != c.alive || seen != c.seen {
			t.Errorf("%s: %q are left and %q was observed, want %q and %q", c.name, got, seen, c.alive, c.seen)
		}
	}
}

// Only what continues the outputs of the present epoch is taken, once.
func TestResults(t *testing.T) {
	r := wholeRig(t)
	r.step(Event{Kind: Gone, Err: lostErr})
	r.step(Event{Kind: Cut, To: 10})
	r.step(Event{Kind: Advance, From: 10, To: 16, Chunk: 100})
	r.chain("a", "b", "c")
	for _, c := range []struct {
		stage    int
		epoch    uint32
		from, to int
		take     string
	}{
		{3, 1, 10, 11, "-"}, {2, 2, 10, 11, "-"}, {3, 3, 10, 11, "-"}, {3, 2, 10, 12, "10:12"}, {3, 2, 10, 11, "-"}, {3, 2, 10, 12, "-"},
		{3, 2, 11, 14, "12:14"}, {3, 2, 14, 17, "-"}, {3, 2, 14, 16, "14:16"},
	} {
		got := "-"
		for _, a := range r.step(Event{Kind: Results, Stage: c.stage, Epoch: c.epoch, From: c.from, To: c.to}) {
			if a.Kind == Take {
				got = fmt.Sprintf("%d:%d", a.From, a.To)
			}
		}
		if got != c.take {
			t.Errorf("%+v: took %s", c, got)
		}
	}
	if len(r.log) > 0 || !r.has(Finish) {
		t.Errorf("observed %v, at the end %+v", r.log, r.acts)
	}
}

// A call that ends by the rows that the client fed the last stage leaves nothing unsent: the
// first stage, which is new, gets all its rows with the next call.
func TestCallEndsWhileFeeding(t *testing.T) {
	r := wholeRig(t)
	r.pass(1, 10, 11)
	r.pass(2, 10, 11)
	r.step(Event{Kind: Lost, Stage: 1, What: swarm.Vanished, Err: lostErr})
	r.chain("d", "b", "c")
	sent := 0
	look := func() {
		for _, a := range r.acts {
			if a.Kind == Send && a.Stage == 4 {
				if a.From != sent {
					t.Errorf("rows %d:%d are sent where %d come next", a.From, a.To, sent)
				}
				sent = a.To
			}
		}
	}
	r.step(Event{Kind: Results, Stage: 3, Epoch: r.m.Epoch(), From: 10, To: 11})
	look()
	r.step(Event{Kind: Computed, Stage: 3, Epoch: r.m.Epoch(), To: 11})
	if r.m.active || sent > 0 {
		t.Fatalf("the call goes on: %+v", r.acts)
	}
	r.rows(12)
	if look(); sent != 12 {
		t.Errorf("%d rows are sent to the new stage, want 12: %+v", sent, r.acts)
	}
}

// What a server may have made up is forgotten with it: the stages behind it begin where it
// joined. One that died or refused has made nothing up.
func TestTaint(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		keep int // rows of the last stage
	}{
		{"accused", func(r *rig) { r.fail(3, swarm.Elsewhere, swarm.CodeBadOutput, "b") }, 0},
		{"died", func(r *rig) { r.step(Event{Kind: Lost, Stage: 2, What: swarm.Vanished, Err: lostErr}) }, 10},
	} {
		r := wholeRig(t)
		c.do(r)
		hops := r.m.Alive()
		d := Hop{Hop: swarm.Hop{Peer: "d", Span: swarm.Span{Start: 2, End: 4}}}
		r.step(Event{Kind: Planned, Hops: []Hop{hops[0], d, hops[1]}})
		for _, a := range r.step(Event{Kind: Dialled, Stage: 4}) {
			if want := map[int]int{1: 10, 3: c.keep, 4: 0}; a.Kind == Open || a.Kind == Route {
				if a.Place.Truncate != want[a.Stage] {
					t.Errorf("%s: stage %d is cut to %d rows, want %d", c.name, a.Stage, a.Place.Truncate, want[a.Stage])
				}
			}
		}
	}
}

// A stage that lacks a row for too long is sent it by the client, and what it then does
// shows who held it up.
func TestLate(t *testing.T) {
	fed := func(r *rig) bool {
		return slices.ContainsFunc(r.acts, func(a Action) bool { return a.Kind == Send && a.Stage == 2 && a.From == r.m.rows-1 })
	}
	for _, c := range []struct {
		name    string
		journal bool          // the client knows the row
		pages   int           // for journals
		takes   time.Duration // after it was sent again
		seen    string
		steps   int
	}{
		{"the sender keeps it", true, 100, 10 * time.Millisecond, "a withheld", lateSteps},
		{"it is slow", true, 100, 5 * time.Second, "b slow", lateSteps},
		{"there are no journals", false, 0, 5 * time.Second, "b slow", lateSteps},
		{"nobody knows", false, 100, 5 * time.Second, "", 8},
	} {
		r := wholeRig(t)
		r.m.p.Pages = c.pages
		r.pass(1, 10, 11)
		r.pass(2, 10, 11)
		r.pass(3, 10, 11)
		steps := 0
		for row := 12; len(r.log) == 0 && row < 20; row++ {
			r.rows(row)
			if c.journal {
				r.step(Event{Kind: Journalled, Stage: 1, Epoch: r.m.Epoch(), From: row - 2, To: row})
			}
			r.step(Event{Kind: Computed, Stage: 1, Epoch: r.m.Epoch(), To: row})
			resent := false
			for range 12 {
				r.now = r.now.Add(100 * time.Millisecond)
				r.step(Event{Kind: Tick})
				resent = resent || fed(r)
			}
			if resent != c.journal {
				t.Errorf("%s: row %d was sent again: %v", c.name, row, resent)
			}
			r.now = r.now.Add(c.takes)
			for i := range 3 {
				r.step(Event{Kind: Answered, Stage: i + 1, Epoch: r.m.Epoch(), To: r.m.chain[i].position})
			}
			r.step(Event{Kind: Computed, Stage: 2, Epoch: r.m.Epoch(), To: row})
			for _, a := range slices.Clone(r.acts) {
				if a.Kind == Compare {
					r.step(Event{Kind: Compared, Stage: a.Stage, OK: true})
				}
			}
			if len(r.log) == 0 {
				r.pass(3, row-1, row)
			}
			steps++
		}
		if seen := strings.Join(r.log, ", "); seen != c.seen || steps != c.steps {
			t.Errorf("%s: %q after %d steps, want %q after %d", c.name, seen, steps, c.seen, c.steps)
		}
	}
}

// A slow stage stays where nobody better is found, and nobody looks again for a while.
func TestNoBetterServer(t *testing.T) {
	r := wholeRig(t)
	for i := 1; i <= 3; i++ {
		r.pass(i, 10, 11)
	}
	searches := 0
	for row := 12; row < 32; row++ {
		r.rows(row)
		r.pass(1, row-1, row)
		r.wait(1100 * time.Millisecond)
		r.now = r.now.Add(1100 * time.Millisecond)
		r.pass(2, row-1, row)
		for _, a := range slices.Clone(r.acts) {
			if a.Kind == Compare {
				searches++
				r.step(Event{Kind: Compared, Stage: a.Stage})
			}
		}
		r.pass(3, row-1, row)
	}
	if len(r.log) > 0 || r.alive() != "abc" || searches != 2 {
		t.Errorf("observed %v, left %s, searched %d times in 44 s", r.log, r.alive(), searches)
	}
}

// A journal keeps to its budget whatever row a server begins with, and rows that are known
// stay what they are.
func TestJournal(t *testing.T) {
	r := newRig(t)
	r.m.p.Pages = 3
	r.step(Event{Kind: Advance, Chunk: 100})
	r.chain("a", "b", "c")
	r.rows(40)
	for _, c := range []struct {
		from, to int
		keep     string
	}{
		{12, 13, "-"}, {8, 12, "8:12"}, {0, 4, "0:4"}, {0, 4, "-"}, {3, 5, "4:5"}, {2, 10, "5:8"}, {12, 16, "-"},
	} {
		got := "-"
		for _, a := range r.step(Event{Kind: Journalled, Stage: 1, Epoch: r.m.Epoch(), From: c.from, To: c.to}) {
			if a.Kind == Keep {
				got = fmt.Sprintf("%d:%d", a.From, a.To)
			}
		}
		if got != c.keep {
			t.Errorf("rows %d:%d: kept %s, want %s", c.from, c.to, got, c.keep)
		}
	}
	if r.m.Pages() != 3 {
		t.Errorf("%d pages, want 3", r.m.Pages())
	}
}

// Of several stages lost at once all streams are ended, whatever each of them says.
func TestAllLostStagesAreLetGo(t *testing.T) {
	r := wholeRig(t)
	var dropped []int
	for i, v := range []swarm.Verdict{swarm.Caller, swarm.Elsewhere, swarm.Caller} {
		r.fail(i+1, v, swarm.CodeBadRequest, "")
		for _, a := range r.acts {
			if a.Kind == Drop {
				dropped = append(dropped, a.Stage)
			}
		}
	}
	if !slices.Equal(dropped, []int{1, 2, 3}) || !r.m.active {
		t.Errorf("dropped %v; the call goes on: %v", dropped, r.m.active)
	}
}

// Only a closed set of codes gets through, and no peer's code can speak of the caller.
func TestCodes(t *testing.T) {
	for _, c := range []swarm.Code{"invalid_api_key", "unauthorised", swarm.CodeBadRequest, swarm.CodeCancelled, swarm.CodeNotServed, swarm.CodeUnsupported, "", "x"} {
		if got := Code(c); got != swarm.CodePeerLost {
			t.Errorf("%q becomes %q", c, got)
		}
	}
	if got := Code(swarm.CodeCacheFull); got != swarm.CodeCacheFull {
		t.Errorf("a full cache becomes %q", got)
	}
	if got := Heard(strings.Repeat("\x1b[31m", 1<<20)); len(got) > 5*heardMost || strings.ContainsAny(got, "\x1b") {
		t.Errorf("%d bytes of a peer's text are logged", len(got))
	}
}
