package hostile

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

func sprint(ids []int32) string { return fmt.Sprint(ids) }

// Stranger is a peer that nobody knows. It speaks to nodes through raw streams.
type Stranger struct {
	t    testing.TB
	Host *p2p.Host
}

// Stranger makes one with an identity of its own; from is the loopback address it listens on
// and dials from, "" for 127.0.0.1.
func (w *World) Stranger(from string) *Stranger {
	w.t.Helper()
	s := w.passing(from)
	w.t.Cleanup(func() { s.Host.Close() })
	return s
}

// passing is a stranger that the caller closes: of whom nothing is kept, not even here.
func (w *World) passing(from string) *Stranger {
	w.t.Helper()
	if from == "" {
		from = "127.0.0.1"
	}
	h, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/" + from + "/tcp/0"}, Log: w.log.With("node", "stranger")})
	if err != nil {
		w.t.Fatal(err)
	}
	return &Stranger{w.t, h}
}

// Open opens a raw stream; the error is for attacks that want to be refused.
func (s *Stranger) Open(to *Node, proto string) (wire.Stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.Host.AddAddrs(to.Host.ID(), to.Host.ListenAddrs())
	return s.Host.Dial(ctx, to.Host.ID(), proto)
}

// Held is the memory of the heap that is in use, garbage apart, in bytes.
func Held() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// Within runs an attack that leaves something behind (streams that stay open, bytes that
// nobody reads) and fails if the nodes then hold more than plan bytes beyond what they held
// before.
func (w *World) Within(plan int64, attack func()) {
	w.t.Helper()
	before := Held()
	attack()
	if grown := Held() - before; grown > plan {
		w.t.Errorf("the attack holds %.1f MiB, the plan allows %.1f MiB", float64(grown)/(1<<20), float64(plan)/(1<<20))
	} else {
		w.t.Logf("held: %.1f MiB of %.1f MiB", float64(grown)/(1<<20), float64(plan)/(1<<20))
	}
}
