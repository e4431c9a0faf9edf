package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
