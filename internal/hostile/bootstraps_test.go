package hostile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"whorl/swarm/dir"
	"whorl/swarm/p2p"
)

// All bootstraps die while users generate: their answers go on, newcomers join through other
// nodes, a node that restarts finds the swarm by the peers that it saved, and so does the founder,
// at its old address, where all others find it again, and at a new one.
func TestBootstrapsDie(t *testing.T) {
	folder := t.TempDir()
	var next struct {
		name   string   // of the node that starts next: its files
		listen []string // nil for any port
	}
	w := New(t, Options{
		Host: func(c *p2p.Config) {
			if next.name != "" {
				c.IdentityPath = filepath.Join(folder, next.name+".identity")
			}
			if next.listen != nil {
				c.HostMaddrs = next.listen
			}
		},
		Dir: func(c *dir.Config) {
			if next.name != "" {
				c.PeersPath = filepath.Join(folder, next.name+".peers")
			}
		},
	})
	start := func(name string, listen, bootstrap []string) *Node {
		next.name, next.listen = name, listen
		defer func() { next.name, next.listen = "", nil }()
		return w.Node(name, bootstrap)
	}
	saved := func(name string, want ...*Node) func() bool {
		return func() bool {
			b, err := os.ReadFile(filepath.Join(folder, name+".peers"))
			var peers []string
			return err == nil && json.Unmarshal(b, &peers) == nil && !slices.ContainsFunc(want, func(n *Node) bool { return !slices.Contains(peers, n.Host.Addrs()[0]) })
		}
	}
	knows := func(n *Node) {
		w.t.Helper()
		w.Await("it knows all servers", func() bool { return w.Seen(n) == len(w.Servers) })
	}

	// A second bootstrap that has peers saved, and a node that is restarted later.
	founder := w.Bootstrap.Host.Addrs()
	second := start("second", []string{"/ip4/127.0.80.1/tcp/0"}, founder) // of a machine of its own: nobody takes its port meanwhile
	boots := append(slices.Clone(founder), second.Host.Addrs()...)
	guest := start("guest", nil, boots)
	knows(guest)
	w.Await("the guest saves its peers", saved("guest", w.Servers...))
	w.Await("the bootstrap saves its peers", saved("second", w.Servers...))
	at := second.Host.ListenAddrs()
	guest.Stop()

	n := w.Honest(func() {
		w.Bootstrap.Stop()
		second.Stop()
		knows(start("late", nil, w.Servers[0].Host.Addrs()))
		knows(start("guest", nil, boots))

		// A founder names nobody: it knows of others by what it saved.
		back := start("second", at, nil)
		knows(back)
		if back.Host.ID() != second.Host.ID() || back.Host.ListenAddrs()[0] != at[0] {
			t.Errorf("it is back as %v", back.Host.Addrs())
		}
		w.Await("who started from it has it again", func() bool { return back.Host.Connected() >= len(w.Servers) })
		knows(start("newcomer", nil, back.Host.Addrs()))
		back.Stop()
		moved := start("second", nil, nil)
		knows(moved)
		knows(start("another", nil, moved.Host.Addrs()))
	})
	t.Logf("%d answers meanwhile", n)
}
