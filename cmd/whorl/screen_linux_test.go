package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"whorl/internal/fakehub"
	"whorl/internal/wiring"

	"golang.org/x/sys/unix"
)

// pseudoterminal is a terminal of the system, whose screen is kept.
func pseudoterminal(t *testing.T) (*os.File, func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("not proven: what a node shows at a terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("not proven: what a node shows at a terminal: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	var mu sync.Mutex // guards all
	var all []byte
	go func() { // ends with master
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, buf[:n]...)
			mu.Unlock()
		}
	}()
	return slave, func() string {
		mu.Lock()
		defer mu.Unlock()
		var m terminal
		m.Write(all)
		if len(m.bad) > 0 {
			t.Errorf("what no terminal has to know: %q", m.bad)
		}
		return m.seen()
	}
}

// A first start at a terminal shows one block that is drawn again and again, and its last state
// stays; whoever asks for the log gets it.
func TestBlockAtATerminal(t *testing.T) {
	for _, c := range []struct {
		flags       []string
		want, avoid string
	}{
		{nil, "state     online", "level=INFO"},
		{[]string{"--log-level", "info"}, "level=INFO msg=ready", "state     online"},
	} {
		tty, seen := pseudoterminal(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 1)
		args := append([]string{"serve", toy, "--new-swarm", "--host-maddrs", loopback, "--http", wiring.Off, "--admin", wiring.Off, "--throughput", "100",
			"--ephemeral", "--ready-file", filepath.Join(t.TempDir(), "ready")}, c.flags...)
		go func() {
			done <- run(ctx, args, world{strings.NewReader(""), io.Discard, tty, func() []string { return []string{"TERM=xterm"} }})
		}()
		tick, end := time.NewTicker(20*time.Millisecond), time.After(2*time.Minute)
		for there := false; !there; {
			select {
			case <-tick.C:
				there = strings.Contains(seen(), c.want)
			case code := <-done:
				t.Fatalf("it ended with %d:\n%s", code, seen())
			case <-end:
				t.Fatalf("%q does not come:\n%s", c.want, seen())
			}
		}
		tick.Stop()
		cancel()
		if code := <-done; code != exitDone {
			t.Errorf("exit code %d", code)
		}
		last := "ending: sessions go on elsewhere"
		if c.flags != nil {
			last = "msg=draining"
		}
		for end := time.After(2 * time.Minute); !strings.Contains(seen(), last); { // the terminal is read beside us
			select {
			case <-time.After(5 * time.Millisecond):
				continue
			case <-end:
				t.Errorf("%q does not come", last)
			}
			break
		}
		got := seen()
		if strings.Contains(got, c.avoid) || c.flags == nil && (strings.Count(got, "\nstate ") != 1 || !strings.Contains(got, "blocks    0:8 of 8")) {
			t.Errorf("with %v:\n%s", c.flags, got)
		}
		t.Logf("\n%s", got)
	}
}

// Who fetches a model at a terminal sees a bar while it comes, above which the log goes on, and none afterwards.
func TestBarAtATerminal(t *testing.T) {
	f := fakehub.New(t)
	env := append(hubEnv(t, f, "someone/toy", toyFolder), "TERM=xterm")
	on := make(chan struct{})
	f.Fail(func(_ *http.Request, file string) *fakehub.Fault {
		if strings.HasSuffix(file, ".safetensors") {
			return &fakehub.Fault{Stall: on}
		}
		return nil
	})
	tty, seen := pseudoterminal(t)
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"models", "get", "someone/toy"}, world{strings.NewReader(""), io.Discard, tty, func() []string { return env }})
	}()
	if !eventually(func() bool { return strings.Contains(seen(), "] 0 %, 0 bytes of ") || strings.Contains(seen(), "-] ") }) {
		t.Fatalf("no bar:\n%s", seen())
	}
	close(on)
	if code := <-done; code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, seen())
	}
	if !eventually(func() bool { return strings.Contains(seen(), "model of the hub") && !strings.Contains(seen(), "-] ") }) {
		t.Errorf("afterwards:\n%s", seen())
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{{0, 0, "[------------------------]"}, {0, 9, "[------------------------]"}, {1, 2, "[############------------]"}, {9, 9, "[########################]"}, {10, 9, "[########################]"}} {
		if got := bar(c.done, c.total); got != c.want {
			t.Errorf("%d of %d: %s", c.done, c.total, got)
		}
	}
}
