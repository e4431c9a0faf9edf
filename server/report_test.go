package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

// A session in use ends so long after its prompt, and a silent one sooner; both may be
// replayed. The time that a prompt takes does not count: a slow server would never get to
// answer a long one.
func TestSessionsEndInTime(t *testing.T) {
	span := swarm.Span{Start: 0, End: 2}
	for _, c := range []struct {
		name   string
		change func(*Timeouts)
		every  time.Duration // between rows
		prompt bool          // rows are all of prompts
		ends   time.Duration // after the first row; 0: not within 4 hours
		why    string
	}{
		{"in use", func(*Timeouts) {}, 4 * time.Minute, false, 30 * time.Minute, "was open for 30m0s"},
		{"silent", func(*Timeouts) {}, 6 * time.Minute, false, 5 * time.Minute, "was idle for 5m0s"},
		{"a long prompt", func(*Timeouts) {}, 4 * time.Minute, true, 0, ""},
		{"no limits", func(t *Timeouts) { t.Idle, t.Session = 0, 0 }, 40 * time.Minute, false, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				n := w.serve("a", span, func(cfg *Config, _ *node) { c.change(&cfg.Timeouts) })
				p := w.opened(n, "client", span, nil)
				rows := 1
				if c.prompt {
					rows = 2
				}
				in, at, start := input(1, 200), 0, time.Now()
				for len(n.Sessions()) == 1 && time.Since(start) < 4*time.Hour {
					p.rows(in, at, at+rows, 0)
					at += rows
					p.position(at)
					for next := time.Now().Add(c.every); len(n.Sessions()) == 1 && time.Now().Before(next); {
						time.Sleep(time.Second)
					}
				}
				took := time.Since(start)
				if c.ends == 0 {
					if len(n.Sessions()) != 1 {
						t.Errorf("it ended after %v", took)
					}
					return
				}
				if f := p.refusal(swarm.CodeNoSession, swarm.Replay); !strings.Contains(f.Message, c.why) {
					t.Errorf("it ended because %q, want %q", f.Message, c.why)
				}
				if took < c.ends || took > c.ends+3*time.Second {
					t.Errorf("it ended after %v, want %v", took, c.ends)
				}
			})
		})
	}
}

func TestStatistics(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		n := w.serve("a", swarm.Span{Start: 0, End: 2}, func(cfg *Config, n *node) { cfg.StatsEvery, n.log = 10*time.Second, &log })
		time.Sleep(time.Second) // between two lines
		p := w.opened(n, "client", swarm.Span{Start: 0, End: 2}, nil)
		in := input(1, 8)
		p.rows(in, 0, 5, 0)
		p.position(5)
		for i := 5; i < 8; i++ {
			p.rows(in, i, i+1, 0)
			p.position(i + 1)
		}
		time.Sleep(20 * time.Second)
		w.close() // nobody writes to the log any more
		var got []string
		for line := range strings.Lines(log.String()) {
			if _, line, ok := strings.Cut(strings.TrimSpace(line), "msg=statistics "); ok {
				got = append(got, line)
			}
		}
		want := []string{
			"seconds=10 steps=4 steps_s=0.4 rows_s=0.8 prompt_rows=5 mean_batch_sessions=1 mean_batch_rows=2 sessions=1 ",
			"seconds=10 steps=0 steps_s=0 rows_s=0 prompt_rows=0 mean_batch_sessions=0 mean_batch_rows=0 sessions=1 ",
		}
		if len(got) != len(want) {
			t.Fatalf("lines %q", got)
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) || !strings.Contains(got[i], "cache_tokens=") {
				t.Errorf("line %d:\n got %s\nwant %s", i, got[i], want[i])
			}
		}
	})
}
