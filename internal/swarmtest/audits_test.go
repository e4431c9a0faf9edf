package swarmtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/client/audit"
	"whorl/swarm"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// lies are what lying engines make of rows; each liar draws its own. The number tells it from
// others with its blocks, where a draw would not.
var lies = map[string]func(r *rand.Rand, number int) func(rows []float32, hidden int){
	"garbage": func(r *rand.Rand, _ int) func([]float32, int) {
		return func(rows []float32, _ int) {
			for i := range rows {
				rows[i] = float32(r.NormFloat64())
			}
		}
	},
	"off by a row or two": func(r *rand.Rand, number int) func([]float32, int) {
		own := make([]float32, 4*(1+number%2)) // in front of every step: two such liars would tell one lie else
		for i := range own {
			own[i] = float32(r.NormFloat64())
		}
		return func(rows []float32, _ int) {
			copy(rows, append(slices.Clone(own), rows...))
		}
	},
	"one bit of each row": func(r *rand.Rand, _ int) func([]float32, int) { return flips(r, 1) },
	"one bit of a thousandth of the rows": func(r *rand.Rand, _ int) func([]float32, int) {
		return flips(r, 0.001)
	},
}

// flips alters one bit in a share of the rows.
func flips(r *rand.Rand, share float64) func([]float32, int) {
	return func(rows []float32, hidden int) {
		for i := 0; i < len(rows); i += hidden {
			if r.Float64() < share {
				v := &rows[i+r.IntN(hidden)]
				*v = math.Float32frombits(math.Float32bits(*v) ^ 1<<r.IntN(20))
			}
		}
	}
}

// audited is a swarm of six holders a block, two of them liars, whose client takes them by
// chance and audits as nodes do.
type audited struct {
	w    *World
	e    *client.Engine
	seen *observer
	// liars are those that were not found, with the sessions that each had.
	liars map[swarm.PeerID]int
}

func newAudited(t *testing.T, seed uint64, lie func(*rand.Rand, int) func([]float32, int), change func(*client.Config)) *audited {
	r := rand.New(rand.NewPCG(seed, 9))
	var mu sync.Mutex
	draw := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
	var servers []string
	for i := range 4 {
		servers = append(servers, fmt.Sprintf("first%d 0:3", i), fmt.Sprintf("last%d 3:6", i))
	}
	a := &audited{liars: map[swarm.PeerID]int{}}
	a.w, a.e, a.seen = scene(t, seed, quick, func(c *client.Config) {
		c.Draw = draw
		c.RTT = func(swarm.PeerID) (time.Duration, bool) {
			return time.Duration(1 + draw()*float64(50*time.Millisecond)), true
		}
		if change != nil {
			change(c)
		}
	}, servers...)
	for i := range 2 {
		for _, s := range []string{"liar-first%d 0:3", "liar-last%d 3:6"} {
			name := fmt.Sprintf(s, i)
			a.liars[swarm.PeerID(strings.Fields(name)[0])] = 0
			begin(t, a.w, name, FakeLoader{Delay: quick.Delay, Lie: lie(rand.New(rand.NewPCG(seed, uint64(100+i+len(s)))), i)})
		}
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.e.Audit(ctx); close(done) }()
	t.Cleanup(func() { end(); <-done })
	return a
}

// session is one of a prompt of 20 rows and so many more, and its audit; its servers are returned.
func (a *audited) session(t *testing.T, rows, i int) []swarm.PeerID {
	peers := a.ask(t, rows, i)
	<-time.After(5 * time.Second) // of virtual time: the audit ends
	return peers
}

// ask is session without the audit.
func (a *audited) ask(t *testing.T, rows, i int) []swarm.PeerID {
	s, err := a.e.Open(t.Context(), client.SessionOptions{MaxLength: 200})
	if err != nil {
		t.Fatal(err)
	}
	turn(t, s, prompt(20, i), rows, nil)
	var peers []swarm.PeerID
	for _, h := range s.Route() {
		peers = append(peers, h.Peer)
	}
	s.Close()
	return peers
}

// found are the liars that this node holds to be proven, with the honest servers that it avoids,
// were it for seconds.
func (a *audited) found() (liars map[swarm.PeerID]bool, innocent []string) {
	liars = map[swarm.PeerID]bool{}
	for _, s := range a.seen.Standings(time.Now()) {
		liar := strings.HasPrefix(string(s.Peer), "liar")
		switch {
		case s.Avoid != nil && !liar:
			innocent = append(innocent, fmt.Sprintf("%s: %s", s.Peer, s.Avoid.Reason))
		case s.Avoid != nil && s.Avoid.Kind == trust.Proven:
			liars[s.Peer] = true
		}
	}
	return liars, innocent
}

// Audits find who lies in every session within 20 of its sessions, and who flips one bit in a
// thousandth of the rows within 60, in the median; no honest server is ever avoided.
func TestAuditsFindLiars(t *testing.T) {
	runs := liarRuns(2)
	for _, lie := range slices.Sorted(maps.Keys(lies)) {
		t.Run(lie, func(t *testing.T) {
			within, rows := 20, 4
			if strings.Contains(lie, "thousandth") {
				within, rows = 60, 80
			}
			var after []int // of each liar: its sessions until it was found
			for seed := range uint64(runs) {
				synctest.Test(t, func(t *testing.T) { after = append(after, huntLiars(t, seed, lie, within, rows)...) })
			}
			slices.Sort(after)
			if median := after[len(after)/2]; median > within {
				t.Errorf("the median liar is found after %d of its sessions, want %d: %v", median, within, after)
			}
		})
	}
}

// liarRuns is how many seeds a test about liars has; `make liars` asks for more.
func liarRuns(n int) int {
	if more, err := strconv.Atoi(os.Getenv("WHORL_LIAR_RUNS")); err == nil {
		return more
	}
	return n
}

// huntLiars has sessions until all liars are found or had more sessions than they may, and
// gives how many each had until it was found.
func huntLiars(t *testing.T, seed uint64, lie string, within, rows int) []int {
	a := newAudited(t, seed, lies[lie], nil)
	var after []int
	liars := a.liars
	for i := 0; len(liars) > 0; i++ {
		for _, p := range a.session(t, rows, i) {
			if _, hunted := liars[p]; hunted {
				liars[p]++
			}
		}
		found, innocent := a.found()
		if len(innocent) > 0 {
			t.Fatalf("seed %d, session %d: honest servers are avoided: %v", seed, i, innocent)
		}
		for p, n := range liars {
			if found[p] || n > within {
				after = append(after, n)
				delete(liars, p)
			}
		}
	}
	t.Logf("seed %d: found after %v sessions, audits %v", seed, after, a.e.Audits())
	return after
}

// A server that pushes other rows than it shows the client brings nothing upon the honest ones
// behind it: routes keep it apart from one after the other, and it ends up without neighbours.
func TestPusherOfOtherRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draw := rand.New(rand.NewPCG(3, 3))
		var mu sync.Mutex
		w, e, seen := scene(t, 3, quick, func(c *client.Config) {
			c.Draw = func() float64 { mu.Lock(); defer mu.Unlock(); return draw.Float64() }
			c.RTT = func(swarm.PeerID) (time.Duration, bool) {
				return time.Duration(1 + c.Draw()*float64(50*time.Millisecond)), true
			}
		}, "liar 0:3", "other 0:3", "a 3:6", "b 3:6", "c 3:6")
		w.Server("liar").Lies(func(proto string, kind wire.Type, frame []byte) []byte {
			if proto == wire.ProtoPush && kind == wire.TypeRows {
				frame[len(frame)-2] ^= 1
			}
			return frame
		})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Audit(ctx); close(done) }()
		a := &audited{w: w, e: e, seen: seen}
		last := 0 // session over the liar
		for i := range 30 {
			if slices.Contains(a.session(t, 4, i), "liar") {
				last = i
			}
			for _, s := range seen.Standings(time.Now()) {
				if s.Avoid != nil {
					t.Errorf("session %d: %s is avoided: %s", i, s.Peer, s.Avoid.Reason)
				}
			}
		}
		if n := e.Audits().Results[audit.Disputed]; last > 20 || n != 3 {
			t.Errorf("the liar was last asked in session %d, after %d disputes", last, n)
		}
		end()
		<-done
	})
}

// Liars with one address that tell one lie prove nothing against the honest, in whichever role they
// are drawn, and are found like others.
func TestAuditsAndColluders(t *testing.T) {
	for seed := range uint64(liarRuns(2)) {
		synctest.Test(t, func(t *testing.T) {
			same := func(*rand.Rand, int) func([]float32, int) {
				return func(rows []float32, hidden int) {
					for i := 0; i < len(rows); i += hidden {
						rows[i] = math.Float32frombits(math.Float32bits(rows[i]) ^ 2)
					}
				}
			}
			a := newAudited(t, seed, same, func(c *client.Config) {
				c.Prefix = func(p swarm.PeerID) string {
					if strings.HasPrefix(string(p), "liar") {
						return "203.0.113.0/24"
					}
					return "of " + string(p)
				}
			})
			for i := range 40 {
				a.session(t, 4, i)
				if _, innocent := a.found(); len(innocent) > 0 {
					t.Fatalf("seed %d, session %d: honest servers are avoided: %v", seed, i, innocent)
				}
			}
			for p := range a.liars { // three were proven; for their sake the whole network is avoided
				if _, avoided := a.seen.Judge(p, "203.0.113.0/24", time.Now()); !avoided {
					t.Errorf("seed %d: after 40 sessions %s is not avoided", seed, p)
				}
			}
		})
	}
}

// In the long run audits compute again about as many rows as their rate says, and no more than
// 3 % of what users have computed.
func TestAuditsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var computed, draws atomic.Int64
		draw := func() float64 { // spread evenly: few sessions are enough
			if draws.Add(1)%100 == 50 {
				return 0
			}
			return 0.5
		}
		count := FakeLoader{Lie: func(rows []float32, hidden int) { computed.Add(int64(len(rows) / hidden)) }}
		_, e, _ := scene(t, 5, count, func(c *client.Config) { c.Draw, c.Audits = draw, trust.AuditRates{Steady: 0.01} }, "a 0:3", "b 0:3", "c 3:6", "d 3:6")
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { e.Audit(ctx); close(done) }()
		const sessions, rows = 150, 12 + 4 - 1 // the last token is emitted and not computed
		for i := range sessions {
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 20})
			if err != nil {
				t.Fatal(err)
			}
			turn(t, s, prompt(12, i), 4, nil)
			s.Close()
		}
		<-time.After(time.Minute)
		users := int64(sessions * rows * 2) // by two stages
		share := float64(computed.Load()-users) / float64(users)
		if n := e.Audits().Results[audit.Agreed]; share <= 0 || share > 0.03 || n == 0 {
			t.Errorf("audits computed %.2f %% of the rows again, in %d audits", 100*share, n)
		}
		t.Logf("audits computed %.2f %% of the rows again", 100*share)
		end()
		<-done
	})
}

// A running session leaves a server that was banned or proven to lie, between turns and within
// one, goes on with the same bits, and blames nobody else.
func TestLeaveTheBanned(t *testing.T) {
	for _, within := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			want := undisturbed(t, prompt(30, 1), 20)
			w, e, seen := scene(t, 4, quick, nil, "first 0:2", "liar 2:4", "last 4:6")
			s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 100})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			begin(t, w, "honest 2:4", quick)
			ban := func() {
				seen.Ban("liar", time.Now().Add(time.Hour), "a test", time.Now())
				e.Leave("liar", errors.New("it was banned"))
			}
			var ids []int32
			if !within {
				r, _ := turn(t, s, prompt(30, 1), 8, nil)
				ids = r.IDs
				ban()
				r, _ = turn(t, s, nil, 12, nil)
				ids = append(ids, r.IDs...)
			} else {
				r, _ := turn(t, s, prompt(30, 1), 20, func(have int) {
					if have == 8 {
						ban()
					}
				})
				if ids = r.IDs; r.LogitsHash != want.LogitsHash {
					t.Errorf("logits %s, want %s", r.LogitsHash, want.LogitsHash)
				}
			}
			if route := s.Route(); !slices.Equal(ids, want.IDs) || len(route) != 3 || route[1].Peer != "honest" {
				t.Errorf("within a turn %v: %v over %v, want %v", within, ids, route, want.IDs)
			}
			if seen.of() != "" {
				t.Errorf("within a turn %v: observed %q", within, seen.of())
			}
		})
	}
}

// A session can be audited at once, each of its servers: what liars gave is judged, all else
// agrees; also on all chains of a verified session.
func TestAuditsOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudited(t, 1, lies["one bit of each row"], nil)
		judged := 0
		for i := range 8 {
			s, err := a.e.Open(t.Context(), client.SessionOptions{MaxLength: 200, Audit: true, Verify: 1 + i%2})
			if err != nil {
				t.Fatal(err)
			}
			turn(t, s, prompt(20, i), 4, nil)
			list, err := s.Audit(t.Context())
			if err != nil || len(list) < 2*(1+i%2) {
				t.Errorf("%v of %v: %v", list, s.Route(), err)
			}
			for _, st := range list {
				liar := strings.HasPrefix(string(st.Hop.Peer), "liar")
				switch {
				case liar && st.Result == audit.Judged && slices.Contains(st.Liars, st.Hop.Peer):
					judged++
				case liar || st.Result == audit.Judged && slices.Contains(st.Liars, st.Hop.Peer):
					t.Errorf("%v: %v", st.Hop, st.Verdict)
				}
			}
			s.Close()
		}
		if judged == 0 {
			t.Error("no liar was on a route")
		}
	})
}
