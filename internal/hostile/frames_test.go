package hostile

import (
	"bytes"
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
					c.SetDeadline(time.Now().Add(2 * time.Second))
					r := wire.NewReader(c)
					c.Write(wire.AppendJSON(nil, wire.TypeOpen, w.open(at, byte(i))))
					if ty, p, err := r.Next(); err != nil || ty != wire.TypeAccept {
						t.Logf("refused: %v %s", err, p)
						return
					}
					accepted.Add(1)
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
// streams and nothing else.
func TestMalformedFrames(t *testing.T) {
	each := 3400 // 10,200 in all
	if testing.Short() {
		each = 300
	}
	w := New(t, Options{})
	s := w.Stranger("")
	at := w.Servers[0]
	n := w.Honest(func() {
		for p, proto := range protocols {
			var all sync.WaitGroup
			for worker := range 4 {
				all.Go(func() {
					rng := newRand(p, worker)
					for range each / 4 {
						c, err := s.Open(at, proto.id)
						if err != nil {
							continue
						}
						c.SetDeadline(time.Now().Add(time.Second))
						c.Write(w.broken(rng, at, proto.first))
						if rng.IntN(8) == 0 {
							c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
							io.ReadFull(c, make([]byte, 1))
						}
						c.Reset()
					}
				})
			}
			all.Wait()
		}
	})
	t.Logf("%d broken frames beside %d honest answers", len(protocols)*each, n)
	if _, err := s.Open(at, wire.ProtoDirectory); err != nil {
		t.Errorf("the node after it: %v", err)
	}
}

func newRand(a, b int) *rand.Rand { return rand.New(rand.NewPCG(uint64(a), uint64(b))) }

// broken is a frame with something wrong.
func (w *World) broken(rng *rand.Rand, at *Node, first wire.Type) []byte {
	good := map[wire.Type][]byte{
		wire.TypeOpen:  wire.AppendJSON(nil, wire.TypeOpen, w.open(at, byte(rng.IntN(256)))),
		wire.TypeHello: wire.AppendJSON(nil, wire.TypeHello, wire.Hello{Version: wire.Version, Session: wire.SessionID{7}, Epoch: 1}),
		wire.TypePull:  wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Own: &wire.Tag{Beat: 1}, Most: 99}),
	}[first]
	b := bytes.Clone(good)
	switch rng.IntN(8) {
	case 0: // some bytes are others
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
	case 1: // it ends early
		b = b[:rng.IntN(len(b))]
	case 2: // another type
		b[4] = byte(rng.IntN(20))
	case 3: // another length
		binary.LittleEndian.PutUint32(b, rng.Uint32())
	case 4: // nothing but noise
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	case 5: // JSON that is none, or is deep
		b = wire.AppendFrame(nil, first, bytes.Repeat([]byte([]string{"[", `{"a":`, `"`, "9", "\xff"}[rng.IntN(5)]), 1+rng.IntN(800)))
	case 6: // a field of another kind
		b = wire.AppendFrame(nil, first, fmt.Appendf(nil, `{"version":%d,"session":%d,"route":[],"swarm":{},"most":"5","own":"x","max_length":-1,"span":{"start":-9}}`, wire.Version, rng.IntN(9)))
	case 7: // a good beginning and a bad frame behind it
		b = append(b, wire.AppendFrame(nil, wire.Type(1+rng.IntN(14)), make([]byte, rng.IntN(64)))...)
	}
	return b
}

// Streams that say nothing, a part, or close their half stay with whoever opened them, on
// every protocol: users are answered, and no view goes empty.
func TestSlowAndHalfClosedStreams(t *testing.T) {
	w := New(t, Options{})
	var strangers []*Stranger
	for range 3 {
		strangers = append(strangers, w.Stranger(""))
	}
	w.Within(64<<20, func() {
		w.Honest(func() {
			for _, at := range w.Nodes() {
				for _, s := range strangers {
					for i := range 50 {
						proto := protocols[i%3]
						c, err := s.Open(at, proto.id)
						if err != nil {
							continue
						}
						t.Cleanup(func() { c.Reset() })
						switch i % 5 {
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
			for late := time.Now().Add(3 * time.Second); time.Now().Before(late); <-time.After(100 * time.Millisecond) {
				for _, n := range w.Nodes() {
					if seen := w.Seen(n); seen < len(w.Servers) {
						t.Fatalf("a node sees %d servers, of %d", seen, len(w.Servers))
					}
				}
			}
		})
	})
	for _, n := range w.Nodes() {
		if err := n.Dir.Synced(); err != nil {
			t.Errorf("a node is cut off: %v", err)
		}
	}
}
