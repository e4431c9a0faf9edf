//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// whorl is the binary under test, built once by TestMain unless WHORL_BIN names one. scratch is a folder for
// what tests build.
var whorl, scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "whorl-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := func() int {
		defer os.RemoveAll(dir)
		if whorl = os.Getenv("WHORL_BIN"); whorl == "" {
			whorl = filepath.Join(dir, "whorl")
			if out, err := exec.Command("go", "build", "-o", whorl, "whorl/cmd/whorl").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "building whorl: %v\n%s", err, out)
				return 1
			}
		}
		return m.Run()
	}()
	os.Exit(code)
}

// ready is the ready file of a node.
type ready struct {
	PeerID string   `json:"peer_id"`
	Addrs  []string `json:"addrs"`
	HTTP   string   `json:"http"`
	Admin  string   `json:"admin"`
	PID    int      `json:"pid"`
}

// node is a running whorl process.
type node struct {
	ready
	cmd  *exec.Cmd
	file string        // where it writes its ready file
	done chan struct{} // closed when the process has ended
	err  error         // of Wait, after done
	log  *logBuffer

	killed  bool // by the test
	machine *machine
	disk    string // the folder of its disk, with a machine
}

// logBuffer collects a process's output for the test's log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// patience bounds waits for what takes a moment on a quiet machine: a test fails by it where something never comes, and
// not where a machine is slow.
const patience = 2 * time.Minute

// start runs a node and waits until it is usable.
func start(t *testing.T, args ...string) *node {
	t.Helper()
	n := launch(t, args...)
	if err := n.wait(t, patience); err != nil {
		t.Fatalf("whorl %s: %v\n%s", strings.Join(args, " "), err, n.log)
	}
	return n
}

// launch runs a node without waiting. It is ended with the test.
func launch(t *testing.T, args ...string) *node {
	t.Helper()
	return launchIn(t, ownFolders(t), args...)
}

// ownFolders is our environment, with folders of its own for a node.
func ownFolders(t *testing.T) []string {
	dir := t.TempDir()
	return append(os.Environ(), "WHORL_CACHE_DIR="+filepath.Join(dir, "cache"), "WHORL_DATA_DIR="+filepath.Join(dir, "data"))
}

// launchIn runs a node with this environment and nothing else of ours.
func launchIn(t *testing.T, env []string, args ...string) *node {
	t.Helper()
	return launching{env: env}.launch(t, args...)
}

// launching is how a process is started.
type launching struct {
	env   []string
	by    []string                // a command that becomes the program, such as a shell that ends in exec; nil: none
	bin   string                  // "": the program under test
	start func(c *exec.Cmd) error // nil: as usual
}

func (l launching) launch(t *testing.T, args ...string) *node {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	args = append(args, "--ready-file", file)
	line := append(append(slices.Clone(l.by), cmp.Or(l.bin, whorl)), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = l.env
	n := &node{cmd: cmd, file: file, done: make(chan struct{}), log: &logBuffer{}}
	cmd.Stdout, cmd.Stderr = n.log, n.log
	start := l.start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		n.err = cmd.Wait()
		close(n.done)
	}()
	t.Cleanup(func() {
		n.signal(syscall.SIGCONT)
		n.signal(syscall.SIGTERM)
		select {
		case <-n.done:
		case <-time.After(patience):
			t.Errorf("whorl %s did not end within %v of SIGTERM", args[0], patience)
			n.signal(syscall.SIGQUIT) // its log then says what every goroutine waits for
			select {
			case <-n.done:
			case <-time.After(5 * time.Second):
				cmd.Process.Kill()
				<-n.done
			}
		}
		if n.err != nil && !n.killed {
			t.Errorf("whorl %s ended with %v", args[0], n.err)
		}
		if t.Failed() {
			t.Logf("whorl %s\n%s", strings.Join(args, " "), n.log)
		}
	})
	return n
}

// wait waits for the ready file.
func (n *node) wait(t *testing.T, limit time.Duration) error {
	t.Helper()
	var err error
	ok := poll(limit, func() bool {
		select {
		case <-n.done:
			err = fmt.Errorf("it ended early: %v", n.err)
			return true
		default:
		}
		b, readErr := os.ReadFile(n.file)
		if errors.Is(readErr, os.ErrNotExist) {
			return false
		}
		err = errors.Join(readErr, json.Unmarshal(b, &n.ready))
		return true
	})
	if !ok {
		return fmt.Errorf("not ready within %v", limit)
	}
	return err
}

// signal sends a signal to a process this test started.
func (n *node) signal(s syscall.Signal) {
	select {
	case <-n.done:
	default:
		n.cmd.Process.Signal(s)
	}
}

// kill ends the process at once and waits for it.
func (n *node) kill() {
	n.killed = true
	n.signal(syscall.SIGKILL)
	<-n.done
}

// poll asks every 20 ms until the condition holds; false if the limit passes first.
func poll(limit time.Duration, cond func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			return cond()
		}
	}
	return true
}

// result is what a finished command gave.
type result struct {
	stdout, stderr string
	code           int
}

// run runs a command to its end.
func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, whorl, args...)
	cmd.Env = append(os.Environ(), "WHORL_CACHE_DIR="+filepath.Join(t.TempDir(), "cache"))
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// lastJSON decodes the last line of a command's output.
func lastJSON(t *testing.T, r result, v any) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != 0 || json.Unmarshal([]byte(lines[len(lines)-1]), v) != nil {
		t.Fatalf("exit code %d, want JSON on the last line\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
	}
}
