package hostile

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"

	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// floods are questions that anybody may ask a node, one of each kind at a time: what is known, whether
// one can be reached, to be relayed for. They tell whether they were answered.
var floods = map[string]func(ctx context.Context, h *p2p.Host, to swarm.PeerID) bool{
	"pull": func(ctx context.Context, h *p2p.Host, to swarm.PeerID) bool {
		return asked(ctx, h, to, wire.ProtoDirectory, wire.AppendJSON(nil, wire.TypePull, wire.Pull{Version: wire.Version, Swarm: "main", Most: wire.MaxOffered}))
	},
	"reach": func(ctx context.Context, h *p2p.Host, to swarm.PeerID) bool {
		return asked(ctx, h, to, "/whorl/reach/1", []byte(`{"addrs":["`+h.ListenAddrs()[0]+`"]}`+"\n"))
	},
	"reserve": func(ctx context.Context, h *p2p.Host, to swarm.PeerID) bool {
		id, err := peer.Decode(string(to))
		if err != nil {
			return false
		}
		_, err = circuit.Reserve(ctx, h.Libp2p(), peer.AddrInfo{ID: id})
		return err == nil
	},
}

// asked sends a question, and waits for the beginning of an answer.
func asked(ctx context.Context, h *p2p.Host, to swarm.PeerID, proto string, question []byte) bool {
	s, err := h.Dial(ctx, to, proto)
	if err != nil {
		return false
	}
	defer s.Reset()
	s.SetDeadline(time.Now().Add(2 * time.Second))
	s.Write(question)
	_, err = io.ReadFull(s, make([]byte, 1))
	return err == nil
}

// A peer that asks without end is answered some times a second, whatever it asks; who opens streams
// without end is hung up on. Users notice nothing.
func TestFloods(t *testing.T) {
	const long = time.Second
	for kind, most := range map[string]float64{ // at once, and per second from then on
		"pull":    64 + 4/0.1, // the world's nodes refresh each 100 ms
		"reach":   64 + 4,
		"reserve": 16 + 0.1,
	} {
		t.Run(kind, func(t *testing.T) {
			w := New(t, Options{Host: func(c *p2p.Config) {
				limits := p2p.DefaultRelayLimits()
				limits.Unasked = true
				c.Relay = &limits
			}})
			s := w.Stranger("")
			to := w.Servers[0].Host
			s.Host.AddAddrs(to.ID(), to.ListenAddrs())
			if !floods["pull"](t.Context(), s.Host, to.ID()) {
				t.Fatal("a first question is not answered")
			}
			hung := make(chan struct{}, 1)
			s.Host.Libp2p().Network().Notify(&network.NotifyBundle{DisconnectedF: func(network.Network, network.Conn) {
				select {
				case hung <- struct{}{}:
				default:
				}
			}})
			answered, tried := 0, 0
			begin := time.Now()
			n := w.Honest(func() {
				for time.Since(begin) < long || tried < 2048 && time.Since(begin) < 10*long {
					if tried++; floods[kind](t.Context(), s.Host, to.ID()) {
						answered++
					}
				}
			})
			took := time.Since(begin).Seconds()
			bound := most + (took-1)*map[string]float64{"pull": 40, "reach": 4, "reserve": 0.1}[kind]
			t.Logf("%d of %d answered in %.1f s, bound %.0f; users had %d answers", answered, tried, took, bound, n)
			if float64(answered) > bound+1 {
				t.Errorf("%d of %d questions are answered in %.1f s, want at most %.0f", answered, tried, took, bound)
			}
			if tried > 1024+int(256*took)+64 {
				select {
				case <-hung:
				case <-time.After(patience): // it is told a little later
					t.Errorf("%d streams in %.1f s, and nobody hangs up", tried, took)
				}
			}
		})
	}
}
