package p2p

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	p2pswarm "github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// protoReach asks a member of the swarm whether a node can be reached. Whoever is asked has
// others try, to which the node has never spoken: a NAT lets in whom its host has spoken to,
// and so proves nothing. Where it knows nobody else it tries itself, from another port.
const protoReach = "/whorl/reach/1"

const (
	// reachAsked is how many members a node asks, reachPassed to how many each passes the
	// question on.
	reachAsked  = 4
	reachPassed = 2
	// reachAddrs is how many addresses are tried at a time, reachBytes bounds a message.
	reachAddrs = 8
	reachBytes = 4 << 10
	// reachTime bounds a question, dialTime the attempts of one who tries.
	reachTime = 8 * time.Second
	dialTime  = 3 * time.Second
	// reachTurns are the questions worked on at a time: each is up to reachAddrs dials, whose
	// failures the gate counts too.
	reachTurns = 16
)

// reachQuestion is one line of JSON. Peer is empty from the node that wants to know, and names
// it where somebody passes the question on.
type reachQuestion struct {
	Peer  string   `json:"peer,omitempty"`
	Addrs []string `json:"addrs"`
}

// reachAnswer says what came of it: per address how many tried and how many got through, and
// whether they are strangers to the node. Seen is where the asker's connection comes from.
type reachAnswer struct {
	Seen     string     `json:"seen,omitempty"`
	Stranger bool       `json:"stranger,omitempty"`
	Tried    []attempts `json:"tried"`
}

type attempts struct {
	Addr    string `json:"addr"`
	Tried   int    `json:"tried"`
	Reached int    `json:"reached"`
}

// decodeReach reads a message of a stranger; v is a question or an answer.
func decodeReach(r io.Reader, v any) error {
	line, err := bufio.NewReader(io.LimitReader(r, reachBytes)).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reachability: a message without an end, or of more than %d bytes: %w", reachBytes, err)
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("reachability: %w", err)
	}
	switch m := v.(type) {
	case *reachQuestion:
		if len(m.Addrs) > reachAddrs {
			return fmt.Errorf("reachability: %d addresses, at most %d", len(m.Addrs), reachAddrs)
		}
	case *reachAnswer:
		if len(m.Tried) > reachAddrs {
			return fmt.Errorf("reachability: %d answers, at most %d", len(m.Tried), reachAddrs)
		}
	}
	return nil
}

func sendReach(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// answerReach is the far end. Nothing is tried but the IP that the asker comes from: nobody can
// have this node dial a third machine. Whoever passes a question on vouches for that.
func (h *Host) answerReach(ctx context.Context, from swarm.PeerID, s wire.Stream) {
	s.SetDeadline(time.Now().Add(reachTime))
	var q reachQuestion
	if err := decodeReach(s, &q); err != nil || !h.member(from) {
		h.log.Debug("question about reachability refused", "peer", from, "member", h.member(from), "reason", err)
		return
	}
	who := budget.Who{Peer: string(from), Net: wire.Net(s)}
	if h.reaches.Take(1, who) != nil {
		return // it asks others
	}
	defer h.reaches.Give(1, who)
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	id, err := peer.Decode(string(from))
	if err != nil {
		return
	}
	if q.Peer != "" {
		if id, err = peer.Decode(q.Peer); err != nil || id == h.h.ID() {
			return
		}
		if sendReach(s, reachAnswer{Stranger: len(h.h.Network().ConnsToPeer(id)) == 0, Tried: h.tryOut(ctx, id, q.Addrs)}) == nil {
			s.Close()
		}
		return
	}
	var a reachAnswer
	var ips []netip.Addr
	for _, c := range h.h.Network().ConnsToPeer(id) {
		if isRelayed(c.RemoteMultiaddr()) {
			continue
		}
		ips = append(ips, ipOf(c.RemoteMultiaddr()))
		if a.Seen == "" {
			a.Seen = c.RemoteMultiaddr().String()
		}
	}
	q.Addrs = slices.DeleteFunc(q.Addrs, func(s string) bool { return !slices.Contains(ips, IPOf(s)) })
	if len(q.Addrs) > 0 {
		a.Tried, a.Stranger = h.passOn(ctx, id, q.Addrs)
	}
	if sendReach(s, a) == nil {
		s.Close()
	}
}

// passOn has others try, or this node itself where there is nobody else.
func (h *Host) passOn(ctx context.Context, id peer.ID, addrs []string) (tried []attempts, strangers bool) {
	ctx, cancel := context.WithTimeout(ctx, dialTime+time.Second)
	defer cancel()
	var answers []reachAnswer
	for _, a := range h.askReach(ctx, reachPassed, reachQuestion{Peer: id.String(), Addrs: addrs}, id) {
		if a.Stranger {
			answers = append(answers, a)
		}
	}
	if len(answers) == 0 {
		return h.tryOut(ctx, id, addrs), false
	}
	return sum(answers), true
}

// askReach asks up to n members, but for one, and returns what they answer.
func (h *Host) askReach(ctx context.Context, n int, q reachQuestion, but peer.ID) []reachAnswer {
	var mu sync.Mutex // guards out
	var out []reachAnswer
	var asking sync.WaitGroup
	for _, p := range h.helpers(protoReach, n, but) {
		asking.Go(func() {
			s, err := h.h.NewStream(lnet.WithNoDial(ctx, "reachability"), p, protoReach)
			if err != nil {
				h.log.Debug("cannot ask about reachability", "peer", p, "reason", err)
				return
			}
			defer s.Reset()
			defer context.AfterFunc(ctx, func() { s.Reset() })()
			var a reachAnswer
			err = sendReach(s, q)
			if err == nil {
				err = decodeReach(s, &a)
			}
			h.log.Debug("answer about reachability", "peer", p, "asked", q.Addrs, "answer", a, "reason", err)
			if err == nil {
				mu.Lock()
				out = append(out, a)
				mu.Unlock()
				s.Close()
			}
		})
	}
	asking.Wait()
	return out
}

// helpers are up to n connected peers that speak a protocol, reached without a relay, in an
// order that moves with time.
func (h *Host) helpers(proto protocol.ID, n int, but peer.ID) []peer.ID {
	all := slices.DeleteFunc(h.h.Network().Peers(), func(p peer.ID) bool {
		known, err := h.h.Peerstore().SupportsProtocols(p, proto)
		return err != nil || len(known) == 0 || p == but || !h.direct(p) || !h.member(swarm.PeerID(p.String()))
	})
	slices.Sort(all)
	if len(all) > n {
		at := int(time.Now().Unix()) % len(all)
		all = append(all[at:], all[:at]...)[:n]
	}
	return all
}

// direct tells whether there is a connection to a peer that goes through no relay.
func (h *Host) direct(p peer.ID) bool {
	return slices.ContainsFunc(h.h.Network().ConnsToPeer(p), func(c lnet.Conn) bool { return !isRelayed(c.RemoteMultiaddr()) })
}

// tryOut dials a node at each of its addresses, from ports that nobody has heard of.
func (h *Host) tryOut(ctx context.Context, id peer.ID, addrs []string) []attempts {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	out := make([]attempts, len(addrs))
	var tries sync.WaitGroup
	for i, s := range addrs {
		out[i].Addr = s
		a, err := ma.NewMultiaddr(s)
		if err != nil || isRelayed(a) || !h.gate.allow(id, a, time.Now()) {
			continue
		}
		tries.Go(func() {
			sw, ok := h.stranger().(*p2pswarm.Swarm)
			if !ok {
				return
			}
			t := sw.TransportForDialing(a)
			if t == nil {
				return
			}
			out[i].Tried = 1
			c, err := t.Dial(ctx, a, id) // which authenticates the node
			if err == nil {
				out[i].Reached = 1
				h.gate.prove(id, ipOf(a), time.Now())
				c.Close()
			}
		})
	}
	tries.Wait()
	return out
}

// sum adds answers up by address.
func sum(answers []reachAnswer) []attempts {
	var out []attempts
	for _, a := range answers {
		for _, t := range a.Tried {
			if t.Tried < 1 || t.Tried > reachPassed || t.Reached < 0 || t.Reached > t.Tried {
				continue
			}
			i := slices.IndexFunc(out, func(o attempts) bool { return o.Addr == t.Addr })
			if i < 0 {
				out, i = append(out, attempts{Addr: t.Addr}), len(out)
			}
			out[i].Tried += t.Tried
			out[i].Reached += t.Reached
		}
	}
	slices.SortFunc(out, func(a, b attempts) int { return strings.Compare(a.Addr, b.Addr) })
	return out
}

// judge says what the answers to a question mean. Those of strangers count; where nobody is
// one, those of who was asked.
// At an address that is not this machine's own, but a router's, only strangers prove anything: a
// router lets in whom its machine has spoken to. What nobody could try is as auto has it:
// AutoNAT's verdicts.
func judge(answers []reachAnswer, ours []string, own func(string) bool, auto map[string]swarm.ReachState) swarm.Reach {
	var far, near []reachAnswer
	for _, a := range answers {
		if a.Stranger {
			far = append(far, a)
		} else {
			near = append(near, a)
		}
	}
	r := swarm.Reach{State: swarm.ReachUnknown, Strangers: len(far) > 0}
	counted := near
	if r.Strangers {
		counted = far
	}
	tried := sum(counted)
	for _, s := range ours {
		one := swarm.ReachAddr{Addr: s, State: swarm.ReachUnknown}
		if i := slices.IndexFunc(tried, func(t attempts) bool { return t.Addr == s }); i >= 0 {
			one.Asked, one.Reached, one.State = tried[i].Tried, tried[i].Reached, swarm.ReachNo
			switch {
			case one.Reached > 0 && (r.Strangers || own(s)):
				one.State = swarm.ReachYes
			case one.Reached > 0:
				one.State = swarm.ReachUnknown
			}
		} else if state, ok := auto[s]; ok && own(s) {
			one.State = state
		}
		switch {
		case one.State == swarm.ReachYes:
			r.State = swarm.ReachYes
		case r.State == swarm.ReachUnknown && (one.State == swarm.ReachNo || one.Asked > 0):
			r.State = swarm.ReachNo
		}
		r.Addrs = append(r.Addrs, one)
	}
	return r
}
