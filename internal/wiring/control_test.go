package wiring

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"whorl/api"
	"whorl/swarm"
	"whorl/swarm/trust"
)

// startLogging makes a default log for one test.
func startLogging(t *testing.T, level string) (*Logging, *bytes.Buffer) {
	t.Helper()
	old := slog.Default()
	t.Cleanup(func() { slog.SetDefault(old) })
	var out bytes.Buffer
	l := new(Logging)
	if err := l.Start(&out, "text", level, nil); err != nil {
		t.Fatal(err)
	}
	return l, &out
}

// What is logged can be followed, but for what is secret.
func TestLogLines(t *testing.T) {
	l, out := startLogging(t, "info")
	log := slog.With("part", "x").WithGroup("g")
	log.Info("seen", "n", 7, "admin_token", "abc", "url", "postgres://whorl:pass@db/x")
	log.Debug("not seen")
	slog.Warn("join with whorl1aecg2yljnybagaican4vv6ow", "reason", "sent Authorization: Bearer abc.def")
	l.level.Set(slog.LevelDebug)
	slog.Debug("seen now")
	lines, _, _ := l.lines.After("")
	var got []string
	for _, line := range lines {
		got = append(got, line.Kind+" "+string(line.Data))
	}
	want := `info {"message":"seen","attrs":{"g.admin_token":"(not shown)","g.n":"7","g.url":"postgres://whorl:(not shown)@db/x","part":"x"}}
warn {"message":"join with whorl1(not shown)","attrs":{"reason":"sent Authorization: Bearer (not shown)"}}
debug {"message":"seen now"}`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if strings.Count(out.String(), "\n") != 3 || !strings.Contains(out.String(), "g.n=7") {
		t.Errorf("the log itself:\n%s", out)
	}
}

func TestSettings(t *testing.T) {
	log, _ := startLogging(t, "info")
	s := NewSettings([]api.Setting{
		{Name: "log-level", Value: "info", Source: "default"}, {Name: "port", Value: "31330", Source: "file"},
		{Name: "admin-token", Value: Hidden, Source: "env"}, {Name: "limit", Value: "3", Source: "flag"},
	}, log)
	limit := 3
	s.allow("limit", func(text string) (func(), error) {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil {
			return nil, fmt.Errorf("%q: want a number", text)
		}
		return func() { limit = n }, nil
	})
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		change map[string]*string
		err    string
		limit  int
		level  slog.Level
	}{
		{map[string]*string{"limit": text("5"), "log-level": text("debug")}, "", 5, slog.LevelDebug},
		{map[string]*string{"limit": text("6"), "log-level": text("loud")}, `log-level: "loud": want debug, info, warn or error`, 5, slog.LevelDebug},
		{map[string]*string{"limit": text("6"), "port": text("1")}, "port cannot change while the node runs: start it with another --port", 5, slog.LevelDebug},
		{map[string]*string{"nothing": nil}, `there is no setting "nothing": GET /api/v1/node/config lists them`, 5, slog.LevelDebug},
		{map[string]*string{"limit": nil}, "", 3, slog.LevelDebug},
	} {
		err := s.Change(c.change)
		if got := fmt.Sprint(err); (err != nil || c.err != "") && !strings.HasSuffix(got, c.err) || limit != c.limit || s.Level() != c.level {
			t.Errorf("%v: %v, limit %d, level %v", c.change, err, limit, s.Level())
		}
	}
	want := []api.Setting{
		{Name: "admin-token", Value: "(not shown)", Source: "env", Restart: true}, {Name: "limit", Value: "3", Source: "flag"},
		{Name: "log-level", Value: "debug", Source: "api"}, {Name: "port", Value: "31330", Source: "file", Restart: true},
	}
	if got := s.List(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// What changes from one moment to the next is told, once, and nothing else.
func TestEvents(t *testing.T) {
	until := time.Unix(1750000000, 0)
	a := moment{
		state: "joining", ready: map[string]string{"swarm": "starting"}, missing: map[string]string{"toy 1": "", "old 2": ""},
		sessions: map[string]swarm.SessionStatus{"server s1": {ID: "s1", Role: "server", Model: "toy", Position: 7, Epoch: 1, Steps: 7}, "server s2": {ID: "s2", Role: "server", Epoch: 1}},
		peers:    map[swarm.PeerID]bool{"p1": true, "p2": true},
	}
	b := moment{
		state: "online", blocks: "0:4", ready: map[string]string{"swarm": ""}, missing: map[string]string{"toy 1": "2:3", "new 3": ""},
		sessions: map[string]swarm.SessionStatus{"server s2": {ID: "s2", Role: "server", Epoch: 2}, "gateway s3": {ID: "s3", Role: "gateway", Model: "toy", MaxLength: 64}},
		peers:    map[swarm.PeerID]bool{"p2": true, "p3": true},
		avoided:  map[swarm.PeerID]trust.Avoidance{"p1": {Kind: trust.Proven, Until: until, Reason: "it lied"}},
	}
	var got []string
	for _, e := range append(a.events(b), b.events(b)...) {
		got = append(got, fmt.Sprintf("%s %v", e.kind, e.data))
	}
	want := `node.state map[from:joining to:online]
node.blocks map[from: to:0:4]
node.check map[ok:true part:swarm reason:]
model.found map[missing: model:new 3]
model.gone map[model:old 2]
model.coverage map[from: missing:2:3 model:toy 1]
session.opened map[max_length:64 model:toy role:gateway session:s3]
session.ended map[model:toy position:7 role:server session:s1 steps:7]
session.rerouted map[epoch:2 role:server route:[] session:s2]
peer.gone map[peer_id:p1]
peer.connected map[peer_id:p3]
peer.avoided map[kind:proven peer_id:p1 reason:it lied until:2025-06-15 15:06:40 +0000 UTC]`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	pardoned := moment{missing: b.missing, ready: b.ready, state: b.state, blocks: b.blocks, sessions: b.sessions, peers: b.peers}
	if e := b.events(pardoned); len(e) != 1 || e[0].kind != "peer.pardoned" {
		t.Errorf("%v", e)
	}
}
