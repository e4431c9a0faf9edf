package health

import (
	"testing"
	"time"

	"whorl/swarm"
)

// Who comes and goes is unsteady for an hour; who says that it leaves, or moves, is not.
func TestPast(t *testing.T) {
	start := time.Unix(1e9, 0)
	for _, c := range []struct {
		what   string
		states string // a letter a minute: o online, j joining, m moving, d draining, - not in the view
		want   bool
	}{
		{"always there", "oooooooo", false},
		{"one restart", "ooo-jooo", false},
		{"two restarts", "oo-oo-oo", true},
		{"three quick restarts that nobody missed", "oojojojo", true},
		{"moves", "oomoomoomoo", false},
		{"leaves as it should, twice", "ood-jood-joo", false},
		{"joins and fails to load", "j-j-j-j", false},
	} {
		var p Past
		now := start
		for _, s := range c.states {
			now = now.Add(time.Minute)
			r := swarm.Record{Peer: "a"}
			switch s {
			case 'o':
				r.State = swarm.Online
			case 'j':
				r.State = swarm.Joining
			case 'd':
				r.State = swarm.Draining
			case 'm':
				r.State, r.Next = swarm.Joining, &swarm.Intent{Span: swarm.Span{Start: 1, End: 2}}
			}
			servers := []swarm.Record{r, {Peer: "b", State: swarm.Online}}
			if s == '-' {
				servers = servers[1:]
			}
			p.See(swarm.NewView(swarm.Manifest{}, now, servers), now)
		}
		if got := p.Unsteady("a", now); got != c.want {
			t.Errorf("%s: unsteady %v", c.what, got)
		}
		if p.Unsteady("b", now) {
			t.Errorf("%s: its neighbour is unsteady", c.what)
		}
		if p.Unsteady("a", now.Add(2*time.Hour)) {
			t.Errorf("%s: still unsteady hours later", c.what)
		}
	}
	var p Past
	p.See(swarm.NewView(swarm.Manifest{}, start, []swarm.Record{{Peer: "a", State: swarm.Online}}), start)
	for i := range 20 {
		p.Lost("a", start.Add(time.Duration(i)*time.Second))
	}
	if p.Unsteady("a", start.Add(time.Minute)) {
		t.Error("twenty sessions lost at once are one fall")
	}
	if p.Lost("a", start.Add(10*time.Minute)); !p.Unsteady("a", start.Add(10*time.Minute)) {
		t.Error("two falls")
	}
}

// What balancing hears of loads is the mean of ten minutes, or since a server holds its span: who happens to read now
// moves nobody.
func TestBusy(t *testing.T) {
	var p Past
	now := time.Unix(1e9, 0)
	see := func(busy float64, span swarm.Span) {
		now = now.Add(5 * time.Second)
		r := swarm.Record{Peer: "a", State: swarm.Online, Span: span, Load: &swarm.Load{Busy: busy, Sessions: 3}}
		p.See(swarm.NewView(swarm.Manifest{}, now, []swarm.Record{r, {Peer: "b", State: swarm.Online}}), now)
	}
	check := func(what string, least, most float64) {
		t.Helper()
		if got, ok := p.Busy("a"); !ok || got < least || got > most {
			t.Errorf("%s: %.2f busy (%v), want %.2f to %.2f", what, got, ok, least, most)
		}
	}
	first, second := swarm.Span{End: 4}, swarm.Span{Start: 4, End: 8}
	for i := range 60 {
		see(float64(i%2), first)
	}
	check("busy every other time for five minutes", 0.4, 0.6)
	for range 12 {
		see(1, first)
	}
	check("and then a minute without a pause", 0.5, 0.7)
	for range 600 {
		see(1, first)
	}
	check("and for most of an hour", 0.95, 1)
	see(0.2, second)
	check("at a new span", 0.2, 0.2)
	if _, ok := p.Busy("b"); ok {
		t.Error("one that tells nothing is said to be busy")
	}
	v := swarm.NewView(swarm.Manifest{}, now, []swarm.Record{{Peer: "a", State: swarm.Online, Load: &swarm.Load{Busy: 0.9, Sessions: 3}}})
	if got := p.Loads(v).Servers[0].Load; got.Busy != 0.2 || got.Sessions != 3 || v.Servers[0].Load.Busy != 0.9 {
		t.Errorf("the load in a view is %+v, and %+v in the one it was made of", got, v.Servers[0].Load)
	}
}
