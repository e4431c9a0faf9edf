package swarmtest

import (
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
			var gaps gapMeter
			var readers sync.WaitGroup
			for i := range 8 {
				e := w.EngineAt(swarm.PeerID("reader "+string(rune('0'+i))), FakeHead{}, FakeVocab, nil)
				readers.Go(func() {
					p := prompt(60, i)
					last := time.Time{}
					got := generate(t, e, client.SessionOptions{MaxLength: 512}, p, 300, func(*client.Session, int) {
						if !last.IsZero() {
							gaps.add(time.Since(last))
						}
						last = time.Now()
					})
					if !slices.Equal(got, FakeGreedy(p, 300)) {
						t.Errorf("reader %d reads other tokens", i)
					}
				})
			}
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
			readers.Wait()
			if t.Logf("stage %d is gone after %v, longest pause %v", victim, took, gaps.most); gaps.most > 300*time.Millisecond || took > 5*time.Second {
				t.Errorf("stage %d: gone after %v, longest pause %v", victim, took, gaps.most)
			}
		})
	}
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
