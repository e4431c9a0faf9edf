//go:build linux && e2e

package natlab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// toy is a model of 8 blocks.
const toy = "../swarmtest/testdata/toy"

// whorl is the program under test.
func whorl(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("WHORL_BIN"); bin != "" {
		return bin
	}
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "natlab-")
		if err == nil {
			built.path = filepath.Join(dir, "whorl")
			var out []byte
			if out, err = exec.Command("go", "build", "-o", built.path, "whorl/cmd/whorl").CombinedOutput(); err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
		}
		built.err = err
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

var built struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" {
		os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// proc is a process on a host.
type proc struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex // guards log
	log  bytes.Buffer
	out  bytes.Buffer
	err  error // after done

	ID    string   `json:"peer_id"`
	Addrs []string `json:"addrs"`
	Admin string   `json:"admin"`
}

func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *proc) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// run starts the program on a host.
func (h *Host) run(t *testing.T, args ...string) *proc {
	t.Helper()
	line := append([]string{whorl(t)}, args...)
	if h.ns != "" {
		line = append([]string{"ip", "netns", "exec", h.ns}, line...)
	}
	p := &proc{cmd: exec.Command(line[0], line[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, p
	p.cmd.Env = append(os.Environ(), "WHORL_CACHE_DIR="+t.TempDir(), "GOMAXPROCS=2")
	if err := h.Do(p.cmd.Start); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(p.text()), "\n")
			t.Logf("%s: whorl %s\n%s", h.Name, strings.Join(args, " "), strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	return p
}

func (p *proc) kill() {
	p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// node starts a node and waits until it is usable.
func (h *Host) node(t *testing.T, args ...string) *proc {
	t.Helper()
	p, file := h.launch(t, args...)
	p.ready(t, h, file)
	return p
}

func (h *Host) launch(t *testing.T, args ...string) (*proc, string) {
	t.Helper()
	return h.launchAs(t, append(args, "--no-port-mapping")...)
}

// launchAs is launch of a node that may ask its router for ports.
func (h *Host) launchAs(t *testing.T, args ...string) (*proc, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready")
	return h.run(t, append(args, "--ready-file", file, "--port", "4001", "--update-period", "6s")...), file
}

// patience bounds waits for what takes seconds on a quiet machine.
const patience = 3 * time.Minute

func (p *proc) ready(t *testing.T, h *Host, file string) {
	t.Helper()
	for late := time.After(patience); ; {
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, p) == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s: it ended: %v\n%s", h.Name, p.err, p.text())
		case <-late:
			t.Fatalf("%s: not usable after %v\n%s", h.Name, patience, p.text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logged waits for a line.
func (p *proc) logged(t *testing.T, what string) {
	t.Helper()
	for late := time.After(patience); !strings.Contains(p.text(), what); {
		select {
		case <-late:
			t.Fatalf("no line says %q:\n%s", what, p.text())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answer is what generate prints.
type answer struct {
	IDs      []int32 `json:"ids"`
	Reroutes int     `json:"reroutes"`
	Timings  struct {
		PrefillMS float64 `json:"prefill_ms"`
		DecodeMS  float64 `json:"decode_ms"`
		PauseMS   float64 `json:"longest_pause_ms"`
	} `json:"timings"`
	how string        // direct over which transport, relayed, or relayed and then direct
	rtt time.Duration // not used by the process: from its start to the end
	log string
}

var dialled = regexp.MustCompile(`msg=stream peer=\S+ protocol=/whorl/session addr=(\S+)`)

// result waits for generate to end.
func (p *proc) result(limit time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var a answer
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		return a, errors.New("it takes too long: " + p.text())
	}
	a.log = p.text()
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &a); p.err != nil || err != nil {
		return a, fmt.Errorf("%v %v: %s", p.err, err, a.log)
	}
	transport := func(addr string) string {
		if strings.Contains(addr, "quic") {
			return "QUIC"
		}
		return "TCP"
	}
	if m := dialled.FindStringSubmatch(a.log); m != nil {
		a.how = "direct, " + transport(m[1])
	}
	if strings.Contains(a.log, `msg="stream through a relay"`) {
		a.how = "relayed"
		if _, rest, ok := strings.Cut(a.log, "a stream moves from a relay to a direct connection"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			a.how = "relayed, then " + transport(line)
		}
	}
	return a, nil
}

// prompt is the question of all cases, tokens how long their answers are.
const (
	prompt = "5,17,42,99,7,23"
	tokens = 40
)

func ask(model string, n int, peers []string, more ...string) []string {
	return append([]string{"generate", toy, "--model-name", model, "--ids", prompt, "--max-new-tokens", fmt.Sprint(n), "--ignore-eos", "--json", "--log-level", "debug",
		"--initial-peers", strings.Join(peers, ",")}, more...)
}

// answered asks until the servers are known to those that the client asks, which takes some
// seconds after their start.
func (h *Host) answered(t *testing.T, args []string) (a answer, err error) {
	t.Helper()
	for range 5 {
		if a, err = h.run(t, args...).result(patience); err == nil || !strings.Contains(err.Error(), "No servers holding") {
			return a, err
		}
	}
	return a, err
}

// alone is the answer of one process.
func alone(t *testing.T, n int) []int32 {
	t.Helper()
	out, err := exec.Command(whorl(t), "generate", toy, "--ids", prompt, "--max-new-tokens", fmt.Sprint(n), "--ignore-eos", "--json", "--local").Output()
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &a); err != nil {
		t.Fatal(err)
	}
	return a.IDs
}

// world is a lab with three public nodes that others start from, and that relay.
type world struct {
	*Lab
	boots  []*proc
	hosts  []*Host
	peers  []string // of the first two
	number int
	delay  time.Duration
}

func newWorld(t *testing.T, delay time.Duration) *world {
	t.Helper()
	w := &world{Lab: lab(t), delay: delay}
	for i := range 3 {
		h := add(t, w.Lab, Spec{Name: fmt.Sprintf("boot%d", i), Addrs: []string{fmt.Sprintf("20.0.0.%d", i+1), fmt.Sprintf("2a01:1::%d", i+1)}, Delay: delay})
		args := []string{"bootstrap", "--new-swarm", "--log-level", "debug"}
		if i > 0 {
			args = []string{"bootstrap", "--initial-peers", w.peers[0], "--log-level", "debug"}
		}
		b := h.node(t, args...)
		w.boots, w.hosts = append(w.boots, b), append(w.hosts, h)
		if i < 2 {
			for _, a := range b.Addrs {
				if strings.Contains(a, "/tcp/") && (strings.Contains(a, "20.0.0.") || strings.Contains(a, "2a01:")) {
					w.peers = append(w.peers, a)
				}
			}
		}
	}
	return w
}

// kinds are the hosts of the table.
var kinds = []string{"public", "full cone", "address-restricted", "port-restricted", "symmetric", "double NAT", "UDP blocked", "IPv6 only", "firewall"}

// host makes a host of a kind.
func (w *world) host(t *testing.T, kind string) *Host {
	t.Helper()
	w.number++
	inner, outer := fmt.Sprintf("192.168.%d.2", w.number), fmt.Sprintf("20.1.%d.1", w.number)
	s := Spec{Name: fmt.Sprintf("%s %d", kind, w.number), Addrs: []string{inner}, Delay: w.delay}
	nat := func(k Kind) *Box { return NewBox(k, outer, 30*time.Second) }
	switch kind {
	case "public":
		s.Addrs = []string{outer, fmt.Sprintf("2a01:2::%d", w.number)}
	case "full cone":
		s.Boxes = []*Box{nat(FullCone)}
	case "address-restricted":
		s.Boxes = []*Box{nat(AddressRestricted)}
	case "port-restricted":
		s.Boxes = []*Box{nat(PortRestricted)}
	case "symmetric":
		s.Boxes = []*Box{nat(Symmetric)}
	case "double NAT":
		s.Boxes = []*Box{NewBox(PortRestricted, fmt.Sprintf("100.64.%d.1", w.number), 30*time.Second), nat(PortRestricted)}
	case "UDP blocked":
		b := nat(PortRestricted)
		b.NoUDP = true
		s.Boxes = []*Box{b}
	case "IPv6 only":
		s.Addrs = []string{fmt.Sprintf("2a01:3::%d", w.number)}
	case "firewall":
		s.Addrs, s.Boxes = []string{outer}, []*Box{nat(Firewall)}
	default:
		t.Fatal(kind)
	}
	return add(t, w.Lab, s)
}

// serve starts a server of a model of its own; ready waits for it.
func (w *world) serve(t *testing.T, h *Host, model string, more ...string) (*proc, string) {
	t.Helper()
	return h.launch(t, append([]string{"serve", toy, "--model-name", model, "--throughput", "100", "--http", "off", "--admin", "off", "--mean-block-selection-delay", "0",
		"--log-level", "debug", "--initial-peers", strings.Join(w.peers, ",")}, more...)...)
}

// Pairs of a server and a client behind all kinds of routers serve a session with the ids of
// one process, directly where that can be. NATLAB=all makes the whole table; NATLAB_SERVERS and
// NATLAB_CLIENTS, kinds with commas between, a part of it.
func TestPairs(t *testing.T) {
	servers, clients := []string{"public", "port-restricted", "symmetric"}, []string{"public", "port-restricted"}
	all := os.Getenv("NATLAB") == "all"
	if all {
		servers, clients = kinds, kinds
	}
	for name, which := range map[string]*[]string{"NATLAB_SERVERS": &servers, "NATLAB_CLIENTS": &clients} {
		if list := os.Getenv(name); list != "" {
			*which, all = strings.Split(list, ","), false
		}
	}
	w := newWorld(t, 5*time.Millisecond)
	want := alone(t, tokens)
	type running struct {
		kind, model, file string
		host              *Host
		*proc
	}
	var up []running
	for i, k := range servers {
		r := running{kind: k, model: fmt.Sprintf("m%d", i), host: w.host(t, k)}
		r.proc, r.file = w.serve(t, r.host, r.model, "--block-indices", "0:8")
		up = append(up, r)
	}
	for _, r := range up {
		r.ready(t, r.host, r.file)
	}
	direct := map[string]bool{"public": true, "full cone": true, "IPv6 only": true}
	var table strings.Builder
	fmt.Fprintf(&table, "| server | client | way | first token ms | %d tokens ms |\n|---|---|---|---|---|\n", tokens)
	punched, tried := 0, 0
	for _, c := range clients {
		for _, r := range up {
			h := w.host(t, c)
			a, err := h.answered(t, ask(r.model, tokens, w.peers))
			if err != nil {
				t.Errorf("server %s, client %s: %v", r.kind, c, err)
				continue
			}
			if !slices.Equal(a.IDs, want) || len(a.IDs) != tokens {
				t.Errorf("server %s, client %s: ids %v, of one process %v", r.kind, c, a.IDs, want)
			}
			if sameFamily := (r.kind == "IPv6 only") == (c == "IPv6 only") || r.kind == "public" || c == "public"; direct[r.kind] && sameFamily && !strings.HasPrefix(a.how, "direct") {
				t.Errorf("server %s, client %s: %s", r.kind, c, a.how)
			}
			if strings.HasPrefix(a.how, "relayed") {
				if tried++; a.how != "relayed" {
					punched++
				}
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %.0f | %.0f |\n", r.kind, c, a.how, a.Timings.PrefillMS, a.Timings.DecodeMS)
		}
	}
	t.Logf("of %d that began at a relay %d became direct while the answer ran\n%s", tried, punched, table.String())
	if all {
		os.WriteFile(filepath.Join("..", "..", "artifacts", "natlab-pairs.md"), []byte(table.String()), 0o644)
	}
}
