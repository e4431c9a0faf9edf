package p2p

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

func newHost(t *testing.T, cfg Config) *Host {
	t.Helper()
	cfg.HostMaddrs, cfg.Log = []string{"/ip4/127.0.0.1/tcp/0"}, slog.New(slog.DiscardHandler)
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestStreamsAndPings(t *testing.T) {
	a, b := newHost(t, Config{Agent: "whorl/a"}), newHost(t, Config{})
	b.Handle("/echo", func(_ context.Context, from swarm.PeerID, s wire.Stream) {
		if from == a.ID() {
			io.Copy(s, s)
		}
		s.Close()
	})
	if err := a.Bootstrap(t.Context(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	s, err := a.Dial(t.Context(), b.ID(), "/echo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(s, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q %v", got, err)
	}
	s.Close()
	if rtt, err := a.Ping(t.Context(), b.ID()); err != nil || rtt <= 0 {
		t.Errorf("ping: %v %v", rtt, err)
	}
	if rtt, ok := a.RTT(b.ID()); !ok || rtt <= 0 {
		t.Error("the ping is not remembered")
	}
	if p := a.Peers(); len(p) != 1 || p[0].Peer != b.ID() || p[0].RTTMillis == nil {
		t.Errorf("peers %+v", p)
	}
	_, err = a.Dial(t.Context(), newHost(t, Config{}).ID(), "/echo")
	if e := swarm.AsError(err); e.Code != swarm.CodePeerLost || e.Verdict != swarm.Elsewhere {
		t.Errorf("dial of a peer without addresses: %v", err)
	}
}

func TestIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "identity")
	a := newHost(t, Config{IdentityPath: path})
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("identity file: %v %v", st, err)
	}
	if _, err := New(Config{IdentityPath: path}); !errors.Is(err, ErrIdentityInUse) || !strings.Contains(err.Error(), "--identity-path") {
		t.Errorf("a second holder: %v", err)
	}
	id := a.ID()
	a.Close()
	if b := newHost(t, Config{IdentityPath: path}); b.ID() != id {
		t.Error("the identity changed with a restart")
	}
	bad := filepath.Join(t.TempDir(), "bad")
	os.WriteFile(bad, []byte("no key"), 0o600)
	if _, err := New(Config{IdentityPath: bad}); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("a file without a key: %v", err)
	}
}

func TestSignatures(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	sig, err := a.Sign("x", []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer    swarm.PeerID
		domain  string
		payload string
		ok      bool
	}{
		{a.ID(), "x", "payload", true}, {a.ID(), "y", "payload", false},
		{a.ID(), "x", "Payload", false}, {b.ID(), "x", "payload", false}, {"nonsense", "x", "payload", false},
	} {
		if err := Verify(c.peer, c.domain, []byte(c.payload), sig); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The first answer wins; dead addresses are named only if nobody answers.
func TestBootstrap(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	l, err := net.Listen("tcp4", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mute := strings.Replace("/ip4/127.0.0.1/tcp/PORT/p2p/"+string(newHost(t, Config{}).ID()), "PORT", strings.Split(l.Addr().String(), ":")[1], 1)
	closed := "/ip4/127.0.0.1/tcp/1/p2p/" + string(newHost(t, Config{}).ID())
	begin := time.Now()
	if err := a.Bootstrap(t.Context(), append([]string{mute, closed}, b.Addrs()...)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > dialTimeout {
		t.Errorf("joined after %v", took)
	}
	err = a.Bootstrap(t.Context(), []string{closed})
	if err == nil || !strings.Contains(err.Error(), "/ip4/127.0.0.1/tcp/1/") || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "\n") {
		t.Errorf("nobody answers: %v", err)
	}
	for _, bad := range [][]string{nil, {""}, {"/ip4/127.0.0.1/tcp/1"}, {"127.0.0.1:1"}} {
		if err := a.Bootstrap(t.Context(), bad); err == nil {
			t.Errorf("%q was taken as a list of peers", bad)
		}
	}
}

// A node with another swarm key cannot join, and is told so.
func TestSwarmKey(t *testing.T) {
	key := func(c string) string {
		p := filepath.Join(t.TempDir(), "swarm.key")
		os.WriteFile(p, []byte("/key/swarm/psk/1.0.0/\n/base16/\n"+strings.Repeat(c, 64)+"\n"), 0o600)
		return p
	}
	one := key("a")
	a, b, c := newHost(t, Config{SwarmKeyPath: one}), newHost(t, Config{SwarmKeyPath: one}), newHost(t, Config{SwarmKeyPath: key("b")})
	if err := a.Bootstrap(t.Context(), b.Addrs()); err != nil {
		t.Error(err)
	}
	if err := c.Bootstrap(t.Context(), b.Addrs()); err == nil {
		t.Error("a node with another key joined")
	}
}
