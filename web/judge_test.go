package web

import (
	"testing"
	"time"

	"whorl/store"
	"whorl/swarm"
)

func TestVerdicts(t *testing.T) {
	m, n := manifest("tiny", 8), manifest("other", 8)
	half := record("a", m, 0, 4, swarm.Online)
	for _, c := range []struct {
		what             string
		views            []swarm.View
		age              time.Duration
		pill, title, say string
	}{
		{"nobody", nil, 0, "empty", "No model is served yet.", "Start the first server with the command below; it appears here within seconds."},
		{"case 040: half of the blocks", []swarm.View{viewOf(m, half)}, 0, "broken", "tiny cannot answer now.", "Nobody holds blocks 4-7."},
		{"case 040: both halves", []swarm.View{viewOf(m, half, record("b", m, 4, 8, swarm.Online))}, 0, "healthy", "tiny is ready.", "Every block is held once; none has a spare."},
		{"the rest is coming", []swarm.View{viewOf(m, half, record("b", m, 4, 8, swarm.Joining))}, 0, "broken", "tiny cannot answer now.",
			"Nobody holds blocks 4-7. Servers are loading all of them."},
		{"some of it is coming", []swarm.View{viewOf(m, half, record("b", m, 2, 6, swarm.Joining))}, 0, "broken", "tiny cannot answer now.",
			"Nobody holds blocks 4-7. Servers are loading blocks 4-5."},
		{"one is missing", []swarm.View{viewOf(m, record("a", m, 0, 7, swarm.Online))}, 0, "broken", "tiny cannot answer now.", "Nobody holds block 7."},
		{"spare holders for some", []swarm.View{viewOf(m, half, record("b", m, 0, 8, swarm.Online))}, 0, "healthy", "tiny is ready.",
			"Every block is held; blocks 4-7 have no spare."},
		{"spare holders for all", []swarm.View{viewOf(m, record("a", m, 0, 8, swarm.Online), record("b", m, 0, 8, swarm.Online))}, 0, "healthy", "tiny is ready.",
			"Every block is held 2 times or more: any server may leave."},
		{"one of two models", []swarm.View{viewOf(n, record("a", n, 0, 8, swarm.Online)), viewOf(m, half)}, 0, "broken", "1 of 2 models are ready.", "tiny: Nobody holds blocks 4-7."},
		{"two models", []swarm.View{viewOf(n, record("a", n, 0, 8, swarm.Online)), viewOf(m, record("a", m, 0, 8, swarm.Online))}, 0, "healthy", "All 2 models are ready.", ""},
		{"an old snapshot", []swarm.View{viewOf(m, half, record("b", m, 4, 8, swarm.Online))}, 11 * time.Second, "unknown", "The state of the swarm is not known.",
			"The page below shows what was last heard."},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t)
			s := snap(0, c.views...)
			o := r.overview(s, s.at.Add(c.age))
			if o.Verdict.Pill.Text != c.pill || o.Verdict.Title != c.title || o.Verdict.Text != c.say {
				t.Errorf("got  %s: %q %q\nwant %s: %q %q", o.Verdict.Pill.Text, o.Verdict.Title, o.Verdict.Text, c.pill, c.title, c.say)
			}
			for _, m := range o.Models {
				for _, b := range m.Blocks {
					if c.age > 0 && b.State != "unknown" {
						t.Errorf("a page that is out of date calls block %d %s", b.Index, b.State)
					}
				}
			}
		})
	}
}

func TestRedundancyWanted(t *testing.T) {
	m := manifest("tiny", 8)
	r := newRig(t, func(c *Config, _ *Deps) { c.Redundancy = 2 })
	s := snap(0, viewOf(m, record("a", m, 0, 4, swarm.Online), record("b", m, 0, 8, swarm.Online)))
	if v := r.overview(s, s.at).Verdict; v.Pill.Text != "degraded" || v.Text != "It answers, but blocks 4-7 have fewer than 2 holders." {
		t.Errorf("verdict %+v", v)
	}
}

func TestSinceWhen(t *testing.T) {
	m := manifest("tiny", 8)
	r := newRig(t)
	s := snap(60, viewOf(m, record("a", m, 0, 4, swarm.Online)))
	s.past.events = []store.Event{
		{At: t0.Add(30 * time.Second), Kind: store.ServerOffline, Model: m.UID(), Peer: "b"},
		{At: t0.Add(20 * time.Second), Kind: store.ModelBroken, Model: m.UID()},
		{At: t0, Kind: store.ModelHealthy, Model: m.UID()},
	}
	if got, want := r.overview(s, s.at).Verdict.Text, "Nobody holds blocks 4-7, since 1 Mar 12:00:20 UTC."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestJoin(t *testing.T) {
	m := manifest("tiny; rm -rf $HOME", 8)
	for _, c := range []struct {
		what  string
		views []swarm.View
		node  fakeNode
		peers []string
		want  string
	}{
		{"an empty swarm", nil, fakeNode{}, nil, "whorl serve MODEL --new-swarm"},
		{"configured peers", nil, fakeNode{Addrs: []string{"/ip4/10.0.0.1/tcp/1/p2p/x"}, Swarm: "main"}, []string{"/dns4/a/tcp/1/p2p/y", "/dns4/b/tcp/1/p2p/z"},
			"whorl serve MODEL --initial-peers /dns4/a/tcp/1/p2p/y,/dns4/b/tcp/1/p2p/z"},
		{"an address that others reach", nil, fakeNode{Addrs: []string{"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip4/10.0.0.1/tcp/1/p2p/x/p2p-circuit/p2p/r", "/ip4/10.0.0.1/tcp/1/p2p/x"}, Swarm: "my garden"}, nil,
			"whorl serve MODEL --initial-peers /ip4/10.0.0.1/tcp/1/p2p/x --swarm 'my garden'"},
		{"a hostile name cannot leave its word", []swarm.View{viewOf(m, record("a", m, 0, 4, swarm.Online))}, fakeNode{}, nil, "whorl serve 'tiny; rm -rf $HOME' --new-swarm"},
	} {
		r := newRig(t, func(cfg *Config, d *Deps) { cfg.JoinPeers, d.Node = c.peers, c.node })
		s := snap(0, c.views...)
		if got := r.overview(s, s.at).Join.Command.Text; got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
}

// Whoever may be invited needs one word, and to an invitation to another model nobody is sent.
func TestJoinByInvitation(t *testing.T) {
	m, n := manifest("tiny", 8), manifest("other", 8)
	for _, c := range []struct {
		what       string
		word       Invitation
		ok         bool
		want, note string
	}{
		{"of a hub", Invitation{Word: "whorl1abc", Model: m.UID()}, true, "whorl join whorl1abc", "That machine needs no files: it fetches the blocks that it will hold."},
		{"of files", Invitation{Word: "whorl1abc", Model: m.UID(), Files: true}, true, "whorl join whorl1abc MODEL", "MODEL is the path of the model's files on that machine."},
		{"to another model", Invitation{Word: "whorl1abc", Model: n.UID()}, true, "whorl serve tiny --initial-peers /ip4/127.0.0.1/tcp/1/p2p/gate --swarm garden", ""},
		{"to a private swarm", Invitation{}, false, "whorl serve tiny --initial-peers /ip4/127.0.0.1/tcp/1/p2p/gate --swarm garden", ""},
	} {
		r := newRig(t, func(_ *Config, d *Deps) { d.Invite = func() (Invitation, bool) { return c.word, c.ok } })
		s := snap(0, viewOf(m, record("a", m, 0, 4, swarm.Online)))
		got := r.overview(s, s.at).Join
		if got.Command.Text != c.want || c.note != "" && got.Note != c.note {
			t.Errorf("%s: %s: %s", c.what, got.Command.Text, got.Note)
		}
	}
}
