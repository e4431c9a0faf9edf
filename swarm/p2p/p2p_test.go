package p2p

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"whorl/swarm"
	"whorl/swarm/wire"
)

func newHost(t *testing.T, cfg Config) *Host {
	t.Helper()
	if cfg.HostMaddrs == nil {
		cfg.HostMaddrs = []string{"/ip4/127.0.0.1/tcp/0"}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
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
	_, err = a.Dial(t.Context(), b.ID(), "/echo/2")
	if e := swarm.AsError(err); e.Code != swarm.CodeVersion || e.Verdict != swarm.Elsewhere || e.Peer != b.ID() || !strings.Contains(err.Error(), "/echo/2") {
		t.Errorf("dial of another protocol: %v", err)
	}
}

// Close ends the handlers' contexts and streams, waits for the handlers, and may be called
// again.
func TestClose(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	var inside, ended atomic.Bool
	b.Handle("/wait", func(ctx context.Context, _ swarm.PeerID, s wire.Stream) {
		inside.Store(true)
		s.Write([]byte("x"))
		<-ctx.Done()
		ended.Store(true)
	})
	if err := a.Bootstrap(t.Context(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	s, err := a.Dial(t.Context(), b.ID(), "/wait")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 1)); err != nil || !inside.Load() {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Close(); err != nil || !ended.Load() {
			t.Errorf("closed with a handler at work: %v", err)
		}
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("the stream outlives the host")
	}
	if err := b.Bootstrap(t.Context(), a.Addrs()); err == nil {
		t.Error("a closed host dials")
	}
}

// A peer that was down a moment ago is dialled at once when it is back: the back-off of
// libp2p must not hide it.
func TestDialAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	a, b := newHost(t, Config{}), newHost(t, Config{IdentityPath: path, HostMaddrs: []string{"/ip4/127.0.78.1/tcp/0"}})
	at := b.ListenAddrs() // of a machine of its own: nobody takes the port meanwhile
	a.AddAddrs(b.ID(), at)
	b.Close()
	for range 3 {
		if _, err := a.Ping(t.Context(), b.ID()); err == nil {
			t.Fatal("a closed host answers")
		}
	}
	b = newHost(t, Config{IdentityPath: path, HostMaddrs: at})
	if _, err := a.Ping(t.Context(), b.ID()); err != nil {
		t.Error(err)
	}
}

// Many who want the same peer at once make one attempt: a gateway whose users all come in the
// moment that it starts does not use up what it may try.
func TestManyWantOnePeer(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	b.Handle("/one", func(context.Context, swarm.PeerID, wire.Stream) {})
	a.AddAddrs(b.ID(), b.ListenAddrs())
	var users sync.WaitGroup
	for range 4 * hostTries {
		users.Go(func() {
			if _, err := a.Dial(t.Context(), b.ID(), "/one"); err != nil {
				t.Error(err)
			}
		})
		users.Go(func() {
			if _, err := a.Ping(t.Context(), b.ID()); err != nil {
				t.Error(err)
			}
		})
	}
	users.Wait()
}

func TestPortInUse(t *testing.T) {
	a := newHost(t, Config{})
	log := slog.New(slog.DiscardHandler)
	for _, bad := range []string{"nonsense", "/ip4/127.0.0.1", "/ip4/127.0.0.1/udp/0", "/ip4/127.0.0.1/tcp/0/ws"} {
		if _, err := New(Config{HostMaddrs: []string{bad}, Log: log}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("listening on %s: %v", bad, err)
		}
	}
	_, err := New(Config{HostMaddrs: a.ListenAddrs(), Log: log})
	if err == nil || !strings.Contains(err.Error(), a.ListenAddrs()[0]) || !strings.Contains(err.Error(), "in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// Refusals and streams are counted where the operator's metrics are.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	a := newHost(t, Config{Registerer: reg})
	if err := a.Bootstrap(t.Context(), newHost(t, Config{}).Addrs()); err != nil {
		t.Fatal(err)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"libp2p_rcmgr_connections", "libp2p_swarm_connections_opened_total"} {
		if !slices.ContainsFunc(all, func(m *dto.MetricFamily) bool { return m.GetName() == want }) {
			t.Errorf("no metric %s", want)
		}
	}
}

// A copy of the identity that runs elsewhere is found; this process itself is none.
func TestTwin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	a := newHost(t, Config{IdentityPath: path})
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stolen := filepath.Join(t.TempDir(), "identity")
	os.WriteFile(stolen, key, 0o600)
	b, other := newHost(t, Config{IdentityPath: stolen}), newHost(t, Config{})
	if a.ID() != b.ID() {
		t.Fatal("the copy has another id")
	}
	if err := b.Twin(t.Context(), append(other.ListenAddrs(), a.ListenAddrs()...)); !errors.Is(err, ErrIdentityInUse) || !strings.Contains(err.Error(), a.ListenAddrs()[0]) {
		t.Errorf("twin: %v", err)
	}
	if err := b.Bootstrap(t.Context(), a.Addrs()); !errors.Is(err, ErrIdentityInUse) {
		t.Errorf("joining the twin: %v", err)
	}
	b.dialTimeout = time.Second // where nobody listens on UDP nothing says so
	for what, addrs := range map[string][]string{"none": nil, "itself": b.ListenAddrs(), "another node": other.ListenAddrs(), "nobody": {"/ip4/127.0.0.1/tcp/1"}, "nonsense": {"x", "/ip4/127.0.0.1/udp/1/quic-v1"}} {
		if err := b.Twin(t.Context(), addrs); err != nil {
			t.Errorf("%s is taken for a twin: %v", what, err)
		}
	}
	if err := b.Bootstrap(t.Context(), b.Addrs()); err == nil || errors.Is(err, ErrIdentityInUse) {
		t.Errorf("joining oneself: %v", err)
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

// The first answer wins; each dead address is logged in a line, also if it is one of a
// peer that answers elsewhere, and the error names all if nobody answers.
func TestBootstrap(t *testing.T) {
	var lines lockedBuffer
	a, b := newHost(t, Config{Log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))}), newHost(t, Config{})
	l, err := net.Listen("tcp4", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	mute := "/ip4/127.0.0.1/tcp/" + port + "/p2p/" + string(newHost(t, Config{}).ID())
	closed := "/ip4/127.0.0.1/tcp/1/p2p/" + string(newHost(t, Config{}).ID())
	wrong := "/ip4/127.0.0.1/tcp/2/p2p/" + string(b.ID())
	a.dialTimeout = time.Hour // it never waits for the mute one
	if err := a.Bootstrap(t.Context(), append([]string{mute, closed, wrong}, b.Addrs()...)); err != nil {
		t.Fatal(err)
	}
	l.Close() // so that nobody has to wait for the mute one to the end of its time
	err = a.Bootstrap(t.Context(), []string{closed, strings.Replace(closed, "tcp/1/", "tcp/3/", 1)})
	if err == nil || !strings.Contains(err.Error(), "/tcp/1/") || !strings.Contains(err.Error(), "/tcp/3/") || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "\n") {
		t.Errorf("nobody answers: %v", err)
	}
	for _, bad := range [][]string{nil, {""}, {"/ip4/127.0.0.1/tcp/1"}, {"127.0.0.1:1"}} {
		if err := a.Bootstrap(t.Context(), bad); err == nil {
			t.Errorf("%q was taken as a list of peers", bad)
		}
	}
	a.Close() // waits for all dials
	text := lines.String()
	for _, c := range []struct {
		addr string
		want int
	}{{"tcp/1 ", 2}, {"tcp/2 ", 1}, {"tcp/3 ", 1}} {
		if got := strings.Count(text, "addr=/ip4/127.0.0.1/"+c.addr); got != c.want {
			t.Errorf("%d lines name %s, want %d:\n%s", got, c.addr, c.want, text)
		}
	}
	if strings.Contains(text, b.ListenAddrs()[0]) {
		t.Errorf("the live address is called dead:\n%s", text)
	}
}

// A peer that is too busy for the first handshake is met at the second.
func TestBusyPeer(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	a.dialTimeout = 4 * time.Second
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for i := 0; ; i++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			defer in.Close()
			if i < 2 { // a look whether somebody listens, and the first handshake
				continue
			}
			out, err := net.Dial("tcp4", strings.Replace(strings.TrimPrefix(b.ListenAddrs()[0], "/ip4/"), "/tcp/", ":", 1))
			if err != nil {
				return
			}
			defer out.Close()
			go io.Copy(out, in)
			go io.Copy(in, out)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := a.Bootstrap(t.Context(), []string{"/ip4/127.0.0.1/tcp/" + port + "/p2p/" + string(b.ID())}); err != nil {
		t.Error(err)
	}
}

// lockedBuffer takes log lines from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
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
	for _, stranger := range []*Host{c, newHost(t, Config{})} {
		stranger.dialTimeout = time.Second // keys that differ may show as silence
		if err := stranger.Bootstrap(t.Context(), b.Addrs()); err == nil || !strings.Contains(err.Error(), "swarm key") {
			t.Errorf("a node without the key: %v", err)
		}
	}
}
