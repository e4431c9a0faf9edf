package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"whorl/internal/swarmtest"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/evidence"
	"whorl/swarm/p2p"
	"whorl/swarm/proof"
	"whorl/swarm/share"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// protocols are those of ours, by what begins each.
var protocols = []struct {
	id    string
	first wire.Type
}{{wire.ProtoSession, wire.TypeOpen}, {wire.ProtoPush, wire.TypeHello}, {wire.ProtoDirectory, wire.TypePull}}

// Rows of 16 MiB, announced and sent on many streams of every protocol, are not read, since
// nobody has a session: a node used to take 3 GB for them.
func TestAnnouncedRows(t *testing.T) {
	w := New(t, Options{})
	s := w.Stranger("")
	piece := make([]byte, 64<<10)
	w.Within(64<<20, func() {
		n := w.Honest(func() {
			var all sync.WaitGroup
			for _, proto := range protocols {
				for range 32 {
					all.Go(func() {
						c, err := s.Open(w.Servers[0], proto.id)
						if err != nil {
							return // more streams than one peer may have
						}
						t.Cleanup(func() { c.Reset() })
						c.SetDeadline(time.Now().Add(2 * time.Second))
						c.Write(wire.AppendHeader(nil, wire.TypeRows, wire.MaxRows))
						for sent := 0; sent < wire.MaxRows; sent += len(piece) {
							if _, err := c.Write(piece); err != nil {
								return
							}
						}
						t.Errorf("%s took 16 MiB of rows from a stranger", proto.id)
					})
				}
			}
			all.Wait()
		})
		t.Logf("%d honest answers", n)
	})
}

// open is an Open that a server of w takes.
func (w *World) open(of *Node, session byte) wire.Open {
	st := of.Server.Status()
	o := wire.Open{
		Version: wire.Version, Session: wire.SessionID{session, 99}, UID: swarmtest.FakeManifest.UID(), Span: *st.Span, MaxLength: 8,
		Activations: "f32", Route: wire.Route{Epoch: 1, Journal: -1},
	}
	mode := o.SessionMode()
	o.Mode = mode.Hash()
	return o
}

// Whoever has a session may send rows of its model's width, and many large ones at a time
// have a budget: what it has no room for stays with the sender.
func TestLargeFramesOfSessions(t *testing.T) {
	w := New(t, Options{Server: func(c *server.Config) { c.Queues.Reading = 4 << 20 }})
	s := w.Stranger("")
	at := w.Servers[0]
	var accepted atomic.Int64
	limit := wire.RowsLimit(4 * swarmtest.FakeManifest.Hidden)
	w.Within(24<<20, func() { // 48 MiB are announced, and sent but for the last byte

		w.Honest(func() {
			var all sync.WaitGroup
			for i := range 48 {
				all.Go(func() {
					c, err := s.Open(at, wire.ProtoSession)
					if err != nil {
						return
					}
					t.Cleanup(func() { c.Reset() })
					c.SetDeadline(time.Now().Add(patience))
					r := wire.NewReader(c)
					c.Write(wire.AppendJSON(nil, wire.TypeOpen, w.open(at, byte(i))))
					if ty, p, err := r.Next(); err != nil || ty != wire.TypeAccept {
						t.Logf("refused: %v %s", err, p)
						return
					}
					accepted.Add(1)
					c.SetDeadline(time.Now().Add(2 * time.Second)) // there is no room for all
					c.Write(wire.AppendFrame(nil, wire.TypeCommit))
					c.Write(wire.AppendHeader(nil, wire.TypeRows, limit))
					c.Write(make([]byte, limit-1)) // and the last byte never
				})
			}
			all.Wait()
		})
	})
	if accepted.Load() < 10 {
		t.Errorf("%d sessions were accepted: nothing was tried", accepted.Load())
	}
}

// Some thousand broken frames on every protocol, after a good beginning or none, end their
// streams and nothing else. Each stranger keeps within what it may open, so that all are read.
func TestMalformedFrames(t *testing.T) {
	const workers = 4
	each := 300 // 12,000 in all
	if testing.Short() {
		each = 30
	}
	w := New(t, Options{})
	at := w.Servers[0]
	all := w.everything(at)
	var sent atomic.Int64
	n := w.Honest(func() {
		for p, proto := range all {
			var busy sync.WaitGroup
			for worker := range workers {
				busy.Go(func() {
					s := w.passing("")
					defer s.Host.Close()
					rng := newRand(p, worker)
					for range each {
						c, err := s.Open(at, proto.id)
						if err != nil {
							continue
						}
						c.SetDeadline(time.Now().Add(time.Second))
						if _, err := c.Write(broken(rng, proto.good, proto.first)); err == nil {
							sent.Add(1)
						}
						if rng.IntN(8) == 0 {
							c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
							io.ReadFull(c, make([]byte, 1))
						}
						c.Reset()
					}
				})
			}
			busy.Wait()
		}
	})
	total := int64(len(all) * workers * each)
	t.Logf("%d of %d broken frames beside %d honest answers", sent.Load(), total, n)
	if sent.Load() < total*9/10 {
		t.Errorf("%d of %d frames were sent: the others were refused, and show nothing", sent.Load(), total)
	}
	if _, err := w.Stranger("").Open(at, wire.ProtoDirectory); err != nil {
		t.Errorf("the node after it: %v", err)
	}
}

// spoken is a protocol with a good beginning; of one that has frames the type of the first.
type spoken struct {
	id    string
	first wire.Type
	good  []byte
}

// everything is all that a node of a swarm speaks of ours. The server holds a file and hears accusations too
// from then on.
func (w *World) everything(at *Node) []spoken {
	w.t.Helper()
	uid, span := swarmtest.FakeManifest.UID(), *at.Server.Status().Span
	at.Host.Handle(wire.ProtoPass, at.Server.ServePass)
	store := new(share.Store)
	file := store.AddBytes(bytes.Repeat([]byte("weights "), wire.PieceSize/4))
	files, err := share.NewServer(share.ServerConfig{Self: at.Host.ID(), Swarm: "main", Store: store})
	if err != nil {
		w.t.Fatal(err)
	}
	at.Host.Handle(wire.ProtoShare, files.Serve)
	tells, err := evidence.New(evidence.Config{
		Self: at.Host.ID(), Swarm: "main", Dial: at.Host.Dial, Peers: func() []swarm.PeerID { return nil }, Prefix: func(swarm.PeerID) string { return "" },
		Docket: trust.NewDocket(at.Host.ID(), p2p.Verify, trust.DefaultDocketParams()),
		Check:  func(context.Context, *proof.Accusation, swarm.PeerID) trust.Finding { return trust.Unchecked }, Every: time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	at.Host.Handle(wire.ProtoEvidence, tells.Serve)
	pass := wire.Pass{Version: wire.Version, UID: uid, Span: span, Lengths: []int{4}, Length: 8, Millis: 1000}
	pass.Mode = pass.PassMode().Hash()
	json := wire.AppendJSON
	return []spoken{
		{wire.ProtoSession, wire.TypeOpen, json(nil, wire.TypeOpen, w.open(at, 7))},
		{wire.ProtoPush, wire.TypeHello, json(nil, wire.TypeHello, wire.Hello{Version: wire.Version, Session: wire.SessionID{7}, Epoch: 1})},
		{wire.ProtoDirectory, wire.TypePull, json(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Own: &wire.Tag{Beat: 1}, Most: 99})},
		{wire.ProtoPass, wire.TypePass, json(nil, wire.TypePass, pass)},
		{wire.ProtoShare, wire.TypeFetch, wire.AppendNumber(json(nil, wire.TypeFetch, wire.Fetch{Version: wire.Version, Swarm: "main", Root: file.Root}), wire.TypePiece, 0)},
		{wire.ProtoEvidence, wire.TypeHear, json(nil, wire.TypeHear, wire.Hear{Version: wire.Version, Swarm: "main", Log: 1, Since: 1})},
		{"/whorl/reach/1", 0, []byte(`{"addrs":["/ip4/127.0.0.1/tcp/9"],"known":["abc"]}` + "\n")},
		{"/whorl/rate/1", 0, []byte{2, 0, 1, 0, 0, 1, 2, 3, 4}},
		{"/whorl/move/1", 0, append(make([]byte, 26), wire.ProtoSession...)},
		{"/whorl/instance/1", 0, []byte("x")},
	}
}

func newRand(a, b int) *rand.Rand { return rand.New(rand.NewPCG(uint64(a), uint64(b))) }

// broken is a good beginning with something wrong.
func broken(rng *rand.Rand, good []byte, first wire.Type) []byte {
	b := bytes.Clone(good)
	kinds := 8
	if first == 0 { // no frames
		kinds = 4
	}
	switch rng.IntN(kinds) {
	case 0: // some bytes are others
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
	case 1: // it ends early
		b = b[:rng.IntN(len(b))]
	case 2: // nothing but noise
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	case 3: // it goes on
		b = append(b, bytes.Repeat(b, 1+rng.IntN(200))...)
	case 4: // another type and another length
		b[4] = byte(rng.IntN(40))
		if rng.IntN(2) == 0 {
			binary.LittleEndian.PutUint32(b, rng.Uint32())
		}
	case 5: // JSON that is none, or is deep
		b = wire.AppendFrame(nil, first, bytes.Repeat([]byte([]string{"[", `{"a":`, `"`, "9", "\xff"}[rng.IntN(5)]), 1+rng.IntN(800)))
	case 6: // a field of another kind
		b = wire.AppendFrame(nil, first, fmt.Appendf(nil, `{"version":%d,"session":%d,"route":[],"swarm":{},"most":"5","own":"x","max_length":-1,"span":{"start":-9}}`, wire.Version, rng.IntN(9)))
	case 7: // a good beginning and a bad frame behind it
		b = append(b, wire.AppendFrame(nil, wire.Type(1+rng.IntN(40)), make([]byte, rng.IntN(64)))...)
	}
	return b
}

// Streams that say nothing, a part, or close their half stay with whoever opened them, on
// every protocol: users are answered, and no view goes empty.
func TestSlowAndHalfClosedStreams(t *testing.T) {
	w := New(t, Options{})
	all := w.everything(w.Servers[0])
	var strangers []*Stranger
	for range 3 {
		strangers = append(strangers, w.Stranger(""))
	}
	w.Within(64<<20, func() {
		w.Honest(func() {
			for _, at := range w.Nodes() {
				for _, s := range strangers {
					for i := range 50 {
						proto := all[i%len(all)]
						c, err := s.Open(at, proto.id)
						if err != nil {
							continue
						}
						t.Cleanup(func() { c.Reset() })
						switch i / len(all) {
						case 1:
							c.Write([]byte{9})
						case 2:
							c.Write(wire.AppendHeader(nil, proto.first, 300))
						case 3:
							c.Write(append(wire.AppendHeader(nil, proto.first, 300), '{'))
						case 4:
							c.Close()
						}
					}
				}
			}
			for range 30 { // each of them longer than what a node asks another in time
				<-time.After(100 * time.Millisecond)
				for _, n := range w.Nodes() { // a node that had to wait may miss one for a moment
					w.Await("a node sees all servers", func() bool { return w.Seen(n) >= len(w.Servers) })
				}
			}
		})
	})
	for _, n := range w.Nodes() {
		w.Await("a node hears from the swarm", func() bool { return n.Dir.Synced() == nil })
	}
}
