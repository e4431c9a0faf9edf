package hostile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multistream"

	"whorl/internal/meter"
	"whorl/swarm/dir"
	"whorl/swarm/p2p"
)

// outside is an address in a prefix of its own, from which an attacker of nodes comes that do not
// exempt loopback: identities are free, prefixes are not.
const outside = "127.66.0.1"

// counted has the prefixes of a World count, and its nodes relay.
func counted(c *p2p.Config) {
	limits := p2p.DefaultRelayLimits()
	limits.Unasked = true
	c.Relay, c.Exempt = &limits, []netip.Prefix{}
}

// lively are Options of a World whose prefixes count, and whose directories ask as often as those of
// real nodes.
var lively = Options{Host: counted, Dir: func(c *dir.Config) { c.Refresh = dir.DefaultConfig().Refresh }}

// newcomer makes a host outside.
func newcomer(t *testing.T) *p2p.Host {
	h, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/" + outside + "/tcp/0"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// handshake makes one over TCP as somebody new, with less work than a host has, and tells whether the
// far end had the work.
func (to *target) handshake(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	f := strings.Split(to.Addrs[0], "/") // /ip4/A/tcp/P
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(outside)}}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(f[2], f[4]))
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if multistream.SelectProtoOrFail(libp2ptls.ID, c) != nil {
		return false
	}
	key, _, _ := crypto.GenerateEd25519Key(rand.Reader)
	id, _ := peer.Decode(string(to.Peer))
	tls, err := libp2ptls.New(libp2ptls.ID, key, nil)
	if err != nil {
		return false
	}
	s, err := tls.SecureOutbound(ctx, c, id)
	if err != nil {
		return false
	}
	io.ReadFull(s, make([]byte, 1))
	return true
}

// storm asks as fast as it can, with a new identity for every thousand questions or, of handshakes,
// for each, and counts.
func (to *target) storm(t *testing.T, kind string, tried, answered *atomic.Int64) {
	count := func(ok bool) {
		if tried.Add(1); ok {
			answered.Add(1)
		}
	}
	if kind == "handshake" {
		for {
			count(to.handshake(t.Context()))
		}
	}
	for {
		h := newcomer(t)
		h.AddAddrs(to.Peer, to.Addrs)
		floods["pull"](t.Context(), h, to.Peer) // which makes it a member
		id, _ := peer.Decode(string(to.Peer))
		from := h.Libp2p().Network().ConnsToPeer(id)
		if slices.ContainsFunc(from, func(c network.Conn) bool { return p2p.IPOf(c.LocalMultiaddr().String()).String() != outside }) {
			h.Close() // its port was taken, and libp2p fell back to an address of another prefix
			continue
		}
		for range 1000 {
			count(floods[kind](t.Context(), h, to.Peer))
		}
		h.Close()
	}
}

// tally is what a storm has done, a line of JSON each now and then.
type tally struct{ Tried, Answered int64 }

// begin is a process that attacks a target; what it says of itself is in the value.
func (to *target) begin(t testing.TB, kind string) *atomic.Pointer[tally] {
	orders, _ := json.Marshal(besides{kind, []target{*to}})
	cmd := exec.Command(os.Args[0], "-test.run", "^TestBesides$")
	cmd.Env = append(os.Environ(), besidesEnv+"="+string(orders))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Pointer[tally]
	now.Store(&tally{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := json.NewDecoder(out); ; {
			var n tally
			if in.Decode(&n) != nil {
				return
			}
			now.Store(&n)
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return &now
}

// metric is a figure of a node that has no labels.
func (n *Node) metric(name string) float64 {
	all, _ := n.Metrics.Gather()
	for _, f := range all {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	return 0
}

// prefixes are the answers that one has from a node: so many at once, and so many a second from then
// on; so many attempts are more than may be made at once.
var prefixes = map[string]struct {
	burst, perSecond float64
	spent            int64
}{
	"pull":      {512, 64 / 0.1, 3000}, // the world's nodes refresh each 100 ms
	"reach":     {256, 8, 3000},
	"reserve":   {256, 1, 3000},
	"handshake": {512, 16, 1000},
}

// A prefix that asks as fast as a process of its own can, with as many identities as it likes, is
// answered as often as its budgets say. So what floods take from a running answer is bounded, whatever
// the attacker has: BenchmarkFloodsCost and BenchmarkStreamBesideFloods say how much that is.
func TestFloodsCost(t *testing.T) {
	for kind, r := range prefixes {
		t.Run(kind, func(t *testing.T) {
			w := New(t, Options{Host: counted})
			n := w.Servers[0]
			started := time.Now()
			now := (&target{n.Host.ID(), n.Host.ListenAddrs(), *n.Server.Status().Span}).begin(t, kind)
			for now.Load().Tried < r.spent && time.Since(started) < patience {
				<-time.After(50 * time.Millisecond)
			}
			got, took := now.Load(), time.Since(started).Seconds()
			bound := r.burst + r.perSecond*took + 1
			t.Logf("%d of %d answered in %.1f s, bound %.0f", got.Answered, got.Tried, took, bound)
			if got.Answered == 0 || float64(got.Answered) > bound {
				t.Errorf("%d questions of one prefix are answered in %.1f s, want some and at most %.0f", got.Answered, took, bound)
			}
			if err := w.Ask([]int32{1, 7, 3, 11}, 12); err != nil {
				t.Errorf("a user beside it: %v", err)
			}
		})
	}
}

// BenchmarkFloodsCost: what part of a core such a prefix takes from a swarm of four nodes, beyond what
// they take alone, once it has used up what it may ask at once, and is shut out. It should be 0.05 or less.
func BenchmarkFloodsCost(b *testing.B) {
	const window = time.Second / 2
	for kind, r := range prefixes {
		b.Run(kind, func(b *testing.B) {
			w := New(b, lively)
			work := func() float64 {
				return meter.Worked(b, func() { <-time.After(window) }).Seconds() / window.Seconds()
			}
			idle := work()
			n := w.Servers[0]
			now := (&target{n.Host.ID(), n.Host.ListenAddrs(), *n.Server.Status().Span}).begin(b, kind)
			for now.Load().Tried < r.spent {
				<-time.After(50 * time.Millisecond)
			}
			for n.metric("whorl_shut_out") == 0 {
				<-time.After(50 * time.Millisecond)
			}
			before, begin := now.Load().Tried, time.Now()
			var shares []float64
			for b.Loop() {
				for range 5 {
					shares = append(shares, work()-idle)
				}
			}
			slices.Sort(shares)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(shares[len(shares)/2], "cores")
			b.ReportMetric(float64(now.Load().Tried-before)/time.Since(begin).Seconds(), "tries/s")
		})
	}
}
