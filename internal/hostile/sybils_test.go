package hostile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/encoding/protowire"

	"whorl/content"
	"whorl/internal/swarmtest"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// sybils are valid records of new identities, each with what change makes of a static part such
// as an honest server has, and of a heartbeat that says it is fast.
func (w *World) sybils(n int, change func(i int, static map[string]any)) []wire.Part {
	w.t.Helper()
	signed, ok := w.Gateway.Dir.Signed(w.Servers[0].Host.ID())
	if !ok {
		w.t.Fatal("the gateway has no record of the first server")
	}
	like, err := wire.ParsePart(signed)
	if err != nil {
		w.t.Fatal(err)
	}
	domain := content.NewDomain("whorl record static")
	out := make([]wire.Part, n)
	for i := range out {
		key, _, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			w.t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			w.t.Fatal(err)
		}
		static := map[string]any{}
		if err := json.Unmarshal(like.Static, &static); err != nil {
			w.t.Fatal(err)
		}
		change(i, static)
		if out[i].Static, err = json.Marshal(static); err != nil {
			w.t.Fatal(err)
		}
		hash, now := domain.Of(out[i].Static), uint64(time.Now().UnixMilli())
		var b []byte
		number := func(tag protowire.Number, v uint64) {
			b = protowire.AppendVarint(protowire.AppendTag(b, tag, protowire.VarintType), v)
		}
		text := func(tag protowire.Number, v []byte) {
			b = protowire.AppendBytes(protowire.AppendTag(b, tag, protowire.BytesType), v)
		}
		fast := func(tag protowire.Number) {
			b = protowire.AppendFixed64(protowire.AppendTag(b, tag, protowire.Fixed64Type), math.Float64bits(1e12))
		}
		number(1, wire.Version)
		text(2, []byte(id))
		text(3, hash[:])
		number(4, now)
		number(5, now)
		number(6, 60_000)
		number(7, uint64(swarm.Online))
		fast(9)
		fast(10)
		sig, err := key.Sign(append([]byte("whorl:heartbeat/1\x00"), b...))
		if err != nil {
			w.t.Fatal(err)
		}
		out[i].Beat = append(append([]byte{byte(len(b))}, b...), sig...)
	}
	return out
}

// tells has a stranger answer every pull with some of the records, in turn.
func (s *Stranger) tells(records []wire.Part, each int) {
	var turn atomic.Int64
	s.Host.Handle(wire.ProtoDirectory, func(_ context.Context, _ swarm.PeerID, c wire.Stream) {
		r := wire.NewReader(c)
		if t, _, err := r.Next(); err != nil || t != wire.TypePull {
			return
		}
		at := int(turn.Add(1)) * each % len(records)
		some := append(slices.Clone(records[at:]), records[:at]...)[:each]
		offer := wire.Offer{Now: time.Now().UnixMilli()}
		for i := range some { // under names that nobody has heard
			offer.All = append(offer.All, wire.Offered{Tag: wire.Tag{Beat: uint64(turn.Add(int64(len(records)))), Static: uint64(i)}, Left: 60_000})
		}
		c.Write(wire.AppendFrame(nil, wire.TypeOffer, offer.Append(nil)))
		t, payload, err := r.Next()
		if err != nil || t != wire.TypeChoice {
			return
		}
		choice, err := wire.ParseChoice(payload, len(some))
		if err != nil {
			return
		}
		for i, p := range some {
			if choice.Beats.Has(i) {
				c.Write(wire.AppendFrame(nil, wire.TypeRecords, p.Append(nil)))
			}
		}
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
	records := w.sybils(2500, func(i int, r map[string]any) {
		r["span"] = swarm.Span{Start: 0, End: swarmtest.FakeBlocks}
		var addrs []string
		for range swarm.MaxAddrs {
			addrs = append(addrs, fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port))
		}
		addrs[1] = fmt.Sprintf("/ip4/127.0.0.%d/tcp/%d", 2+i%250, port) // of others beside it
		r["addrs"] = addrs
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
		c.SetDeadline(time.Now().Add(patience))
		c.Write(wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Now: time.Now().UnixMilli(), Most: wire.MaxOffered}))
		kind, payload, err := wire.NewReader(c).Next()
		if err != nil || kind != wire.TypeOffer {
			t.Fatalf("no answer to a pull: %v %v", kind, err)
		}
		got, err := wire.ParseOffer(payload)
		if err != nil || len(got.All) == 0 || len(got.All) > len(w.Servers)+1 {
			t.Errorf("%d records are handed on, of %d servers that are there: %v", len(got.All), len(w.Servers)+1, err)
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
	c.SetDeadline(time.Now().Add(patience))
	before, seen := w.Bootstrap.Dir.Refused(), w.Seen(w.Bootstrap)
	r := wire.NewReader(c)
	c.Write(wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Own: &wire.Tag{Beat: 1, Static: 2}}))
	kind, payload, err := r.Next()
	if err != nil || kind != wire.TypeOffer {
		t.Fatalf("%v %v", kind, err)
	}
	offer, err := wire.ParseOffer(payload)
	if err != nil || !offer.Beat || !offer.Static {
		t.Fatalf("the record of the stranger is not asked for: %+v %v", offer, err)
	}
	choice := wire.Choice{Own: w.sybils(1, func(int, map[string]any) {})[0], Beats: wire.NewBits(len(offer.All)), Statics: wire.NewBits(len(offer.All))}
	c.Write(wire.AppendFrame(nil, wire.TypeChoice, choice.Append(nil)))
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if w.Bootstrap.Dir.Refused() != before+1 || w.Seen(w.Bootstrap) != seen {
		t.Errorf("%d refused, %d seen instead of %d", w.Bootstrap.Dir.Refused()-before, w.Seen(w.Bootstrap), seen)
	}
}
