package p2p

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	lnet "github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
)

// CheckReach asks members of the swarm whether this node can be reached, and remembers the
// answer. With nobody to ask it is unknown.
func (h *Host) CheckReach(ctx context.Context) swarm.Reach {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	h.awaitHelpers(ctx)
	began := time.Now() // who gets through is spoken to from then on
	var far, near []trial
	ask := func(addrs []string) (seen []string) {
		q := reachQuestion{Addrs: addrs, Known: h.knownMarks()}
		for p, a := range h.askReach(ctx, h.helpers(protoReach, reachAsked, nil), q) {
			if h.couldBeOurs(a.Seen) && !slices.Contains(addrs, a.Seen) && !slices.Contains(seen, a.Seen) {
				seen = append(seen, a.Seen)
			}
			for _, t := range a.Trials {
				if h.fromStranger(t, h.zoneOfPeer(p), began) {
					far = append(far, t)
				} else {
					near = append(near, t)
				}
			}
		}
		slices.Sort(seen)
		return seen
	}
	ours := h.own()
	first := ours[:min(len(ours), reachAddrs)]
	seen := ask(first)
	if len(seen) > reachAddrs/2 {
		seen = seen[:reachAddrs/2]
	}
	if len(seen) > 0 { // where the outside sees this node: a NAT may forward there
		ask(seen)
	}
	ours = append(slices.Clone(first), seen...)
	h.mu.Lock()
	shown := maps.Clone(h.shown)
	h.mu.Unlock()
	r := judge(far, near, ours, h.atHome(), h.autoNAT(), shown)
	if r.State == swarm.ReachNo && h.Reach().State != swarm.ReachNo && len(first) > 0 {
		// News so bad is asked for twice: an attempt fails for want of time as well, where
		// machines are busy, and a node that can be dialled would do without that.
		ask(first)
		if len(seen) > 0 {
			ask(seen)
		}
		r = judge(far, near, ours, h.atHome(), h.autoNAT(), shown)
	}
	h.mu.Lock()
	if r.State != swarm.ReachUnknown || h.reach.State == "" {
		h.reach = r
	}
	h.seen, h.shown = nil, map[string]bool{}
	for _, a := range r.Addrs {
		if a.State == swarm.ReachYes {
			h.shown[a.Addr] = true
		}
		// Where friends get in others may: who cannot loses no time, since relays are announced too.
		if a.Reached > 0 && a.State != swarm.ReachNo && slices.Contains(seen, a.Addr) {
			h.seen = append(h.seen, a.Addr)
		}
	}
	h.mu.Unlock()
	h.relayAsNeeded()
	poke(h.reachNews)
	return h.Reach()
}

// knownMarks name members that need not try whether this node can be dialled, since it has
// spoken to them.
func (h *Host) knownMarks() (out []string) {
	for _, p := range h.spoken.lately(maxProven) {
		if len(out) < reachKnown && h.memberID(p) {
			out = append(out, mark(p))
		}
	}
	return out
}

// atHome tells at which addresses anybody's getting through proves something: those of this
// machine's interfaces, what the operator had it announce, and what the router forwards because it
// was asked to.
func (h *Host) atHome() func(string) bool {
	addrs, err := net.InterfaceAddrs()
	mapped := h.mapped()
	return func(s string) bool {
		if h.told || err != nil || slices.Contains(mapped, s) {
			return true
		}
		ip := IPOf(s)
		return slices.ContainsFunc(addrs, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			if !ok {
				return false
			}
			own, _ := netip.AddrFromSlice(n.IP)
			return own.Unmap() == ip
		})
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// autoNAT are the verdicts of libp2p's AutoNAT v2.
func (h *Host) autoNAT() map[string]swarm.ReachState {
	out := map[string]swarm.ReachState{}
	if a, ok := h.h.(interface {
		ConfirmedAddrs() (reachable, unreachable, unknown []ma.Multiaddr)
	}); ok {
		yes, no, _ := a.ConfirmedAddrs()
		for _, a := range yes {
			out[a.String()] = swarm.ReachYes
		}
		for _, a := range no {
			out[a.String()] = swarm.ReachNo
		}
	}
	return out
}

// awaitHelpers waits a moment, where there are peers, until one has said what it speaks.
func (h *Host) awaitHelpers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, identifyTime)
	defer cancel()
	tick := time.NewTicker(identifyTime / 50)
	defer tick.Stop()
	for h.Connected() > 0 && len(h.helpers(protoReach, 1, nil)) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// couldBeOurs tells whether an address that somebody sees this node at may be one to dial it
// at: a transport of ours, at a public address.
func (h *Host) couldBeOurs(s string) bool {
	a, err := ma.NewMultiaddr(s)
	if err != nil || isRelayed(a) {
		return false
	}
	_, _, err = dialable(a)
	return err == nil && zoneOf(ipOf(a)) == public
}

// own are the addresses of this node that are no relay's, those that reach farthest first.
func (h *Host) own() []string {
	var out []string
	all := h.h.Addrs()
	if a, ok := h.h.(interface{ AllAddrs() []ma.Multiaddr }); ok && !h.told { // those that AutoNAT dropped too
		all = a.AllAddrs()
	}
	for _, a := range all {
		if !isRelayed(a) {
			out = append(out, a.String())
		}
	}
	slices.Sort(out)
	return Best(out, len(out))
}

// Reach is what is known of whether others can dial this node.
func (h *Host) Reach() swarm.Reach {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reach
	if r.State == "" {
		r.State = swarm.ReachUnknown
	}
	r.Addrs = slices.Clone(r.Addrs)
	for p := range h.reserved {
		r.Relays = append(r.Relays, p.String())
	}
	slices.Sort(r.Relays)
	r.Mapped = h.mapped()
	r.Advice = r.Advise()
	return r
}

// mapped are the ports that the router forwards because this node asked it to.
func (h *Host) mapped() []string {
	if h.nat == nil || !h.nat.HasDiscoveredNAT() {
		return nil
	}
	var out []string
	for _, a := range h.h.Network().ListenAddresses() {
		if m := h.nat.GetMapping(a); m != nil {
			out = append(out, m.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// reachSoon and reachLater are the times between two looks at whether others can dial this
// node: while it is not known or not so, and when it is.
// identifyTime is how long a newcomer is given to say what it speaks.
const (
	reachSoon    = 30 * time.Second
	reachLater   = 5 * time.Minute
	identifyTime = 2 * time.Second
)

// WatchReach looks now and then whether others can dial this node, and keeps reservations on
// relays where they cannot, until ctx ends. changed is called when what the node should
// announce is another than before.
func (h *Host) WatchReach(ctx context.Context, changed func()) {
	var looks sync.WaitGroup
	defer looks.Wait()
	lost := make(chan struct{}, 1)
	n := &lnet.NotifyBundle{DisconnectedF: func(lnet.Network, lnet.Conn) { poke(lost) }}
	h.h.Network().Notify(n)
	defer h.h.Network().StopNotify(n)
	looks.Go(func() {
		for {
			wait := reachLater
			if before := h.Reach(); before.State != swarm.ReachYes {
				wait = reachSoon
			}
			if !h.pause(ctx, wait) {
				return
			}
			h.CheckReach(ctx)
		}
	})
	tick := time.NewTicker(relayTick)
	defer tick.Stop()
	before := h.ListenAddrs()
	for {
		h.keepRelays(ctx)
		if now := h.ListenAddrs(); !slices.Equal(now, before) {
			before = now
			changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-lost:
		case <-h.reachNews:
		}
	}
}

// pause waits for a time, or for somebody to ask where there was nobody; false if ctx ended.
func (h *Host) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.company:
		// It must first find out what the newcomer speaks.
		t.Reset(min(d, identifyTime))
		select {
		case <-t.C:
			return true
		case <-ctx.Done():
			return false
		}
	case <-ctx.Done():
		return false
	}
}
