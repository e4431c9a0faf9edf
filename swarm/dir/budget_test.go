package dir

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// audit compares what a store counts with what it holds, and that with its limits.
func audit(t *testing.T, s *records) {
	t.Helper()
	groups, total, unseen := map[string]load{}, load{}, load{}
	for _, e := range s.peers {
		one := load{1, e.bytes}
		if e.key != e.group() {
			t.Fatalf("%s counts for %q and belongs to %q", e.record.Peer, e.key, e.group())
		}
		groups[e.key] = groups[e.key].add(one)
		total = total.add(one)
		if e.reached.IsZero() {
			unseen = unseen.add(one)
		}
	}
	counted := map[string]load{}
	for key, g := range s.groups {
		if counted[key] = g.load; len(g.peers) != g.records {
			t.Fatalf("the group %q counts %d rows and has %d", key, g.records, len(g.peers))
		}
	}
	if !maps.Equal(groups, counted) || total != s.total || unseen != s.unseen {
		t.Fatalf("counted %v, %v and %v unseen\nheld %v, %v and %v", counted, s.total, s.unseen, groups, total, unseen)
	}
	if s.changed.Len() != len(s.peers) || len(s.beats) > len(s.peers) || len(s.statics) > len(s.peers) {
		t.Fatalf("%d records: %d in the log, %d heartbeats and %d static parts known", len(s.peers), s.changed.Len(), len(s.beats), len(s.statics))
	}
	last := uint64(0)
	for at := s.changed.Front(); at != nil; at = at.Next() {
		p := at.Value.(swarm.PeerID)
		if e := s.peers[p]; e == nil || e.place != at || e.change <= last || len(e.part.Beat) > 0 && s.beats[e.tag.Beat] != p {
			t.Fatalf("%s is in the log at %d, after %d: %+v", p, e.change, last, e)
		} else {
			last = e.change
		}
	}
	if total.exceeds(s.limits.all, 8) {
		t.Fatalf("%+v held, the limit is %+v", total, s.limits.all)
	}
	if unseen.exceeds(s.limits.all, s.limits.unseen) {
		t.Fatalf("%+v of it never reached", unseen)
	}
	for g, l := range groups {
		if l.exceeds(s.limits.all, s.most(g)) {
			t.Fatalf("the group %q holds %+v", g, l)
		}
	}
}

// small is a store that a test fills in no time.
func small() *records {
	s := newRecords("self")
	s.limits.all = load{records: 256, bytes: 1 << 20}
	s.manifests.keep(model)
	return s
}

// An honest minority, each of its peers in a prefix of its own, keeps its rows against floods
// of any shape that a few prefixes can make: of small or huge records, told by one stranger or
// by many, connected or not, renewed or ever new, claiming any address. Whether this node
// has reached an honest peer or has its record from a teller of the operator does not matter.
func TestFloodsLeaveTheHonest(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 12))
		s, now := small(), epoch
		put := func(p string, seq uint64, addr string, names int, from source) error {
			r := told(swarm.PeerID(p), seq, now.Sub(epoch), time.Minute)
			r.Addrs = []string{"/ip4/" + addr + "/tcp/1"}
			r.PublicName = strings.Repeat("n", names)
			_, err := s.put(bare(r, make([]byte, 300+4*names)), from, now)
			return err
		}
		honest := map[string]string{}
		for i := range 20 {
			honest[fmt.Sprint("honest", i)] = fmt.Sprintf("198.51.%d.7", i)
		}
		attackers := 1 + rng.IntN(8) // prefixes that the attacker pays for
		connected, bytes, fresh := rng.IntN(3), 1+rng.IntN(6000), rng.IntN(2) == 0
		seq := uint64(0)
		for step := range 1500 {
			seq++
			if step%100 == 0 { // the honest renew, and join while the flood runs
				now = now.Add(time.Second)
				i := 0
				for p, addr := range honest {
					if i++; step == 0 && i%2 == 0 {
						continue
					}
					if err := put(p, seq, addr, 10, source{prefix: "203.0.113.0/24", named: true}); err != nil {
						t.Fatalf("seed %d, step %d: %s is refused: %v", seed, step, p, err)
					}
					if len(p)%2 == 0 {
						s.reach(swarm.PeerID(p), netip.MustParseAddr(addr), true, now)
					}
				}
			}
			prefix := fmt.Sprintf("192.0.%d", rng.IntN(attackers))
			name := fmt.Sprint("sybil", rng.IntN(2000))
			if fresh {
				name = fmt.Sprint("sybil", step)
			}
			claim := fmt.Sprintf("%d.%d.%d.1", 1+rng.IntN(190), rng.IntN(256), rng.IntN(256))
			if err := put(name, seq, claim, rng.IntN(bytes), source{prefix: prefix + ".0/24"}); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			if connected > 0 && rng.IntN(connected) == 0 {
				s.reach(swarm.PeerID(name), netip.MustParseAddr(prefix+".9"), false, now)
			}
			if step%97 == 0 {
				audit(t, s)
			}
		}
		for p := range honest {
			if s.peers[swarm.PeerID(p)] == nil {
				t.Errorf("seed %d: %s lost its row to %d prefixes", seed, p, attackers)
			}
		}
		if l := len(s.evicted()); l == 0 {
			t.Errorf("seed %d: the flood was none: %+v held", seed, s.total)
		}
	}
}

// Who is connected finds room beside the hearsay of strangers from its own prefix.
func TestNeighbourOfAFlood(t *testing.T) {
	s := small()
	from := source{prefix: "192.0.2.0/24"}
	for i := range 1000 {
		s.put(bare(told(swarm.PeerID(fmt.Sprint("sybil", i)), 1, 0, time.Minute), nil), from, epoch)
	}
	if _, err := s.put(bare(told("late", 1, 0, time.Minute), nil), from, epoch); !errors.Is(err, ErrFull) {
		t.Errorf("the flood leaves room for more of it: %v", err)
	}
	from.at = netip.MustParseAddr("192.0.2.77")
	if _, err := s.put(bare(told("neighbour", 1, 0, time.Minute), nil), from, epoch); err != nil {
		t.Error(err)
	}
	audit(t, s)
}

// What this node uses, has reached or was told by several goes last.
func TestWorth(t *testing.T) {
	s := small()
	s.limits.prefix = 8
	at := netip.MustParseAddr("192.0.2.1")
	for _, p := range []string{"self", "used", "reached", "plain"} {
		s.put(bare(told(swarm.PeerID(p), 1, 0, time.Minute), nil), source{prefix: "x"}, epoch)
		if p != "plain" {
			s.reach(swarm.PeerID(p), at, false, epoch)
		}
	}
	s.use(map[swarm.PeerID]time.Time{"used": epoch}, epoch)
	order := func(p, q swarm.PeerID) bool { return s.before(p, s.peers[p], q, s.peers[q]) }
	if order("used", "reached") || !order("reached", "used") || !order("used", "self") {
		t.Error("a row in use goes before one that is not")
	}
	s.put(bare(told("several", 1, 0, time.Minute), nil), source{prefix: "x"}, epoch) // of one group with plain
	s.put(bare(told("several", 1, 0, time.Minute), nil), source{prefix: "y"}, epoch)
	if !order("plain", "several") || order("several", "plain") {
		t.Error("a row of several tellers goes before one of one")
	}
	s.use(nil, epoch.Add(usedFor+time.Second))
	if order("used", "reached") { // now by age alone
		t.Error("a row was used long ago and counts as in use")
	}
	audit(t, s)
}

// Records are handed on only of peers that were reached at an address they announce.
func TestHearsayStays(t *testing.T) {
	s := small()
	at, elsewhere := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("192.0.2.9")
	put := func(seq uint64, addr string) {
		r := told("p", seq, 0, time.Minute)
		r.Addrs = []string{addr}
		if _, err := s.put(bare(r, []byte("signed")), source{prefix: "x", named: true}, epoch); err != nil {
			t.Fatal(err)
		}
	}
	tells := func() bool { return len(offered(s, "q")) == 1 }
	for _, c := range []struct {
		what string
		do   func()
		want bool
	}{
		{"heard", func() { put(1, "/ip4/198.51.100.7/tcp/9") }, false},
		{"connected from elsewhere", func() { s.reach("p", elsewhere, false, epoch) }, false},
		{"connected from where it says", func() { s.reach("p", at, false, epoch) }, true},
		{"renewed", func() { put(2, "/ip4/198.51.100.7/tcp/9") }, true},
		{"renewed with a victim's address", func() { put(3, "/ip4/203.0.113.80/tcp/80") }, false},
		{"renewed as before", func() { put(4, "/ip4/198.51.100.7/tcp/9") }, true},
		{"moved to a name", func() { put(5, "/dns4/example.org/tcp/9") }, false},
		{"answered there", func() { s.reach("p", elsewhere, true, epoch) }, true},
		{"suspected", func() { s.suspect("p") }, false},
		{"answered when asked", func() { s.reach("p", elsewhere, true, epoch) }, true},
		{"announces a wrong IP", func() { put(6, "/ip4/203.0.113.80/tcp/80") }, false},
		{"dialled by another address", func() { s.reach("p", elsewhere, true, epoch) }, false},
		{"found there all the same", func() { s.prove("p") }, true},
	} {
		if c.do(); tells() != c.want {
			t.Errorf("%s: told %v", c.what, !c.want)
		}
	}
	if v := s.view(model.UID(), epoch); v.Hearsay("p") || v.Reached["p"] != "192.0.2.0/24" {
		t.Errorf("reached: %v", v.Reached)
	}
	s.put(bare(told("new", 1, 0, time.Minute), nil), source{}, epoch)
	if v := s.view(model.UID(), epoch); len(v.Servers) != 2 || !v.Hearsay("new") || v.Hearsay("p") {
		t.Errorf("reached: %v", v.Reached)
	}
}

func TestFootprintCountsWhatIsHeld(t *testing.T) {
	r := told("p", 1, 0, time.Minute)
	small := footprint(r, wire.Part{})
	r.Addrs, r.NextRTT = []string{"/ip4/1.2.3.4/tcp/5"}, map[swarm.PeerID]float64{"q": 1}
	r.Adapters = []swarm.Adapter{{Name: "a", Digest: "b"}}
	if grown := footprint(r, wire.Part{Static: make([]byte, 100)}) - small; grown < 100+3*24 {
		t.Errorf("fields add %d bytes", grown)
	}
	if p2p.Prefix(netip.MustParseAddr("2001:db8:1:2::3")) != "2001:db8:1::/48" {
		t.Error("prefix of IPv6")
	}
}

// A put into a full store of the real size.
func BenchmarkPutWhenFull(b *testing.B) {
	s := newRecords("self")
	for i := range 2 * s.limits.all.records {
		s.put(bare(told(swarm.PeerID(fmt.Sprint(i)), 1, 0, time.Minute), make([]byte, 2000)), source{prefix: fmt.Sprint(i % 300)}, epoch)
	}
	b.ResetTimer()
	for i := range b.N {
		s.put(bare(told(swarm.PeerID(fmt.Sprint("new", i)), 1, 0, time.Minute), make([]byte, 2000)), source{prefix: "new"}, epoch)
	}
}
