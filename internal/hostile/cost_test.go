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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multistream"

	"whorl/internal/meter"
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
		for range 1000 {
			count(floods[kind](t.Context(), h, to.Peer))
		}
		h.Close()
	}
}

// tally is what a storm has done, a line of JSON each now and then.
type tally struct{ Tried, Answered int64 }

// begin is a process that attacks a target; what it says of itself is in the value.
func (to *target) begin(t *testing.T, kind string) *atomic.Pointer[tally] {
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

// A prefix that asks as fast as a process of its own can, with as many identities as it likes, is
// answered as often as its budgets say, and costs the nodes a small part of a core once it has used
// up what it may ask at once. So what floods take from a running answer is bounded, whatever the attacker has;
// what one takes is BenchmarkStreamBesideFloods.
func TestFloodsCost(t *testing.T) {
	const (
		window = time.Second / 2
		many   = 250 // questions in a window that counts
		most   = 0.2 // of a core, for all four nodes of the world: a tenth of two
	)
	for kind, r := range map[string]struct {
		burst, perSecond float64 // of answers
		spent            int64   // so many attempts are more than may be made at once
	}{
		"pull":      {512, 64 / 0.1, 3000}, // the world's nodes refresh each 100 ms
		"reach":     {256, 8, 3000},
		"reserve":   {256, 1, 3000},
		"handshake": {512, 16, 1000},
	} {
		t.Run(kind, func(t *testing.T) {
			w := New(t, Options{Host: counted})
			work := func() float64 {
				return meter.Worked(t, func() { <-time.After(window) }).Seconds() / window.Seconds()
			}
			idle := work()
			n := w.Servers[0]
			started := time.Now()
			now := (&target{n.Host.ID(), n.Host.ListenAddrs(), *n.Server.Status().Span}).begin(t, kind)
			least, counts := 0.0, 0
			for i := 0; i < 24 && counts < 3; i++ {
				before := *now.Load()
				took := work() - idle
				after := *now.Load()
				if after.Tried-before.Tried < many || before.Tried < r.spent {
					continue // it is slow, or has not yet used up what it may do at once
				}
				if counts++; counts == 1 || took < least {
					least = took
				}
			}
			got, took := now.Load(), time.Since(started).Seconds()
			bound := r.burst + r.perSecond*took + 1
			t.Logf("%d of %d answered in %.1f s, bound %.0f; %.3f of a core in the least of %d windows", got.Answered, got.Tried, took, bound, least, counts)
			if float64(got.Answered) > bound {
				t.Errorf("%d questions of one prefix are answered in %.1f s, want at most %.0f", got.Answered, took, bound)
			}
			if least > most {
				t.Errorf("a flood takes %.3f of a core in the end, want at most %.2f", least, most)
			}
			if err := w.Ask([]int32{1, 7, 3, 11}, 12); err != nil {
				t.Errorf("a user beside it: %v", err)
			}
		})
	}
}
