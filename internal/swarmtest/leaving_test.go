package swarmtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/server"
	"whorl/swarm"
)

// A server that is stopped hands its sessions over: eight readers of one chain see no error, no
// other token and no pause, although each way takes 5 ms. The server is gone
// long before the time that it gave them.
func TestStoppedServerHandsOver(t *testing.T) {
	for _, victim := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			spans := []string{"0:2", "2:4", "4:6"}
			w, _ := chain(t, 1, func(c *server.Config) { c.Timeouts.Drain, c.CacheToken = 10*time.Second, 16384 }, spans...)
			w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration { return 5 * time.Millisecond })
			gaps, readers := readers(t, w, 8, 300)
			time.Sleep(2 * time.Second)
			span, _ := swarm.ParseSpan(spans[victim])
			w.Start("spare", span, FakeLoader{Delay: 300 * time.Microsecond}, func(c *server.Config) { c.CacheToken = 16384 })
			leaver := w.Server(swarm.PeerID(spans[victim] + "/0"))
			begun := time.Now()
			leaver.stop()
			if err := <-leaver.done; err != nil {
				t.Error(err)
			}
			took := time.Since(begun)
			leaver.done <- nil
			readers()
			if t.Logf("stage %d is gone after %v, longest pause %v", victim, took, gaps.most); gaps.most > 300*time.Millisecond || took > 5*time.Second {
				t.Errorf("stage %d: gone after %v, longest pause %v", victim, took, gaps.most)
			}
		})
	}
}

// A server moves under eight readers, with room for both spans and without: no error, no other
// token, no pause. Whoever comes next finds it with its new blocks.
func TestMoveUnderReaders(t *testing.T) {
	for _, beside := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := chain(t, 1, func(c *server.Config) { c.CacheToken = 16384 }, "3:6")
			w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration { return 5 * time.Millisecond })
			loader, span := FakeLoader{Delay: 300 * time.Microsecond}, swarm.Span{Start: 0, End: 3}
			mover := w.Start("mover", span, loader, func(c *server.Config) {
				c.Span, c.NumBlocks, c.CacheToken, c.Timeouts.Drain = nil, 3, 16384, 10*time.Second
				if !beside {
					plan, err := c.Plan(loader.Sizes(), FakeBlocks)
					if err != nil {
						t.Fatal(err)
					}
					c.Memory -= plan.Spare
				}
			})
			gaps, readers := readers(t, w, 8, 300)
			time.Sleep(2 * time.Second)
			w.Start("spare", span, loader, func(c *server.Config) { c.CacheToken = 16384 })
			begun := time.Now()
			if err := mover.Move(t.Context(), swarm.Span{Start: 3, End: 6}, "a test"); err != nil {
				t.Fatal(err)
			}
			took := time.Since(begun)
			readers()
			if t.Logf("beside %v: moved within %v, longest pause %v", beside, took, gaps.most); gaps.most > 300*time.Millisecond || took > 5*time.Second {
				t.Errorf("beside %v: moved within %v, longest pause %v", beside, took, gaps.most)
			}
			w.Server("3:6/0").Node.Kill()
			p := prompt(20, 3)
			if got := generate(t, w.EngineAt("next", FakeHead{}, FakeVocab, nil), client.SessionOptions{MaxLength: 100}, p, 20, nil); !slices.Equal(got, FakeGreedy(p, 20)) {
				t.Errorf("the next reads %v", got)
			}
		})
	}
}

// readers are clients that each read so many tokens; wait returns when all have, and has
// compared what they read.
func readers(t *testing.T, w *World, n, tokens int) (gaps *gapMeter, wait func()) {
	gaps = new(gapMeter)
	var all sync.WaitGroup
	for i := range n {
		e := w.EngineAt(swarm.PeerID(fmt.Sprint("reader ", i)), FakeHead{}, FakeVocab, nil)
		all.Go(func() {
			p := prompt(60, i)
			last := time.Time{}
			got := generate(t, e, client.SessionOptions{MaxLength: 512}, p, tokens, func(*client.Session, int) {
				if !last.IsZero() {
					gaps.add(time.Since(last))
				}
				last = time.Now()
			})
			if !slices.Equal(got, FakeGreedy(p, tokens)) {
				t.Errorf("reader %d reads other tokens", i)
			}
		})
	}
	return gaps, all.Wait
}

// gapMeter keeps the longest time between two tokens of one reader.
type gapMeter struct {
	mu   sync.Mutex // guards most
	most time.Duration
}

func (g *gapMeter) add(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most = max(g.most, d)
}
