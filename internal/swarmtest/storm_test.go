package swarmtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"whorl/client"
	"whorl/server"
	"whorl/swarm"
)

// Ten swarms of five servers that choose their blocks themselves, under four readers, to which everything
// happens that can be in one process: servers die, are told to go, freeze, are cut off, are far away, have
// wrong clocks, and clients begin anew. What was read is what one machine gives, blocks are held again within a minute, and
// nobody waits for ever. Real processes have the same in internal/e2e.
func TestStorms(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { storm(t, seed) }) })
	}
}

func storm(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 9))
	w := NewWorld(t, FakeManifest)
	born := 0
	var skew sync.Map // by peer
	w.Dir.Change(func(rec *swarm.Record) {
		off, _ := skew.Load(rec.Peer)
		ms := off.(time.Duration).Milliseconds()
		rec.Issued, rec.Expires = rec.Issued+ms, rec.Expires+ms
	})
	start := func(off time.Duration) *Server {
		born++
		id := swarm.PeerID(fmt.Sprint("server", born))
		skew.Store(id, off)
		return w.Start(id, swarm.Span{}, FakeLoader{Delay: 300 * time.Microsecond}, func(c *server.Config) {
			c.Span, c.NumBlocks, c.CacheToken, c.Timeouts.Drain, c.Seed = nil, 3, 16384, 5*time.Second, seed+uint64(born)
			c.Balance.Settle, c.Balance.Check = time.Second, 5*time.Second
		})
	}
	var servers []*Server
	for range 5 {
		servers = append(servers, start(0))
	}
	var far struct {
		sync.Mutex
		cut   map[swarm.PeerID]time.Time // until when
		delay map[swarm.PeerID]time.Duration
	}
	far.cut, far.delay = map[swarm.PeerID]time.Time{}, map[swarm.PeerID]time.Duration{}
	w.Net.SetDelay(func(from, to swarm.PeerID) time.Duration {
		far.Lock()
		defer far.Unlock()
		d := time.Millisecond + far.delay[from] + far.delay[to]
		for _, p := range []swarm.PeerID{from, to} { // what is sent while it is cut off comes when it is not, as TCP has it
			d = max(d, time.Until(far.cut[p]))
		}
		return d
	})
	var over atomic.Bool
	var answers atomic.Int64
	var reading sync.WaitGroup
	for i := range 4 {
		reading.Go(func() {
			for round := 0; !over.Load() && !t.Failed(); round++ {
				e := w.EngineAt(swarm.PeerID(fmt.Sprint("reader", i, "-", round)), FakeHead{}, FakeVocab, nil) // a client begins anew
				p := prompt(10+7*i+round%20, i)
				got, err := tryGenerate(t, e, p, 40)
				var lost *swarm.Error
				switch {
				case err == nil && slices.Equal(got, FakeGreedy(p, 40)):
					answers.Add(1)
					time.Sleep(500 * time.Millisecond) // readers read
				case err == nil:
					t.Errorf("reader %d reads other tokens", i)
				case errors.As(err, &lost) && (lost.Code == swarm.CodeBlocksMissing || lost.Verdict != swarm.Caller):
					time.Sleep(200 * time.Millisecond) // while blocks have no holder
				default:
					t.Errorf("reader %d: %v", i, err)
				}
			}
		})
	}
	await := func(what string, limit time.Duration, cond func() bool) {
		t.Helper()
		for begin := time.Now(); !cond(); time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) > limit || t.Failed() {
				t.Errorf("%s: not after %v", what, limit)
				return
			}
		}
	}
	dead := map[*Server]bool{}
	healed := func() {
		t.Helper()
		await("every block is held", time.Minute, func() bool {
			held := map[int]bool{}
			for _, s := range servers {
				if st := s.Status(); !dead[s] && st.State == swarm.Online {
					for b := st.Span.Start; b < st.Span.End; b++ {
						held[b] = true
					}
				}
			}
			return len(held) == FakeBlocks
		})
	}
	served := func() {
		t.Helper()
		from := answers.Load()
		await("answers", time.Minute, func() bool { return answers.Load() >= from+5 })
	}
	served()
	kinds := []string{"killed", "ended", "frozen", "cut off", "far away", "clock"}
	for _, k := range r.Perm(len(kinds)) {
		i := r.IntN(len(servers))
		s, id := servers[i], servers[i].Node.id
		switch kinds[k] {
		case "killed", "clock":
			s.Node.Kill()
			w.Dir.For("everybody").Suspect(id) // nodes that notice say so to each other
			dead[s] = true
			s.stop()
			healed()
			off := time.Duration(0)
			if kinds[k] == "clock" {
				off = time.Duration(r.IntN(40)-20) * time.Second
			}
			servers[i] = start(off)
		case "ended":
			s.stop()
			err := <-s.done
			s.done <- err
			if err != nil {
				t.Error(err)
			}
			dead[s] = true
			healed()
			servers[i] = start(0)
		case "frozen":
			s.Pause()
			time.Sleep(time.Duration(1+r.IntN(4)) * time.Second)
			s.Node.Resume()
		case "cut off":
			far.Lock()
			far.cut[id] = time.Now().Add(time.Duration(2+r.IntN(10)) * time.Second)
			far.Unlock()
			time.Sleep(12 * time.Second)
		case "far away":
			far.Lock()
			far.delay[id] = time.Duration(50+r.IntN(150)) * time.Millisecond
			far.Unlock()
			served()
			far.Lock()
			delete(far.delay, id)
			far.Unlock()
		}
		healed()
		served()
		if t.Failed() {
			t.Logf("after: %s", kinds[k])
			break
		}
	}
	over.Store(true)
	reading.Wait()
	for _, s := range servers {
		await("sessions end", time.Minute, func() bool { return s.Status().Sessions == 0 && s.Status().Cache.UsedTokens == 0 })
	}
}

// tryGenerate is an answer, or why there is none.
func tryGenerate(t *testing.T, e *client.Engine, prompt []int32, n int) ([]int32, error) {
	s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 200})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.Generate(t.Context(), client.Request{Prompt: prompt, MaxNewTokens: n, TopLogprobs: -1}, func(client.Delta) error { return nil })
	return r.IDs, err
}
