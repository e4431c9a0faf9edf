package sim

import (
	"fmt"
	"testing"
	"time"

	"whorl/swarm/balance"
	"whorl/swarm/dir"
)

// knowing is how many of the servers that are there have a server in their view.
func knowing(w *world, gone *server) (n int) {
	for _, k := range w.views.(*gossip).nodes {
		if r, _ := k.book.Row(gone.Peer, w.clock()); r != nil && k.server.up {
			n++
		}
	}
	return n
}

// A server that is gone without a word is in all views until it is pinged, and in none after everybody has pinged it; the
// servers on the other side of a partition are gone for this one, and come back with its end.
func TestDeathsAreFound(t *testing.T) {
	const servers = 20
	all := dir.PingRound(servers) + dir.PingTimeout
	for _, c := range []struct {
		after       time.Duration
		least, most int
	}{{time.Second, servers - 1, servers - 1}, {all / 2, 1, servers - 2}, {all + time.Second, 0, 0}} {
		sc := scenarioOf(t, fmt.Sprintf("blocks 8\nlength 1h\nwarm 1m\nservers %d span 4 start 0s-1m\nat 20m kill 0.05\n", servers))
		sc.Length = 20*time.Minute + c.after
		w := newWorld(sc, ours{balance.DefaultConfig()}, 1)
		w.run()
		var gone *server
		for _, s := range w.servers {
			if !s.up {
				gone = s
			}
		}
		if got := knowing(w, gone); got < c.least || got > c.most {
			t.Errorf("%v after its end %d servers have it in their view, want %d to %d", c.after, got, c.least, c.most)
		}
	}
	for after, whole := range map[time.Duration]bool{3 * time.Minute: false, 12 * time.Minute: true} {
		sc := scenarioOf(t, fmt.Sprintf("blocks 8\nlength 1h\nwarm 1m\nservers %d span 4 start 0s-1m\nat 20m partition 0.4 10m\n", servers))
		sc.Length = 20*time.Minute + after
		w := newWorld(sc, ours{balance.DefaultConfig()}, 1)
		w.run()
		for _, k := range w.views.(*gossip).nodes {
			side := 0
			for _, o := range w.servers {
				if whole || o.side == k.side() {
					side++
				}
			}
			if got := len(k.book.View(w.clock()).Servers); got != side {
				t.Errorf("%v after the split %s sees %d servers, want %d", after, k.server.Peer, got, side)
			}
		}
	}
}

// Where nobody comes or goes, moves stop.
func TestMovesStop(t *testing.T) {
	for seed := range uint64(3) {
		sc := scenarioOf(t, "blocks 16\nlength 4h\nwarm 1h\nservers 40 span 3-8 rate 100-2000 load 1s-8s start 0s-10m\n")
		r := Run(sc, ours{balance.DefaultConfig()}, seed)
		hours := r.byHour(4)
		if hours[3] != hours[1] {
			t.Errorf("seed %d: %v moves by the end of each hour", seed, hours)
		}
	}
}

// Petals' rule is known with its own threshold and with others.
func TestPetalsQuality(t *testing.T) {
	for _, name := range []string{"petals", "petals:0.9", "petals:1"} {
		if r, err := RuleOf(name); err != nil || r.Name() != name {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for _, name := range []string{"petals:", "petals:0", "petals:1.5", "petals:NaN", "greed"} {
		if _, err := RuleOf(name); err == nil {
			t.Errorf("%s is a policy", name)
		}
	}
}
