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
