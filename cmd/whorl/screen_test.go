package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"whorl/internal/golden"
	"whorl/internal/wiring"
	"whorl/swarm"
)

// terminal understands what a screen writes: it is what somebody sees in the end.
type terminal struct {
	lines []string
	row   int
	bad   []string // sequences that it does not know
}

func (m *terminal) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if m.row == len(m.lines) {
			m.lines = append(m.lines, "")
		}
		rest, known := text, false
		for code, act := range map[string]func(){
			"\r": func() {}, "\n": func() { m.row++ }, wrapOff: func() {}, wrapOn: func() {},
			lineUp:   func() { m.row = max(m.row-1, 0) },
			eraseAll: func() { m.lines = append(m.lines[:m.row], "") },
		} {
			if after, ok := strings.CutPrefix(text, code); ok {
				act()
				rest, known = after, true
				break
			}
		}
		if !known {
			if text[0] == 0x1b {
				m.bad = append(m.bad, text)
				break
			}
			n := strings.IndexAny(text, "\x1b\r\n")
			if n < 0 {
				n = len(text)
			}
			m.lines[m.row] += text[:n]
			rest = text[n:]
		}
		text = rest
	}
	return len(p), nil
}

func (m *terminal) seen() string { return strings.TrimRight(strings.Join(m.lines, "\n"), "\n") }

// The block stands once, at the end, with what was written above it, however often it is drawn.
func TestScreen(t *testing.T) {
	var m terminal
	s := &screen{out: &m}
	s.show([]string{"one", "two"})
	io.WriteString(s, "a line\n")
	s.show([]string{"one", "two", "three"})
	io.WriteString(s, "a second without an end")
	for range 3 {
		s.show([]string{"four"})
	}
	s.show([]string{"a name \x1b[2Jof a stranger\n\r\a"})
	if got, want := m.seen(), "a line\na second without an end\na name [2Jof a stranger"; got != want || len(m.bad) > 0 {
		t.Errorf("%q, want %q; unknown %q", got, want, m.bad)
	}
}

// Trouble goes above the block, the rest is noted in it, without what is secret.
func TestCalm(t *testing.T) {
	var m terminal
	b := &block{screen: &screen{out: &m}}
	log := slog.New(&calm{slog.NewTextHandler(b.screen, &slog.HandlerOptions{Level: slog.LevelDebug}), b.noted})
	log.Debug("nothing")
	log.Info("loading", "block", 3, "token", "hf_secret")
	log.With("peer", "12D3").Warn("a peer is away")
	b.live = true
	log.Info("ready")
	got := m.seen()
	if !strings.Contains(got, `level=WARN msg="a peer is away" peer=12D3`) || !strings.HasSuffix(got, "loading  block 3  token "+wiring.Hidden) || strings.Contains(got, "nothing") {
		t.Errorf("%s", got)
	}
	if b.latest() != "ready" {
		t.Error(b.latest())
	}
}

// What a node shows in each phase of its life.
func TestBlockLines(t *testing.T) {
	left := 80.0
	man := &swarm.Manifest{Name: "smol", Blocks: 30}
	node := swarm.NodeStatus{Roles: []string{"server", "gateway"}, Swarm: "main", State: swarm.Joining, Peers: 3}
	var out strings.Builder
	scene := func(name string, st swarm.NodeStatus, rate float64, url, note string) {
		out.WriteString("# " + name + "\n" + strings.Join(blockLines(st, rate, url, note), "\n") + "\n\n")
	}
	scene("it joins", node, 0, "", "others join with")
	node.Manifest = man
	node.Loading = &swarm.Loading{Phase: swarm.Fetching, Bytes: 1 << 30, Total: 3 << 30, Rate: 40 << 20, SecondsLeft: &left}
	scene("it fetches", node, 0, "http://127.0.0.1:8300", "model of the hub")
	node.Loading = &swarm.Loading{Phase: swarm.Fetching, Bytes: 5 << 10, Total: 7 << 20}
	scene("nothing comes", node, 0, "http://127.0.0.1:8300", "")
	node.Loading, node.State, node.Span = nil, swarm.Online, &swarm.Span{Start: 10, End: 20}
	node.Throughput, node.Sessions, node.Served, node.Batch.Rows = 120.53, 2, 15, 12345
	scene("it serves", node, 45.21, "http://127.0.0.1:8300", "ready")
	scene("a bootstrap", swarm.NodeStatus{Roles: []string{"bootstrap"}, Swarm: "main", State: swarm.Online, Peers: 7}, 0, "", "")
	golden.Check(t, "testdata/block.txt", out.String())
}

// The present speed is that of the last seconds.
func TestPace(t *testing.T) {
	var p pace
	at := time.Unix(0, 0)
	for i, c := range []struct {
		n    uint64
		want float64
	}{{100, 0}, {110, 10}, {130, 15}, {130, 10}, {130, 7.5}, {130, 6}, {130, 4}, {130, 0}, {130, 0}, {5, 0}} {
		if got := p.of(c.n, at.Add(time.Duration(i)*time.Second)); got != c.want {
			t.Errorf("second %d: %v, want %v", i, got, c.want)
		}
	}
}

// Only a terminal shows a block, and only where nobody asks for the log.
func TestNoBlockInPipes(t *testing.T) {
	var err bytes.Buffer
	read, write, perr := os.Pipe()
	if perr != nil {
		t.Fatal(perr)
	}
	defer read.Close()
	defer write.Close()
	for _, to := range []io.Writer{&err, write} {
		w := &world{strings.NewReader(""), io.Discard, to, func() []string { return nil }}
		cmd, _, ferr := newRoot(w).Find([]string{"serve"})
		if ferr != nil {
			t.Fatal(ferr)
		}
		if _, ok := wantsBlock(cmd, sources{}, w); ok {
			t.Errorf("a block in %T", to)
		}
	}
	if blockOf(context.Background()) != nil {
		t.Error("a block of no command")
	}
}
