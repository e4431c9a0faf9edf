package hostile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// sealed is a record as it travels.
type sealed struct {
	Payload []byte `json:"payload"`
	Sig     []byte `json:"sig"`
}

// sybils are valid records of new identities, each like that of an honest server but for what
// change makes of it.
func (w *World) sybils(n int, change func(i int, r *swarm.Record)) [][]byte {
	w.t.Helper()
	like, ok := w.Gateway.Dir.Signed(w.Servers[0].Host.ID())
	if !ok {
		w.t.Fatal("the gateway has no record of the first server")
	}
	var s sealed
	if err := json.Unmarshal(like, &s); err != nil {
		w.t.Fatal(err)
	}
	out := make([][]byte, n)
	for i := range out {
		key, _, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			w.t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			w.t.Fatal(err)
		}
		r, err := swarm.DecodeRecord(s.Payload)
		if err != nil {
			w.t.Fatal(err)
		}
		r.Peer = swarm.PeerID(id.String())
		change(i, r)
		one := sealed{}
		if one.Payload, err = json.Marshal(r); err == nil {
			one.Sig, err = key.Sign(append([]byte("whorl:record/1\x00"), one.Payload...))
		}
		if err == nil {
			out[i], err = json.Marshal(one)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return out
}

// tells has a stranger answer every pull with some of the records, in turn.
func (s *Stranger) tells(records [][]byte, each int) {
	var turn atomic.Int64
	s.Host.Handle(wire.ProtoDirectory, func(_ context.Context, _ swarm.PeerID, c wire.Stream) {
		at := int(turn.Add(1)) * each % len(records)
		some := append(slices.Clone(records[at:]), records[:at]...)[:each]
		c.Write(wire.AppendJSON(nil, wire.TypeRecords, wire.Records{Now: time.Now().UnixMilli(), Records: some}))
		c.Close()
	})
}

// Two strangers tell every node of thousands of servers that hold all blocks, are the fastest in
// the world and are found at a third machine. Users keep their text, newcomers find room and
// are found, nobody hands the records on, and the third machine is left alone.
func TestSybils(t *testing.T) {
	w := New(t, Options{})
	victim, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	var hits atomic.Int64
	go func() {
		for {
			c, err := victim.Accept()
			if err != nil {
				return
			}
			c.Close()
			hits.Add(1)
		}
	}()
	port := victim.Addr().(*net.TCPAddr).Port
	records := w.sybils(2500, func(i int, r *swarm.Record) {
		fast := 1e12
		r.Span, r.Rates.InferenceRPS, r.Throughput = swarm.Span{Start: 0, End: swarmtest.FakeBlocks}, &fast, fast
		r.Addrs = nil
		for range swarm.MaxAddrs {
			r.Addrs = append(r.Addrs, fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port))
		}
		r.Addrs[1] = fmt.Sprintf("/ip4/127.0.0.%d/tcp/%d", 2+i%250, port) // of others beside it
	})
	started := time.Now()
	for range 2 {
		s := w.Stranger("")
		s.tells(records, 400)
		for _, n := range w.Nodes() {
			if err := s.Host.Bootstrap(t.Context(), n.Host.Addrs()); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Await("the flood arrives", func() bool { return w.Seen(w.Gateway) > 500 })
	n := w.Honest(func() {
		late := w.Serve(w.opt.Spans[0])
		w.Await("the gateway sees and reaches the newcomer", func() bool {
			v, err := w.Gateway.Dir.View(t.Context(), swarmtest.FakeManifest.UID())
			_, ok := v.Server(late.Host.ID())
			return err == nil && ok && !v.Hearsay(late.Host.ID())
		})
	})
	t.Logf("%d honest answers; %d records at the gateway, %d at the bootstrap", n, w.Seen(w.Gateway), w.Seen(w.Bootstrap))
	{ // a node that asks hears of those that are there
		c, err := w.Stranger("").Open(w.Gateway, wire.ProtoDirectory)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Reset()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		c.Write(wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Now: time.Now().UnixMilli()}))
		kind, payload, err := wire.NewReader(c).Next()
		var got wire.Records
		if err != nil || kind != wire.TypeRecords || wire.Decode(kind, payload, &got) != nil {
			t.Fatalf("no answer to a pull: %v %v", kind, err)
		}
		if len(got.Records) == 0 || len(got.Records) > len(w.Servers)+1 {
			t.Errorf("%d records are handed on, of %d servers that are there", len(got.Records), len(w.Servers)+1)
		}
	}
	// Each node may open 16 attempts at one machine, and one more in 10 s.
	took := time.Since(started)
	if most := int64(len(w.Nodes())+1) * (16 + int64(took/(10*time.Second)) + 1); hits.Load() > most {
		t.Errorf("%d connections to the victim in %v, the limit is %d", hits.Load(), took, most)
	} else {
		t.Logf("%d connections to the victim in %v, the limit is %d", hits.Load(), took.Round(time.Millisecond), most)
	}
}

// A stranger can bring its own record and nobody else's.
func TestOthersRecordsAreNotTaken(t *testing.T) {
	w := New(t, Options{})
	s := w.Stranger("")
	c, err := s.Open(w.Bootstrap, wire.ProtoDirectory)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	before, seen := w.Bootstrap.Dir.Refused(), w.Seen(w.Bootstrap)
	c.Write(wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Own: w.sybils(4, func(int, *swarm.Record) {})}))
	if _, _, err := wire.NewReader(c).Next(); err != nil {
		t.Fatal(err)
	}
	if w.Bootstrap.Dir.Refused() != before+4 || w.Seen(w.Bootstrap) != seen {
		t.Errorf("%d refused, %d seen instead of %d", w.Bootstrap.Dir.Refused()-before, w.Seen(w.Bootstrap), seen)
	}
}
