package trust

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// judged is a verdict in short.
func judged(a Avoidance, avoided bool, now time.Time) string {
	switch {
	case !avoided:
		return "taken"
	case a.Never:
		return fmt.Sprintf("never for %v: %v", a.Until.Sub(now), a.Kind)
	}
	return fmt.Sprintf("rather not for %v: %v", a.Until.Sub(now), a.Kind)
}

// Failures happen to the honest: they cost seconds. Lies cost days.
func TestWhatCostsWhat(t *testing.T) {
	type seen struct {
		after time.Duration
		kind  Kind
	}
	const s = time.Second
	for _, c := range []struct {
		name string
		what []seen
		ask  time.Duration // after the last
		want string
	}{
		{"a stranger", nil, 0, "taken"},
		{"one that serves", []seen{{0, Served}, {s, Served}}, 0, "taken"},
		{"a first failure", []seen{{0, Lost}}, 0, "rather not for 15s: lost"},
		{"after it", []seen{{0, Lost}}, 15 * s, "taken"},
		{"all sessions lose it at once", []seen{{0, Lost}, {s, Lost}, {2 * s, Lost}}, 0, "rather not for 15s: lost"},
		{"again once it is taken again", []seen{{0, Lost}, {20 * s, Refused}}, 0, "rather not for 30s: refused"},
		{"and again", []seen{{0, Lost}, {20 * s, Lost}, {40 * s, Late}}, 0, "rather not for 1m0s: late"},
		{"two minutes at most", []seen{{0, Lost}, {16 * s, Lost}, {31 * s, Lost}, {61 * s, Lost}, {120 * s, Lost}, {120 * s, Lost}}, 0, "rather not for 2m0s: lost"},
		{"it served in between", []seen{{0, Lost}, {20 * s, Served}, {21 * s, Broke}}, 0, "rather not for 15s: broke"},
		{"a quiet time in between", []seen{{0, Lost}, {130 * s, Lost}}, 0, "rather not for 15s: lost"},
		{"its rows differ", []seen{{0, Wrong}}, 0, "never for 10m0s: wrong"},
		{"nobody judged", []seen{{0, Wrong}}, 601 * s, "taken"},
		{"a third found them right", []seen{{0, Wrong}, {s, Agreed}}, 0, "taken"},
		{"a better known one's differ", []seen{{0, Doubted}}, 0, "rather not for 10m0s: doubted"},
		{"and it fails too", []seen{{0, Doubted}, {s, Lost}}, 0, "rather not for 9m59s: doubted"},
		{"and a third found them right", []seen{{0, Doubted}, {s, Agreed}}, 0, "taken"},
		{"and a third found them wrong", []seen{{0, Doubted}, {s, Proven}}, 0, "never for 168h0m0s: proven"},
		{"a third found them wrong", []seen{{0, Wrong}, {s, Proven}}, 0, "never for 168h0m0s: proven"},
		{"right elsewhere does not undo a proof", []seen{{0, Proven}, {s, Agreed}, {s, Served}}, 0, "never for 167h59m58s: proven"},
		{"a week later", []seen{{0, Proven}}, 7 * 24 * time.Hour, "taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, now := NewBook(DefaultParams()), t0
			for _, o := range c.what {
				now = now.Add(o.after)
				b.Observe(Observation{Peer: "p", Kind: o.kind}, now)
			}
			now = now.Add(c.ask)
			a, avoided := b.Judge("p", "", now)
			if got := judged(a, avoided, now); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if avoided && a.Reason == "" {
				t.Error("avoided without a reason")
			}
		})
	}
}

// Identities cost nothing: after three liars from a network its newcomers are avoided, and
// neither those with a good past there, nor other networks, nor addresses that say nothing.
func TestNetworksOfLiars(t *testing.T) {
	b := NewBook(DefaultParams())
	for range 20 {
		b.Observe(Observation{Peer: "old neighbour", Prefix: "203.0.113.0/24", Kind: Agreed}, t0)
	}
	b.Observe(Observation{Peer: "new neighbour", Prefix: "203.0.113.0/24", Kind: Served, Count: 1000}, t0)
	for i := range 3 {
		if _, avoided := b.Judge("newcomer", "203.0.113.0/24", t0); avoided {
			t.Fatalf("avoided after %d liars", i)
		}
		b.Observe(Observation{Peer: swarm.PeerID(fmt.Sprint("liar", i)), Prefix: "203.0.113.0/24", Kind: Proven}, t0)
		b.Observe(Observation{Peer: swarm.PeerID(fmt.Sprint("local", i)), Kind: Proven}, t0)
	}
	for peer, want := range map[swarm.PeerID]string{"newcomer": "never for 168h0m0s: proven", "new neighbour": "never for 168h0m0s: proven", "old neighbour": "taken"} {
		a, avoided := b.Judge(peer, "203.0.113.0/24", t0)
		if got := judged(a, avoided, t0); got != want {
			t.Errorf("%s: got %s, want %s", peer, got, want)
		}
	}
	for _, prefix := range []string{"", "198.51.100.0/24"} {
		if a, avoided := b.Judge("newcomer", prefix, t0); avoided {
			t.Errorf("a newcomer from %q is avoided: %s", prefix, a.Reason)
		}
	}
	if !b.Pardon("liar1", t0) {
		t.Error("a pardon changed nothing")
	}
	if a, avoided := b.Judge("newcomer", "203.0.113.0/24", t0); avoided {
		t.Errorf("avoided with two liars left: %s", a.Reason)
	}
}

func TestOperators(t *testing.T) {
	b := NewBook(DefaultParams())
	b.Observe(Observation{Peer: "p", Kind: Served, Count: 10}, t0)
	b.Ban("p", t0.Add(time.Hour), "noisy\nneighbour", t0)
	a, _ := b.Judge("p", "", t0)
	if a.Reason != "an operator of this node banned it: noisy neighbour" || !a.Never || a.Until != t0.Add(time.Hour) {
		t.Errorf("%+v", a)
	}
	list := b.Standings(t0)
	if len(list) != 1 || list[0].Avoid == nil || list[0].Counts["served"] != 10 || list[0].Counts["banned"] != 1 {
		t.Errorf("%+v", list)
	}
	if !b.Pardon("p", t0) || b.Pardon("p", t0) || b.Pardon("nobody", t0) {
		t.Error("a pardon undoes once what was held")
	}
	if _, avoided := b.Judge("p", "", t0); avoided {
		t.Error("avoided after a pardon")
	}
	if n := b.Standings(t0)[0].Counts["served"]; n != 10 {
		t.Errorf("a pardon left %v of 10 good steps", n)
	}
}

func TestAuditSchedule(t *testing.T) {
	b, rates := NewBook(DefaultParams()), DefaultAuditRates()
	rng := rand.New(rand.NewPCG(1, 0))
	count := func(sessions int) (n int) {
		for range sessions {
			if b.Audit("p", rates, rng.Float64(), t0) {
				n++
			}
		}
		return n
	}
	if n := count(20); n != 20 {
		t.Errorf("%d of the first 20 sessions", n)
	}
	if n := count(200); n < 10 || n > 35 {
		t.Errorf("%d of the next 200 sessions, want about 20", n)
	}
	if n := count(10000); n < 60 || n > 150 {
		t.Errorf("%d of 10000 sessions later, want about 100", n)
	}
	rates.Steady = 0
	if b.Audit("new", rates, 0, t0) {
		t.Error("audited although audits are off")
	}
}

// A flood of identities neither fills the memory nor pushes out what matters.
func TestFloods(t *testing.T) {
	p := DefaultParams()
	p.MaxPeers = 256
	b := NewBook(p)
	b.Observe(Observation{Peer: "liar", Kind: Proven}, t0)
	for range 20 {
		b.Observe(Observation{Peer: "friend", Kind: Agreed}, t0)
	}
	for i := range 100000 {
		b.Observe(Observation{Peer: swarm.PeerID(fmt.Sprint("flood", i)), Kind: Kind(i % int(Wrong)), Detail: strings.Repeat("x", 5000)}, t0.Add(time.Duration(i)*time.Millisecond))
	}
	if len(b.peers) > p.MaxPeers {
		t.Errorf("%d peers remembered, at most %d", len(b.peers), p.MaxPeers)
	}
	if _, avoided := b.Judge("liar", "", t0.Add(time.Hour)); !avoided {
		t.Error("the liar is forgotten")
	}
	if b.peers["friend"] == nil {
		t.Error("the friend is forgotten")
	}
	if a, _ := b.Judge("liar", "", t0); len(a.Reason) > 2*MaxDetail {
		t.Errorf("a reason of %d bytes", len(a.Reason))
	}
}

// What is on disk is what was known.
func TestFile(t *testing.T) {
	b := NewBook(DefaultParams())
	for i := range 3 {
		b.Observe(Observation{Peer: swarm.PeerID(fmt.Sprint("liar", i)), Prefix: "net", Kind: Proven, Detail: "row 17 of 0:4"}, t0)
	}
	b.Observe(Observation{Peer: "good", Kind: Served, Count: 100}, t0)
	b.Observe(Observation{Peer: "away", Kind: Lost}, t0)
	b.Audit("good", DefaultAuditRates(), 0, t0)
	data, err := b.Encode(t0)
	if err != nil {
		t.Fatal(err)
	}
	again := NewBook(DefaultParams())
	later := t0.Add(24 * time.Hour)
	if err := again.Decode(data, later); err != nil {
		t.Fatal(err)
	}
	for _, peer := range []swarm.PeerID{"liar0", "newcomer"} {
		before, _ := b.Judge(peer, "net", later)
		after, avoided := again.Judge(peer, "net", later)
		if !avoided || after.Reason != before.Reason || !after.Until.Equal(before.Until) {
			t.Errorf("%s: %+v, want %+v", peer, after, before)
		}
	}
	for _, s := range again.Standings(later) {
		if s.Peer == "good" && (s.Counts["served"] != 50 || s.Audits != 1) {
			t.Errorf("a day later %+v, want half of the steps", s)
		}
	}
	for name, bad := range map[string]string{
		"no JSON": "{", "another version": `{"version":2}`, "no peer": `{"version":1,"peers":[{}]}`,
		"an unknown kind":        `{"version":1,"peers":[{"peer":"p","counts":{"stole":1}}]}`,
		"a negative count":       `{"version":1,"peers":[{"peer":"p","counts":{"lost":-1}}]}`,
		"avoided for serving":    `{"version":1,"peers":[{"peer":"p","lie":{"kind":"served"}}]}`,
		"a peer of great length": `{"version":1,"peers":[{"peer":"` + strings.Repeat("p", 200) + `"}]}`,
	} {
		if err := NewBook(DefaultParams()).Decode([]byte(bad), t0); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// FuzzDecode: any bytes are a file or an error, and a file that is taken can be written and
// taken again.
func FuzzDecode(f *testing.F) {
	b := NewBook(DefaultParams())
	b.Observe(Observation{Peer: "liar", Prefix: "net", Kind: Proven, Detail: "row 17"}, t0)
	data, _ := b.Encode(t0)
	f.Add(data)
	f.Add([]byte(`{"version":1,"peers":[{"peer":"p","at":"9999-01-01T00:00:00Z","counts":{"lost":1e300}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := NewBook(DefaultParams())
		if b.Decode(data, t0) != nil {
			return
		}
		for _, s := range b.Standings(t0) {
			b.Judge(s.Peer, s.Prefix, t0)
		}
		again, err := b.Encode(t0)
		if err != nil {
			t.Fatal(err)
		}
		if err := NewBook(DefaultParams()).Decode(again, t0); err != nil {
			t.Fatalf("%v of what was written: %s", err, again)
		}
	})
}

// Better known is who agreed in more audits, then who served more, then the smaller id: two nodes
// of one mind say the same.
func TestBetter(t *testing.T) {
	b := NewBook(DefaultParams())
	for range 3 {
		b.Observe(Observation{Peer: "agreed", Kind: Agreed}, t0)
	}
	b.Observe(Observation{Peer: "served", Kind: Served, Count: 1000}, t0)
	b.Observe(Observation{Peer: "a little", Kind: Served, Count: 10}, t0)
	order := []swarm.PeerID{"agreed", "served", "a little", "new", "unknown"}
	for i, p := range order {
		for k, q := range order {
			if got := b.Better(p, q, t0); got != (i < k) {
				t.Errorf("%s is better than %s: %v", p, q, got)
			}
		}
	}
}
