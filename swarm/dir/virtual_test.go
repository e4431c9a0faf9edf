package dir

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
	"whorl/swarm/p2p"
)

// virtual is a swarm of stores in virtual time, which choose tellers and renew their records
// as directories do.
type virtual struct {
	t       testing.TB
	nodes   []*vnode
	by      map[swarm.PeerID]*vnode
	now     time.Time
	initial []swarm.PeerID // that all know
	crowd   int            // records that are there, whoever keeps a store
}

type vnode struct {
	*records
	record  swarm.Record
	turns   rotation
	cursors map[swarm.PeerID]cursor
	peers   []swarm.PeerID // connected
	next    time.Time      // of its heartbeat
	bytes   int            // sent and received as asker and as teller
	dead    bool
}

func (v *virtual) beat(n *vnode, every time.Duration) {
	if n.dead || v.now.Before(n.next) {
		return
	}
	n.next = v.now.Add(every)
	n.record.Seq, n.record.Issued = n.record.Seq+1, v.now.UnixMilli()
	n.record.Expires = v.now.Add(lifetime(v.crowd, time.Minute)).UnixMilli()
	n.put(sealOf(v.t, n.record), source{named: true}, v.now)
}

func (v *virtual) refresh(n *vnode) {
	if n.dead {
		return
	}
	n.prune(v.now)
	for _, p := range chooseTellers(n.self, v.initial, n.peers, tellers, n.turns.at(v.crowd, v.now), true) {
		teller := v.by[p]
		if teller == nil || teller.dead {
			continue
		}
		sent, got, _, at := talk(v.t, n.records, teller.records, source{prefix: "x", named: true}, n.cursors[p], v.now)
		n.cursors[p] = at
		n.bytes += sent + got
		teller.bytes += sent + got
	}
}

// newVirtual makes a swarm of n servers of which so many keep stores. The rest are heard by three
// of those each.
func newVirtual(t testing.TB, n, stores int) *virtual {
	v := &virtual{t: t, by: map[swarm.PeerID]*vnode{}, now: epoch, crowd: n}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		node := &vnode{record: full(), cursors: map[swarm.PeerID]cursor{}}
		node.record.Peer, node.record.UID, node.record.Span, node.record.Seq = peerOf(i), model.UID(), swarm.Span{Start: 0, End: 2}, 1_800_000_000_000
		node.record.Addrs = []string{"/ip4/192.0.2.1/tcp/4001"} // where met meets it
		node.record.PublicName = fmt.Sprint("server ", i)
		node.next = v.now.Add(time.Duration(rng.IntN(60_000)) * time.Millisecond)
		node.records = roomy()
		node.self = node.record.Peer
		v.nodes = append(v.nodes, node)
		if i < stores {
			v.by[node.self] = node
		}
	}
	v.initial = []swarm.PeerID{v.nodes[0].self, v.nodes[1].self}
	for _, n := range v.nodes {
		for i := range stores {
			if p := v.nodes[i].self; p != n.self {
				n.peers = append(n.peers, p)
			}
		}
	}
	return v
}

// In a swarm of 1,000 servers with heartbeats each minute a node sends and receives less than
// 20 kB a second, signatures, streams and all, and knows everybody's heartbeat within half a
// minute. One node in 25 keeps a store here; the others tell theirs to three of those.
func TestSteadyState(t *testing.T) {
	const servers, stores = 1000, 40
	v := newVirtual(t, servers, stores)
	if pace(servers) != time.Minute {
		t.Fatalf("heartbeats come every %v in a swarm of %d", pace(servers), servers)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const step = 3 * time.Second
	measured, oldest := 0, time.Duration(0)
	for v.now.Before(epoch.Add(135 * time.Second)) {
		for i, n := range v.nodes {
			if due := !v.now.Before(n.next); due && i >= stores {
				v.beat(n, time.Minute)
				for range tellers {
					teller := v.nodes[rng.IntN(stores)]
					o, _, err := open(n.records.peers[n.self].part, v.now, anybody, nil)
					if err != nil {
						t.Fatal(err)
					}
					teller.put(o, source{named: true, clock: v.now.UnixMilli()}, v.now)
					met(teller.records, n.self)
				}
			} else {
				v.beat(n, time.Minute)
			}
		}
		for _, n := range v.nodes[:stores] {
			v.refresh(n)
		}
		v.now = v.now.Add(step)
		if v.now.Sub(epoch) == 75*time.Second { // all are known, all tellers have told everything
			for _, n := range v.nodes {
				n.bytes = 0
			}
			measured = int(v.now.Sub(epoch) / step)
		}
	}
	seconds := (int(v.now.Sub(epoch)/step) - measured) * int(step/time.Second)
	most := 0
	for _, n := range v.nodes[:stores] {
		if len(n.records.peers) != servers {
			t.Errorf("a node knows %d of %d servers", len(n.records.peers), servers)
		}
		most = max(most, n.bytes/seconds)
		for p, e := range n.records.peers {
			i := slices.IndexFunc(v.nodes, func(o *vnode) bool { return o.self == p })
			if i >= 0 && i < stores {
				oldest = max(oldest, time.UnixMilli(v.nodes[i].record.Issued).Sub(time.UnixMilli(e.record.Issued)))
			}
		}
	}
	sum := 0
	for _, n := range v.nodes[:stores] {
		sum += n.bytes
	}
	mean := sum / stores / seconds
	t.Logf("%d servers: %d bytes a second on average, %d at most, over %d s", servers, mean, most, seconds)
	if most > 20_000 {
		t.Errorf("a node with %d bytes a second, the limit is 20,000", most)
	}
}

// The records of the dead are gone everywhere within their lifetime and two exchanges, however
// many nodes hand them on.
func TestTheDeadAreForgotten(t *testing.T) {
	const servers = 24
	v := newVirtual(t, servers, servers)
	const step = 3 * time.Second
	life := lifetime(servers, time.Minute)
	run := func(until time.Time) {
		for v.now.Before(until) {
			for _, n := range v.nodes {
				v.beat(n, 20*time.Second)
			}
			for _, n := range v.nodes {
				v.refresh(n)
			}
			v.now = v.now.Add(step)
		}
	}
	run(epoch.Add(2 * time.Minute))
	dead := v.nodes[:6]
	last := v.now
	for _, n := range dead {
		v.now = last
		n.next = time.Time{}
		v.beat(n, time.Hour) // its last word, which only one exchange carries
		v.refresh(n)
		n.dead = true
	}
	knows := func() (n int) {
		for _, o := range v.nodes[6:] {
			o.prune(v.now)
			for _, d := range dead {
				if o.records.peers[d.self] != nil {
					n++
				}
			}
		}
		return n
	}
	if run(last.Add(life - 2*step)); knows() != 6*(servers-6) {
		t.Errorf("%d records of the dead are known before their time, of %d", knows(), 6*(servers-6))
	}
	if run(last.Add(life + 2*step)); knows() != 0 {
		t.Errorf("%d records of the dead are known two exchanges after %v", knows(), life)
	}
	for _, o := range v.nodes[6:] {
		if len(o.records.peers) != servers-6 {
			t.Errorf("%d records, of %d servers that are there", len(o.records.peers), servers-6)
		}
	}
}

// A newcomer has the whole view of 10,000 records in one exchange, every signature checked.
func BenchmarkNewcomer(b *testing.B) {
	const servers = 10_000
	teller := roomy()
	teller.self = peerOf(1)
	for i := range servers {
		key, _, err := crypto.GenerateEd25519Key(crand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			b.Fatal(err)
		}
		r := alive(swarm.PeerID(id.String()))
		r.Addrs, r.PublicName = []string{fmt.Sprintf("/ip4/10.0.%d.%d/tcp/4001", i>>8, i&255), fmt.Sprintf("/ip4/10.0.%d.%d/udp/4001/quic-v1", i>>8, i&255)}, fmt.Sprint("server ", i)
		o, err := seal(func(domain string, payload []byte) ([]byte, error) {
			return key.Sign(append([]byte("whorl:"+domain+"\x00"), payload...))
		}, &r)
		if err != nil {
			b.Fatal(err)
		}
		teller.put(o, source{named: true}, epoch)
		met(teller, r.Peer)
		teller.prove(r.Peer)
	}
	b.ReportAllocs()
	for b.Loop() {
		before := heap()
		asker := roomy()
		asker.self = peerOf(2)
		sent, got, n, _ := talkSigned(b, p2p.Verify, asker, teller, source{prefix: "x", named: true}, cursor{}, epoch)
		if v := asker.view(model.UID(), epoch); n != servers || len(v.Servers) != servers {
			b.Fatalf("%d records, %d servers", n, len(v.Servers))
		}
		b.ReportMetric(float64(sent+got)/1e6, "MB/exchange")
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-held")
		b.ReportMetric(float64(asker.total.bytes)/(1<<20), "MiB-counted")
		runtime.KeepAlive(asker)
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
