package p2p

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"syscall"
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
// and so proves nothing. Where it knows nobody else it tries itself, from another port. The
// answer names who tried, since only the node knows whom it has spoken to.
const protoReach = "/whorl/reach/1"

const (
	// reachAsked is how many members a node asks, reachPassed to how many each passes the
	// question on.
	reachAsked  = 4
	reachPassed = 2
	// reachAddrs is how many addresses are tried at a time, reachKnown how many peers are named
	// that need not try, reachFrom how many IPs of one who tried, reachBytes bounds a message.
	reachAddrs = 8
	reachKnown = 64
	reachFrom  = 4
	reachBytes = 8 << 10
	// reachTime bounds a question, dialTime the attempts of one who tries.
	reachTime = 8 * time.Second
	dialTime  = 3 * time.Second
	// reachTurns are the questions worked on at a time: each is up to reachAddrs dials, whose
	// failures the gate counts too.
	reachTurns = 16
)

// reachOfPeer and reachOfNet bound how often others ask: a node some times a minute, and who passes
// questions on for a whole swarm that starts.
var (
	reachOfPeer = budget.Rate{Burst: 64, PerSecond: 4}
	reachOfNet  = budget.Rate{Burst: 256, PerSecond: 8}
)

// reachQuestion is one line of JSON. Peer is empty from the node that wants to know, and names
// it where somebody passes the question on. Known are marks of peers to which the node has
// spoken: others are a better proof.
type reachQuestion struct {
	Peer  string   `json:"peer,omitempty"`
	Addrs []string `json:"addrs"`
	Known []string `json:"known,omitempty"`
}

// reachAnswer says what came of it. Seen is where the asker's connection comes from.
type reachAnswer struct {
	Seen   string  `json:"seen,omitempty"`
	Trials []trial `json:"trials"`
}

// trial is what one machine found: per address whether it could try, and whether it got through.
type trial struct {
	By       string     `json:"by,omitempty"`       // its peer id; "" is who answers
	From     []string   `json:"from,omitempty"`     // IPs at which who passed the question on sees it
	Stranger bool       `json:"stranger,omitempty"` // it was never connected to the node, as far as it knows
	Tried    []attempts `json:"tried"`
}

type attempts struct {
	Addr    string `json:"addr"`
	Tried   int    `json:"tried"`
	Reached int    `json:"reached"`
}

// mark is how a peer is named where many are: enough that two are seldom alike.
func mark(p peer.ID) string {
	s := p.String()
	return s[max(0, len(s)-10):]
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
		if len(m.Addrs) > reachAddrs || len(m.Known) > reachKnown {
			return fmt.Errorf("reachability: %d addresses and %d known peers, at most %d and %d", len(m.Addrs), len(m.Known), reachAddrs, reachKnown)
		}
	case *reachAnswer:
		if len(m.Trials) > reachPassed {
			return fmt.Errorf("reachability: %d trials, at most %d", len(m.Trials), reachPassed)
		}
		for _, t := range m.Trials {
			if len(t.Tried) > reachAddrs || len(t.From) > reachFrom {
				return fmt.Errorf("reachability: %d addresses tried from %d, at most %d and %d", len(t.Tried), len(t.From), reachAddrs, reachFrom)
			}
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
		h.Refused(from)
		return
	}
	who := budget.Who{Peer: string(from), Net: wire.Net(s)}
	if !h.reachPace.Take(who, time.Now()) || h.reaches.Take(1, who) != nil {
		h.Refused(from)
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
		stranger := !h.spoken.with(id, time.Now()) // before it is tried
		if sendReach(s, reachAnswer{Trials: []trial{{Stranger: stranger, Tried: h.tryOut(ctx, id, q.Addrs)}}}) == nil {
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
		a.Trials = h.passOn(ctx, id, q)
	}
	if sendReach(s, a) == nil {
		s.Close()
	}
}

// ipsOf are those at which a peer is connected without a relay.
func (h *Host) ipsOf(p peer.ID) (out []string) {
	for _, c := range h.h.Network().ConnsToPeer(p) {
		if ip := ipOf(c.RemoteMultiaddr()); ip.IsValid() && !isRelayed(c.RemoteMultiaddr()) && len(out) < reachFrom && !slices.Contains(out, ip.String()) {
			out = append(out, ip.String())
		}
	}
	return out
}

// passOn has others try to which the node has not spoken, or this node itself where there is
// nobody else.
func (h *Host) passOn(ctx context.Context, id peer.ID, q reachQuestion) []trial {
	ctx, cancel := context.WithTimeout(ctx, dialTime+time.Second)
	defer cancel()
	others := h.helpers(protoReach, reachPassed, func(p peer.ID) bool { return p != id && !slices.Contains(q.Known, mark(p)) })
	var out []trial
	for p, a := range h.askReach(ctx, others, reachQuestion{Peer: id.String(), Addrs: q.Addrs}) {
		if len(a.Trials) == 1 && a.Trials[0].Stranger {
			t := a.Trials[0]
			t.By, t.From = p.String(), h.ipsOf(p)
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return []trial{{Tried: h.tryOut(ctx, id, q.Addrs)}}
	}
	return out
}

// askReach asks some members, and returns what they answer.
func (h *Host) askReach(ctx context.Context, whom []peer.ID, q reachQuestion) map[peer.ID]reachAnswer {
	var mu sync.Mutex // guards out
	out := map[peer.ID]reachAnswer{}
	var asking sync.WaitGroup
	for _, p := range whom {
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
				out[p] = a
				mu.Unlock()
				s.Close()
			}
		})
	}
	asking.Wait()
	return out
}

// fromStranger tells whether a trial proves that anybody gets through: by none to which this
// node has spoken, be it as another peer of that machine. at is where this node sees the one who
// tells of it: what that sees within its site is behind its router, which has been spoken to.
func (h *Host) fromStranger(t trial, at zone, asked time.Time) bool {
	id, err := peer.Decode(t.By)
	if err != nil || !t.Stranger || len(t.From) == 0 || h.spoken.with(id, asked) {
		return false
	}
	return !slices.ContainsFunc(t.From, func(s string) bool {
		ip, err := netip.ParseAddr(s)
		switch z := zoneOf(ip.Unmap()); {
		case err != nil || z < at:
			return true
		case z == public:
			return h.spoken.to(ip.Unmap(), asked)
		}
		return false // no router lies between
	})
}

// zoneOfPeer is the widest in which a peer is connected.
func (h *Host) zoneOfPeer(p peer.ID) (z zone) {
	for _, s := range h.ipsOf(p) {
		if ip, err := netip.ParseAddr(s); err == nil {
			z = max(z, zoneOf(ip))
		}
	}
	return z
}

// helpers are up to n connected peers that speak a protocol, reached without a relay, in an
// order that moves with time; fit, unless nil, chooses among them.
func (h *Host) helpers(proto protocol.ID, n int, fit func(peer.ID) bool) []peer.ID {
	all := slices.DeleteFunc(h.h.Network().Peers(), func(p peer.ID) bool {
		known, err := h.h.Peerstore().SupportsProtocols(p, proto)
		return err != nil || len(known) == 0 || !h.direct(p) || !h.memberID(p) || fit != nil && !fit(p)
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
			h.spoken.note("", ipOf(a), true, time.Now())
			c, err := t.Dial(ctx, a, id) // which authenticates the node
			if noRoute(err) {
				return
			}
			out[i].Tried = 1
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

// noRoute tells that a machine has no network on which to try an address: that says nothing
// about who is there.
func noRoute(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

// sum adds trials up by address.
func sum(trials []trial) map[string]attempts {
	out := map[string]attempts{}
	for _, one := range trials {
		for _, t := range one.Tried {
			if t.Tried != 1 || t.Reached < 0 || t.Reached > 1 {
				continue
			}
			all := out[t.Addr]
			out[t.Addr] = attempts{t.Addr, all.Tried + 1, all.Reached + t.Reached}
		}
	}
	return out
}

// judge says what trials of strangers and of friends mean. At an address where strangers have
// tried those count. At an address that is not this machine's own, but a router's, only
// strangers prove anything, now or earlier (shown), and most of them must get through: a router
// lets in whom its machine has spoken to. What nobody could try is as auto has it: AutoNAT's verdicts.
func judge(strangers, friends []trial, ours []string, own func(string) bool, auto map[string]swarm.ReachState, shown map[string]bool) swarm.Reach {
	far, near := sum(strangers), sum(friends)
	r := swarm.Reach{State: swarm.ReachUnknown}
	for _, s := range ours {
		one := swarm.ReachAddr{Addr: s, State: swarm.ReachUnknown}
		t, byStrangers := far[s]
		if !byStrangers {
			t = near[s]
		}
		one.Asked, one.Reached = t.Tried, t.Reached
		r.Strangers = r.Strangers || byStrangers
		switch {
		case t.Tried == 0:
			if state, ok := auto[s]; ok && own(s) {
				one.State = state
			}
		case t.Reached == 0:
			one.State = swarm.ReachNo
		case own(s) || byStrangers && 2*t.Reached > t.Tried || !byStrangers && shown[s]:
			one.State = swarm.ReachYes
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
