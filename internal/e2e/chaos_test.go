//go:build e2e && linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// chaosRuns is how many seeds TestChaos goes through: WHORL_CHAOS_RUNS, or ten, of which each two have
// all kinds of faults between them; internal/swarmtest has ten more in virtual time.
func chaosRuns(t *testing.T) int {
	text := os.Getenv("WHORL_CHAOS_RUNS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WHORL_CHAOS_RUNS is %q: want a number above 0", text)
	}
	return n
}

// Five servers that choose their blocks themselves, a gateway and four readers, while one fault after the
// other befalls them (faults). Every answer is that of one machine, every block has a holder again soon, and
// nothing is left of it in the nodes that live through it.
func TestChaos(t *testing.T) {
	for seed := range chaosRuns(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			deck := rand.New(rand.NewPCG(uint64(seed/2), 2)).Perm(len(faults))
			half := (len(deck) + 1) / 2
			if deck = deck[:half]; seed%2 == 1 {
				deck = rand.New(rand.NewPCG(uint64(seed/2), 2)).Perm(len(faults))[half:]
			}
			chaos(t, uint64(seed), 4, func(round int) (int, bool) {
				if round == len(deck) {
					return 0, false
				}
				return deck[round], true
			})
		})
	}
}

// The same with eight readers for as long as WHORL_SOAK_MINUTES says. Of all steps nearly all are served.
func TestSoak(t *testing.T) {
	minutes, err := strconv.Atoi(os.Getenv("WHORL_SOAK_MINUTES"))
	if err != nil || minutes < 1 {
		t.Skip("not proven: an hour of churn (make soak sets WHORL_SOAK_MINUTES)")
	}
	end := time.Now().Add(time.Duration(minutes) * time.Minute)
	rng := rand.New(rand.NewPCG(uint64(end.UnixNano()), 2))
	s := chaos(t, uint64(end.UnixNano()), 8, func(int) (int, bool) {
		for {
			if i := rng.IntN(len(faults)); !faults[i].hole { // nobody can serve blocks that nobody holds
				return i, time.Now().Before(end)
			}
		}
	})
	answers, refused := float64(s.answers.Load()), float64(s.refused.Load())
	if share := answers / (answers + refused); share < 0.999 {
		t.Errorf("%.2f %% of what was asked was served, want 99.9", 100*share)
	}
}

// storm is a swarm under readers to which faults happen.
type storm struct {
	*testing.T
	*grounds
	rng       *rand.Rand
	bootstrap *node
	servers   []*node
	answers   atomic.Int64
	refused   atomic.Int64 // requests that a gateway could not serve, each counted once however often it was asked again
	broken    atomic.Int64 // requests that a gateway took with it
	began     map[*node]usage

	mu      sync.Mutex // guards all below
	gateway *node
	model   string
}

// fault is something that happens. It leaves the swarm as it was: whoever it ended has a successor.
type fault struct {
	name string
	lab  bool // it takes a machine of its own for each node
	hole bool // nobody serves some blocks for a while
	do   func(s *storm, i int)
}

var faults = []fault{
	{name: "killed", do: func(s *storm, i int) {
		s.servers[i].kill()
		s.healed()
		s.servers[i] = s.chooser("", nil)
	}},
	{name: "ended", do: func(s *storm, i int) {
		s.servers[i].signal(syscall.SIGTERM)
		<-s.servers[i].done
		s.healed()
		s.servers[i] = s.chooser("", nil)
	}},
	{name: "all holders of a block killed", hole: true, do: func(s *storm, _ int) { // one of the others moves there
		var fewest []int
		for b := range 8 {
			var holders []int
			for i, n := range s.servers {
				if from, to := s.holds(n); from <= b && b < to {
					holders = append(holders, i)
				}
			}
			if fewest == nil || len(holders) < len(fewest) {
				fewest = holders
			}
		}
		for _, i := range fewest {
			s.servers[i].kill()
		}
		s.healed()
		s.served()
		for _, i := range fewest {
			s.servers[i] = s.chooser("", nil)
		}
	}},
	{name: "frozen", do: func(s *storm, i int) {
		s.servers[i].signal(syscall.SIGSTOP)
		<-time.After(time.Duration(1+s.rng.IntN(4)) * time.Second)
		s.servers[i].signal(syscall.SIGCONT)
	}},
	{name: "starved", do: func(s *storm, i int) {
		for range 20 {
			s.servers[i].signal(syscall.SIGSTOP)
			<-time.After(80 * time.Millisecond)
			s.servers[i].signal(syscall.SIGCONT)
			<-time.After(20 * time.Millisecond)
		}
	}},
	{name: "bootstrap lost", do: func(s *storm, _ int) {
		s.bootstrap.kill() // any member tells newcomers of the others
		s.servers[4].kill()
		s.servers[4] = s.chooser("", nil)
	}},
	{name: "gateway restarted", do: func(s *storm, _ int) {
		next := s.newGateway()
		s.mu.Lock()
		old := s.gateway
		s.mu.Unlock()
		if s.rng.IntN(2) == 0 {
			old.kill()
		} else {
			old.signal(syscall.SIGTERM)
			<-old.done
		}
		s.mu.Lock()
		s.gateway = next
		s.mu.Unlock()
		s.served()
		s.began[next] = next.usage(s.T)
	}},
	{name: "clock wrong by 20 s", do: func(s *storm, i int) {
		off := []string{"-20s", "20s"}[s.rng.IntN(2)]
		s.servers[i].kill()
		s.servers[i] = s.chooser(skewed(s.T), []string{"WHORL_CLOCK_SKEW=" + off})
	}},
	{name: "clock wrong by an hour", do: func(s *storm, _ int) { // nobody believes its records: it is of no use, and does no harm
		lost := s.start(s.machine(), skewed(s.T), []string{"WHORL_CLOCK_SKEW=" + []string{"-1h", "1h"}[s.rng.IntN(2)]})
		s.served()
		lost.kill()
	}},
	{name: "cut off", lab: true, do: func(s *storm, i int) {
		s.lab.Split(s.servers[i].machine.host)
		<-time.After(time.Duration(2+s.rng.IntN(10)) * time.Second)
		s.lab.Split()
	}},
	{name: "two cut off together", lab: true, do: func(s *storm, i int) {
		s.lab.Split(s.servers[i].machine.host, s.servers[(i+1)%len(s.servers)].machine.host)
		<-time.After(time.Duration(2+s.rng.IntN(10)) * time.Second)
		s.lab.Split()
	}},
	{name: "far away", lab: true, do: func(s *storm, i int) {
		h := s.servers[i].machine.host
		h.Slow(time.Duration(50+s.rng.IntN(150))*time.Millisecond, 0.02)
		s.served()
		h.Slow(0, 0)
	}},
	{name: "disk full", lab: true, do: func(s *storm, i int) {
		empty := s.servers[i].fill(s.T)
		s.mu.Lock()
		g := s.gateway
		s.mu.Unlock()
		defer empty()
		defer g.fill(s.T)()
		s.served()
		if s.rng.IntN(2) == 0 { // it leaves with a disk that takes nothing
			s.servers[i].signal(syscall.SIGTERM)
			<-s.servers[i].done
			s.healed()
			s.servers[i] = s.chooser("", nil)
		}
	}},
}

// usage is what a process holds.
type usage struct {
	goroutines, files int
	heap, resident    float64 // MiB
}

func (u usage) String() string {
	return fmt.Sprintf("%4d goroutines, %3d files, heap %3.0f MiB, resident %3.0f MiB", u.goroutines, u.files, u.heap, u.resident)
}

func (n *node) usage(t *testing.T) usage {
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(n.cmd.Process.Pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return usage{int(n.metric(t, "go_goroutines")), len(files), n.metric(t, "go_memstats_heap_inuse_bytes") / (1 << 20), n.metric(t, "process_resident_memory_bytes") / (1 << 20)}
}

// within tells whether nothing has grown by more than what comes and goes.
func (u usage) within(before usage) bool {
	return u.goroutines <= before.goroutines+60 && u.files <= before.files+30 && u.heap <= before.heap+64 && u.resident <= before.resident+160
}

func (n *node) lives() bool {
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

// peers are the addresses of whom newcomers ask: the bootstrap node, or servers once that is lost.
func (s *storm) peers() string {
	addrs := s.bootstrap.Addrs
	if !s.bootstrap.lives() {
		addrs = nil
		for _, n := range s.servers {
			if n.lives() {
				addrs = append(addrs, n.Addrs...)
			}
		}
	}
	return strings.Join(addrs, ",")
}

// start starts a server of four blocks that chooses them itself.
func (s *storm) start(m *machine, bin string, env []string) *node {
	return m.node(bin, env, "serve", toy, "--initial-peers", s.peers(), "--num-blocks", "4", "--mean-block-selection-delay", "1", "--mean-balance-check-period", "5",
		"--http", "off", "--admin", m.own+":0", "--throughput", "1000", "--update-period", "1s", "--skip-reachability-check")
}

// chooser does so and waits for it.
func (s *storm) chooser(bin string, env []string) *node {
	s.Helper()
	return s.usable(s.start(s.machine(), bin, env))
}

func (s *storm) usable(n *node) *node {
	s.Helper()
	if err := n.wait(s.T, patience); err != nil {
		s.Fatalf("%v\n%s", err, n.log)
	}
	return n
}

func (s *storm) newGateway() *node {
	s.Helper()
	m := s.machine()
	return s.usable(m.node("", nil, "gateway", toy, "--initial-peers", s.peers(), "--http", m.own+":0", "--admin", m.own+":0"))
}

// read asks for answers until over is set.
func (s *storm) read(r reference, steps int, over *atomic.Bool) {
	body, _ := json.Marshal(map[string]any{"model": s.model, "prompt": r.Prompt, "max_tokens": steps, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
	again := false
	for !over.Load() && !s.Failed() {
		s.mu.Lock()
		g := s.gateway
		s.mu.Unlock()
		var c completion
		resp, err := http.Post(g.HTTP+"/v1/completions", "application/json", bytes.NewReader(body))
		var raw []byte
		if err == nil {
			raw, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err != nil {
			s.mu.Lock()
			same := s.gateway == g
			s.mu.Unlock()
			if same && !poll(patience, func() bool { return !g.lives() }) { // one that ends takes no more while it does
				s.Errorf("a gateway that lives does not answer: %v", err)
			}
			s.broken.Add(1)
			<-time.After(200 * time.Millisecond)
			continue
		}
		err = json.Unmarshal(raw, &c)
		switch {
		case err == nil && resp.StatusCode == 200 && len(c.Choices) == 1:
			equal(s.T, r.Prompt, c.Choices[0].TokenIDs, r.IDs[:steps])
			s.answers.Add(1)
			again = false
		case resp.StatusCode == 503: // while blocks have no holder, or the gateway ends
			if !again {
				s.refused.Add(1)
			}
			again = true
			<-time.After(200 * time.Millisecond)
		default:
			s.Errorf("status %d: %.300s (%v)", resp.StatusCode, raw, err)
		}
	}
}

func chaos(t *testing.T, seed uint64, users int, next func(round int) (fault int, more bool)) *storm {
	t.Logf("seed %d", seed)
	const steps = 40
	s := &storm{T: t, grounds: newGrounds(t), rng: rand.New(rand.NewPCG(seed, 1)), began: map[*node]usage{}}
	m := s.machine()
	s.bootstrap = s.usable(m.node("", nil, "bootstrap", "--new-swarm"))
	for range 5 { // in one second: they spread out
		s.servers = append(s.servers, s.start(s.machine(), "", nil))
	}
	for _, n := range s.servers {
		s.usable(n)
	}
	s.healed()
	s.gateway = s.newGateway()
	s.model = (&swarm{gateway: s.gateway}).model(t)
	var over atomic.Bool
	var readers sync.WaitGroup
	for _, r := range refs(t, steps)[:users] {
		readers.Go(func() { s.read(r, steps, &over) })
	}
	s.served()
	for _, n := range append([]*node{s.gateway}, s.servers...) {
		s.began[n] = n.usage(t)
	}
	for round := 0; !t.Failed(); round++ {
		what, more := next(round)
		if !more {
			break
		}
		f, i := faults[what], s.rng.IntN(len(s.servers))
		if f.lab && s.lab == nil {
			continue
		}
		t.Logf("server %d: %s", i, f.name)
		f.do(s, i)
		s.healed()
		s.served()
	}
	over.Store(true)
	readers.Wait()
	s.leaks()
	t.Logf("%d answers, %d requests that could not be served at once, %d lost with a gateway", s.answers.Load(), s.refused.Load(), s.broken.Load())
	return s
}

// leaks is a table of what is left in nodes that lived through it.
func (s *storm) leaks() {
	var table strings.Builder
	for i, n := range append([]*node{s.gateway}, s.servers...) {
		before, known := s.began[n]
		if !known || !n.lives() {
			continue
		}
		name := "gateway "
		if i > 0 {
			name = fmt.Sprint("server ", i-1)
		}
		var after usage
		if !poll(patience, func() bool { after = n.usage(s.T); return after.within(before) }) {
			s.Errorf("%s holds more than before", name)
		}
		fmt.Fprintf(&table, "\n%s  before: %v\n          after:  %v", name, before, after)
	}
	s.Log(table.String())
}

// served waits for answers that were begun after now.
func (s *storm) served() {
	s.Helper()
	from := s.answers.Load()
	if !poll(patience, func() bool { return s.answers.Load() >= from+10 || s.Failed() }) {
		s.Errorf("%d answers in %v", s.answers.Load()-from, patience)
	}
}

// holds is the span that a server serves: from a block up to another.
func (s *storm) holds(n *node) (from, to int) {
	s.Helper()
	at, _ := n.span(s.T)
	fmt.Sscanf(at, "%d:%d", &from, &to)
	return from, to
}

// healed waits until every block has an online holder, as servers say that live.
func (s *storm) healed() {
	s.Helper()
	begin := time.Now()
	ok := poll(patience, func() bool {
		held := map[int]bool{}
		for _, n := range s.servers {
			if !n.lives() {
				continue
			}
			from, to := s.holds(n)
			for b := from; b < to; b++ {
				held[b] = true
			}
		}
		return len(held) == 8
	})
	if took := time.Since(begin); !ok {
		s.Errorf("a block has no holder after %v", took)
	} else if took > time.Second {
		s.Logf("healed after %v", took.Round(100*time.Millisecond))
	}
}
