package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/swarm"
)

// kill ends a server as if its process had died: nobody hears of it any more.
func (w *world) kill(n *node, id swarm.PeerID) {
	n.stop()
	<-n.done
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.records, id)
}

// The only holder of some blocks dies. One of the others moves there by itself, long before its
// next check, and says why; its old blocks are held by another.
func TestHoleDrawsAMover(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		registry := prometheus.NewRegistry()
		auto := func(c *Config, n *node) { c.NumBlocks = 3 }
		a := w.start("a", func(c *Config, n *node) { auto(c, n); n.metricsTo = registry })
		<-a.Ready()
		b := w.start("b", auto)
		<-b.Ready()
		c := w.start("c", auto)
		<-c.Ready()
		if got := []string{a.Status().Span.String(), b.Status().Span.String(), c.Status().Span.String()}; !slices.Equal(got, []string{"0:3", "3:6", "0:3"}) {
			t.Fatalf("they hold %v", got)
		}
		time.Sleep(10 * time.Minute)
		if a.Status().Span.String() != "0:3" || c.Status().Span.String() != "0:3" {
			t.Fatal("servers move without a reason")
		}
		w.kill(b, "b")
		died := time.Now()
		for holds(a, "3:6")+holds(c, "3:6") == 0 {
			if time.Since(died) > a.cfg.Balance.Check {
				t.Fatalf("no move within a check: %+v, %+v", a.Status().Placement, c.Status().Placement)
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("healed after %v", time.Since(died))
		time.Sleep(10 * time.Minute)
		if holds(a, "0:3")+holds(c, "0:3") != 1 || holds(a, "3:6")+holds(c, "3:6") != 1 {
			t.Errorf("a holds %v, c holds %v", a.Status().Span, c.Status().Span)
		}
		for _, n := range []*node{a, c} {
			if p := n.Status().Placement; p == nil || p.Reason == "" || p.Do != "stay" {
				t.Errorf("decided %+v", p)
			}
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "whorl_server_heal_seconds" {
				if h := f.Metric[0].Histogram; h.GetSampleCount() != 6 || h.GetSampleSum() > 6*15 { // three before b came, three after it went
					t.Errorf("healed %d blocks in %v s", h.GetSampleCount(), h.GetSampleSum())
				}
			}
		}
	})
}

func holds(n *node, span string) int {
	if st := n.Status(); st.State == swarm.Online && st.Span.String() == span {
		return 1
	}
	return 0
}

// An operator asks what a server would do, and has it done.
func TestRebalance(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.start("a", func(c *Config, _ *node) { c.NumBlocks, c.Balance.Check = 3, time.Hour })
		if _, err := n.Consider(t.Context()); !errors.Is(err, errNotThere) {
			t.Errorf("before it is online: %v", err)
		}
		<-n.Ready()
		w.serve("b", swarm.Span{Start: 0, End: 3}, nil)
		d, err := n.Consider(t.Context())
		if err != nil || d.Do != "go" || d.Span.String() != "3:6" || !d.Alarm || !strings.Contains(d.Reason, "no holder") {
			t.Errorf("%+v, %v", d, err)
		}
		synctest.Wait()
		if n.Status().Span.String() != "0:3" {
			t.Error("a dry run moved it")
		}
		if d, err = n.Rebalance(t.Context()); err != nil || d.Do != "go" {
			t.Errorf("%+v, %v", d, err)
		}
		time.Sleep(time.Second)
		if n.Status().Span.String() != "3:6" {
			t.Errorf("it holds %v", n.Status().Span)
		}
		if d, err = n.Rebalance(t.Context()); err != nil || d.Do != "stay" || d.Reason == "" {
			t.Errorf("%+v, %v", d, err)
		}
		pinned := w.serve("c", swarm.Span{Start: 0, End: 3}, nil)
		if d, err = pinned.Rebalance(t.Context()); err != nil || d.Do != "stay" || !strings.Contains(d.Reason, "operator") {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// Thirty servers of one block that start in the same second hold thirty of thirty blocks within
// 15 s of the last start, although records take up to 3 s to the others.
func TestThirtyStartAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		thirty := manifest
		thirty.Blocks = 30
		slow := &slowWorld{w: w, seen: map[swarm.PeerID]map[swarm.PeerID]swarm.Record{}}
		var all []*Server
		ctx, stop := context.WithCancel(t.Context())
		var done []chan error
		for i := range 30 {
			id := swarm.PeerID(fmt.Sprintf("s%02d", i))
			cfg := DefaultConfig()
			cfg.Manifest, cfg.Memory, cfg.Spare, cfg.CacheToken, cfg.NumBlocks, cfg.Seed = thirty, 1<<28, 0, 256, 1, uint64(i)
			cfg.Measuring, cfg.Throughput = MeasureNever, 1000
			s, err := New(cfg, Deps{
				Self: id, Loader: &fakeLoader{engine: &fakeEngine{}, sizes: fakeSizes, takes: 2 * time.Second}, Directory: slow.of(id), Dialer: fakeDialer{w, id},
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
			ended := make(chan error, 1)
			done = append(done, ended)
			time.Sleep(time.Duration(i*7%31) * time.Millisecond)
			go func() { ended <- s.Run(ctx) }()
		}
		begun := time.Now()
		for _, s := range all {
			<-s.Ready()
		}
		t.Logf("all online after %v", time.Since(begun))
		held := map[int]bool{}
		for _, s := range all {
			held[s.Status().Span.Start] = true
		}
		if len(held) != 30 || time.Since(begun) > 15*time.Second {
			t.Errorf("%d of 30 blocks after %v", len(held), time.Since(begun))
		}
		stop()
		for _, c := range done {
			<-c
		}
		slow.tells.Wait()
	})
}

// slowWorld is a directory whose records take their time.
type slowWorld struct {
	w     *world
	tells sync.WaitGroup
	mu    sync.Mutex // guards all below
	seq   uint64
	seen  map[swarm.PeerID]map[swarm.PeerID]swarm.Record // by who sees it
}

type slowDirectory struct {
	*slowWorld
	self swarm.PeerID
}

func (s *slowWorld) of(id swarm.PeerID) slowDirectory {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[id] = map[swarm.PeerID]swarm.Record{} // who comes is told of those that are there
	for peer, own := range s.seen {
		if r, ok := own[peer]; ok {
			s.seen[id][peer] = r
		}
	}
	return slowDirectory{s, id}
}

func (d slowDirectory) Accept(b []byte) (*swarm.Record, error) { return d.w.Accept(b) }

func (d slowDirectory) View(context.Context, swarm.UID) (swarm.View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return swarm.NewView(swarm.Manifest{}, time.Now(), slices.Collect(maps.Values(d.seen[d.self]))), nil
}

func (d slowDirectory) Announce(_ context.Context, r swarm.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	r.Seq = d.seq
	for id := range d.seen {
		tell := func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.seen[id][r.Peer].Seq < r.Seq {
				d.seen[id][r.Peer] = r
			}
		}
		if id == d.self {
			d.seen[id][r.Peer] = r
			continue
		}
		delay := time.Duration((d.seq*7919+uint64(id[1])*311+uint64(id[2])*171)%2900) * time.Millisecond
		d.tells.Go(func() {
			time.Sleep(delay)
			tell()
		})
	}
	return nil
}
