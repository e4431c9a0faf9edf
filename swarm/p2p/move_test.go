package p2p

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// pair is two ends of a moving stream, and joins them by carriers that break.
type pair struct {
	a, b *moving
	mu   sync.Mutex // guards all below
	last carrier
	lost int // carriers
}

func newPair() *pair {
	p := &pair{}
	p.a = newMoving("", func(*moving) { p.join() }, func() {})
	p.b = newMoving("", func(*moving) {}, func() {})
	return p
}

// join gives both a new carrier, as an answer over it would.
func (p *pair) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	gotA, turnA, okA := p.a.freeze()
	gotB, turnB, okB := p.b.freeze()
	if !okA || !okB {
		return
	}
	near, far := wire.Pipe()
	p.a.attach(near, turnA, gotB)
	p.b.attach(far, turnB, gotA)
	p.last = near
	p.lost++
}

// cut breaks the present carrier.
func (p *pair) cut() {
	p.mu.Lock()
	c := p.last
	p.mu.Unlock()
	c.Reset()
}

// Whatever breaks when, each end reads what the other wrote, once and in order.
func TestMovingStreams(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newPair()
		p.join()
		there, back := make([]byte, 300_000+rng.IntN(700_000)), make([]byte, 300_000+rng.IntN(700_000))
		for _, b := range [][]byte{there, back} {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
		var ends sync.WaitGroup
		write := func(m *moving, b []byte, sizes *rand.Rand) {
			for len(b) > 0 {
				n := min(len(b), 1+sizes.IntN(50_000))
				if _, err := m.Write(b[:n]); err != nil {
					t.Error(err)
					return
				}
				b = b[n:]
			}
		}
		var gotThere, gotBack bytes.Buffer
		read := func(m *moving, into *bytes.Buffer, want int) {
			if _, err := io.CopyN(into, m, int64(want)); err != nil {
				t.Error(err)
			}
		}
		ends.Go(func() { write(p.a, there, rand.New(rand.NewPCG(seed, 1))) })
		ends.Go(func() { write(p.b, back, rand.New(rand.NewPCG(seed, 2))) })
		ends.Go(func() { read(p.b, &gotThere, len(there)) })
		ends.Go(func() { read(p.a, &gotBack, len(back)) })
		over := make(chan struct{})
		go func() { ends.Wait(); close(over) }()
		for running := true; running; {
			select {
			case <-over:
				running = false
			case <-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond):
				p.cut()
			}
		}
		if !bytes.Equal(gotThere.Bytes(), there) || !bytes.Equal(gotBack.Bytes(), back) {
			t.Fatalf("seed %d: other bytes came than were sent, over %d connections", seed, p.lost)
		}
		p.a.Close()
		if _, err := p.b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after Close: %v", err)
		}
		p.b.Close()
		if _, err := p.a.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
			t.Errorf("writing after Close: %v", err)
		}
	}
}

// Deadlines, resets and the bound on what is kept.
func TestMovingStreamEnds(t *testing.T) {
	synctest.Test(t, movingStreamEnds) // so that a deadline passes when there is nothing else to do
}

func movingStreamEnds(t *testing.T) {
	p := newPair()
	p.join()
	p.a.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	if _, err := p.a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	p.a.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	n, err := p.a.Write(make([]byte, 3*moveWindow))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != moveWindow {
		t.Errorf("wrote %d to somebody who reads nothing: %v", n, err)
	}
	p.a.SetDeadline(time.Time{})
	p.a.Reset()
	if _, err := io.Copy(io.Discard, p.b); err == nil {
		t.Error("a reset looks like an end")
	}
	if _, err := p.b.Write(make([]byte, 1)); err == nil {
		t.Error("writes to a stream that was reset")
	}
}

// What a far end may not say ends the stream, and takes no memory.
func FuzzMovingFrames(f *testing.F) {
	f.Add([]byte{moveData, 0, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', moveEnd, 0, 0, 0, 0, 0, 0, 0, 3})
	f.Add([]byte{moveTaken, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Add([]byte{moveData, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readMoveRequest(bytes.NewReader(b)); err == nil && len(b) < moveRequestHead {
			t.Error("half a request is taken")
		}
		m := newMoving("", func(*moving) {}, func() {})
		m.Write([]byte("hello"))
		_, turn, _ := m.freeze()
		m.mu.Lock()
		m.sent = 3
		m.mu.Unlock()
		m.receive(&frames{Reader: bytes.NewReader(b)}, turn)
		if len(m.in) > moveWindow || m.base > 3 {
			t.Errorf("%d bytes are kept, and %d of 3 sent were taken", len(m.in), m.base)
		}
	})
}

// frames is a carrier that only speaks.
type frames struct{ io.Reader }

func (*frames) Write(b []byte) (int, error) { return len(b), nil }
func (*frames) Close() error                { return nil }
func (*frames) Reset() error                { return nil }

// A stream that began over a relay goes on over another when that dies, and over a direct
// connection when there is one: no byte is lost, doubled or altered.
func TestStreamsMove(t *testing.T) {
	limits := DefaultRelayLimits()
	limits.Unasked = true
	one, two := newHost(t, Config{Relay: &limits}), newHost(t, Config{Relay: &limits})
	server, client := hidden(t, Config{AutoRelay: true}), newHost(t, Config{})
	befriend(one, two, server, client)
	meet(t, server, one)
	meet(t, server, two)
	server.Handle("/echo", func(_ context.Context, from swarm.PeerID, s wire.Stream) {
		if from == client.ID() {
			io.Copy(s, s)
		}
		s.Close()
	})
	server.CheckReach(t.Context())
	server.keepRelays(t.Context())
	client.AddAddrs(server.ID(), server.ListenAddrs())
	s, err := client.Dial(t.Context(), server.ID(), "/echo")
	if err != nil {
		t.Fatal(err)
	}
	m, ok := s.(*moving)
	if !ok {
		t.Fatalf("a stream over a relay is a %T", s)
	}
	via := func() (where string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if c, ok := m.carried.(lnet.Stream); ok {
			where = c.Conn().RemoteMultiaddr().String()
		}
		return where
	}
	sent := 0
	echo := func(what string, n int) {
		t.Helper()
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(sent + i)
		}
		sent += n
		go s.Write(b)
		got := make([]byte, n)
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%s: other bytes, or none: %v", what, err)
		}
	}
	echo("over a relay", 100_000)
	first := via()
	dead := one
	if relayOf(maddr(t, first)) == two.h.ID() {
		dead = two
	}
	dead.Close()
	echo("after its death", 100_000)
	if now := via(); now == first || !isRelayed(maddr(t, now)) {
		t.Errorf("from %s to %s", first, now)
	}
	direct := lnet.WithForceDirectDial(t.Context(), "test")
	at := server.h.Network().ListenAddresses()
	id, _ := peer.Decode(string(server.ID()))
	if err := client.h.Connect(direct, peer.AddrInfo{ID: id, Addrs: at}); err != nil {
		t.Fatal(err)
	}
	await(t, "the stream is direct", func() bool { w := via(); return w != "" && !isRelayed(maddr(t, w)) })
	echo("directly", 100_000)
	s.Close()
	await(t, "nothing is kept of it", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return len(server.moving) == 0
	})
}
