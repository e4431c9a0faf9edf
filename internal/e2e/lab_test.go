//go:build e2e && linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"whorl/internal/natlab"
)

// grounds are machines of their own for nodes: each has a network namespace and an address in the
// world of a laboratory, and a small disk, which can be filled. Where this system makes no
// namespaces all nodes share the loopback, and nothing is cut or filled.
type grounds struct {
	t   *testing.T
	lab *natlab.Lab // nil: none

	mu    sync.Mutex // guards all below
	hosts map[string]*natlab.Host
	next  int
}

// machine is where one node runs.
type machine struct {
	*grounds
	host *natlab.Host // nil: the loopback
	own  string       // its loopback address, which no other machine has
	pub  string
}

// diskSize is what a machine's disk holds: far above what a node writes.
const diskSize = "16m"

// newGrounds makes them. Until the end of the test HTTP requests of this process reach the loopback addresses of
// all machines.
func newGrounds(t *testing.T) *grounds {
	g := &grounds{t: t, hosts: map[string]*natlab.Host{}}
	lab := natlab.New(1)
	_, err := lab.Add(natlab.Spec{Name: "probe", Addrs: []string{"20.4.255.1"}})
	if err != nil || exec.Command("unshare", "-m", "true").Run() != nil {
		if err != nil && !errors.Is(err, natlab.ErrCannot) {
			t.Fatal(err)
		}
		t.Logf("not proven: partitions, slow links and full disks (%v)", err)
		lab.Close()
		return g
	}
	g.lab = lab
	t.Cleanup(lab.Close)
	old := http.DefaultTransport
	http.DefaultTransport = &http.Transport{DialContext: g.dial, DisableKeepAlives: true}
	t.Cleanup(func() { http.DefaultTransport = old })
	return g
}

// dial opens a connection in the namespace whose loopback address it is.
func (g *grounds) dial(ctx context.Context, network, addr string) (c net.Conn, err error) {
	ip, _, _ := net.SplitHostPort(addr)
	g.mu.Lock()
	h := g.hosts[ip]
	g.mu.Unlock()
	if h == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	err = h.Do(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return c, err
}

// machine adds one.
func (g *grounds) machine() *machine {
	g.t.Helper()
	m := &machine{grounds: g, own: "127.0.0.1", pub: "127.0.0.1"}
	if g.lab == nil {
		return m
	}
	g.mu.Lock()
	g.next++
	n := g.next
	g.mu.Unlock()
	m.own, m.pub = fmt.Sprintf("127.0.%d.%d", 1+n/250, 1+n%250), fmt.Sprintf("20.4.%d.%d", n/250, 1+n%250)
	h, err := g.lab.Add(natlab.Spec{Name: m.pub, Addrs: []string{m.pub}})
	if err != nil {
		g.t.Fatal(err)
	}
	m.host = h
	g.mu.Lock()
	g.hosts[m.own] = h
	g.mu.Unlock()
	return m
}

// node runs a node on the machine; bin is the program, "" for the one under test.
func (m *machine) node(bin string, env []string, args ...string) *node {
	t := m.t
	t.Helper()
	disk := t.TempDir()
	env = append(append(os.Environ(), "WHORL_CACHE_DIR="+filepath.Join(disk, "cache"), "WHORL_DATA_DIR="+filepath.Join(disk, "data")), env...)
	args = append(args, "--host-maddrs", "/ip4/"+m.pub+"/tcp/0")
	how := launching{env: env, bin: bin}
	if m.host != nil {
		how.by = []string{"unshare", "-m", "--propagation", "private", "sh", "-c", fmt.Sprintf(`mount -t tmpfs -o size=%s none '%s' && exec "$0" "$@"`, diskSize, disk)}
		how.start = func(c *exec.Cmd) error { return m.host.Do(c.Start) }
	}
	n := how.launch(t, args...)
	n.machine, n.disk = m, disk
	return n
}

// fill leaves no room on the disk of a node, and gives a function that makes room again.
func (n *node) fill(t *testing.T) (empty func()) {
	t.Helper()
	name := filepath.Join("/proc", fmt.Sprint(n.cmd.Process.Pid), "root", n.disk, "fill")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	more := filepath.Join(filepath.Dir(name), "more")
	full := func() bool { // a file that the node puts in the place of another makes room again
		for chunk := 1 << 20; chunk > 0; chunk /= 2 {
			for err == nil {
				_, err = f.Write(make([]byte, chunk))
			}
			err = nil
		}
		defer os.Remove(more)
		return os.WriteFile(more, []byte("x"), 0o600) != nil
	}
	if !poll(patience, full) {
		t.Error("the disk is not full")
	}
	return func() { os.Remove(name) }
}

// skewed is the program under test, built so that its clock can be set wrong.
func skewed(t *testing.T) string {
	t.Helper()
	skew.once.Do(func() {
		skew.path = filepath.Join(scratch, "whorl-clockskew")
		if out, err := exec.Command("go", "build", "-tags", "clockskew", "-o", skew.path, "whorl/cmd/whorl").CombinedOutput(); err != nil {
			skew.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if skew.err != nil {
		t.Fatal(skew.err)
	}
	return skew.path
}

var skew struct {
	once sync.Once
	path string
	err  error
}
