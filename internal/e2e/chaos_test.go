//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// chaosRuns is how many seeds TestChaos goes through: WHORL_CHAOS_RUNS, or two.
func chaosRuns(t *testing.T) int {
	text := os.Getenv("WHORL_CHAOS_RUNS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WHORL_CHAOS_RUNS is %q: want a number above 0", text)
	}
	return n
}

// Five servers that choose their blocks themselves, a gateway and four readers; processes are
// killed, ended, frozen and slowed down, and the bootstrap node dies. Every answer is that of
// one machine, every block has a holder again soon, and nothing is left of it in the gateway.
func TestChaos(t *testing.T) {
	for seed := range chaosRuns(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rounds := 0
			chaos(t, uint64(seed), 4, func() bool { rounds++; return rounds <= 4 })
		})
	}
}

// The same with eight readers for as long as WHORL_SOAK_MINUTES says.
func TestSoak(t *testing.T) {
	minutes, err := strconv.Atoi(os.Getenv("WHORL_SOAK_MINUTES"))
	if err != nil || minutes < 1 {
		t.Skip("not proven: an hour of churn (make soak sets WHORL_SOAK_MINUTES)")
	}
	end := time.Now().Add(time.Duration(minutes) * time.Minute)
	chaos(t, uint64(end.UnixNano()), 8, func() bool { return time.Now().Before(end) })
}

// usage is what a process holds.
type usage struct {
	goroutines, files int
	mib               float64
}

func (n *node) usage(t *testing.T) usage {
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(n.cmd.Process.Pid), "fd"))
	if err != nil {
		t.Skip("not proven: nothing leaks (no /proc)")
	}
	return usage{int(n.metric(t, "go_goroutines")), len(files), n.metric(t, "go_memstats_heap_inuse_bytes") / (1 << 20)}
}

func chaos(t *testing.T, seed uint64, users int, goesOn func() bool) {
	t.Logf("seed %d", seed)
	const steps = 40
	rng := rand.New(rand.NewPCG(seed, 1))
	all := refs(t, steps)[:users]
	s := spawn(t, nil)
	for range 5 {
		s.servers = append(s.servers, s.chooser(t, 1000))
	}
	var over atomic.Bool
	var answers, waits atomic.Int64
	var readers sync.WaitGroup
	for _, r := range all {
		readers.Go(func() {
			for !over.Load() && !t.Failed() {
				status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": steps, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
				switch {
				case status == 200 && len(c.Choices) == 1:
					equal(t, r.Prompt, c.Choices[0].TokenIDs, r.IDs[:steps])
					answers.Add(1)
				case status == 503: // while blocks have no holder
					waits.Add(1)
					<-time.After(200 * time.Millisecond)
				default:
					t.Errorf("status %d: %+v", status, c.Error)
				}
			}
		})
	}
	s.served(t, &answers)
	before := s.gateway.usage(t)
	for goesOn() && !t.Failed() {
		i := rng.IntN(len(s.servers))
		n, what := s.servers[i], rng.IntN(5)
		t.Logf("server %d: %s", i, []string{"killed", "ended", "frozen", "slow", "bootstrap lost"}[what])
		switch what {
		case 0:
			n.kill()
			s.healed(t)
			s.servers[i] = s.chooser(t, 1000)
		case 1:
			n.signal(syscall.SIGTERM)
			<-n.done
			s.healed(t)
			s.servers[i] = s.chooser(t, 1000)
		case 2:
			n.signal(syscall.SIGSTOP)
			<-time.After(time.Duration(1+rng.IntN(4)) * time.Second)
			n.signal(syscall.SIGCONT)
		case 3:
			for range 20 {
				n.signal(syscall.SIGSTOP)
				<-time.After(80 * time.Millisecond)
				n.signal(syscall.SIGCONT)
				<-time.After(20 * time.Millisecond)
			}
		case 4:
			if s.bootstrap != s.gateway {
				s.bootstrap.kill()
				s.bootstrap = s.gateway // any member tells newcomers of the others
			}
		}
		s.healed(t)
		s.served(t, &answers)
	}
	over.Store(true)
	readers.Wait()
	var after usage
	if !poll(20*time.Second, func() bool {
		after = s.gateway.usage(t)
		return after.goroutines <= before.goroutines+40 && after.files <= before.files+20 && after.mib <= before.mib+64
	}) {
		t.Errorf("the gateway holds %+v, before %+v", after, before)
	}
	t.Logf("%d answers, %d times none could be had; the gateway: %+v before, %+v after", answers.Load(), waits.Load(), before, after)
}

// healed waits until every block has an online holder, as servers say that live.
func (s *swarm) healed(t *testing.T) {
	t.Helper()
	begin := time.Now()
	ok := poll(90*time.Second, func() bool {
		held := map[int]bool{}
		for _, n := range s.servers {
			select {
			case <-n.done:
				continue
			default:
			}
			at, _ := n.span(t)
			var from, to int
			fmt.Sscanf(at, "%d:%d", &from, &to)
			for b := from; b < to; b++ {
				held[b] = true
			}
		}
		return len(held) == 8
	})
	if took := time.Since(begin); !ok {
		t.Errorf("a block has no holder after %v", took)
	} else if took > time.Second {
		t.Logf("healed after %v", took.Round(100*time.Millisecond))
	}
}
