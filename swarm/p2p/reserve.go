package p2p

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm"
)

const (
	// wantRelays is on how many relays a node reserves that nobody can dial: one may die.
	wantRelays = 2
	// relayTick is how often reservations are looked after.
	relayTick = 2 * time.Second
	// reserveTime bounds one request, refusedFor is how long who refused one is left alone.
	reserveTime = 5 * time.Second
	refusedFor  = time.Minute
	// addrsPerRelay is how many addresses of one relay are announced.
	addrsPerRelay = 3
)

// reservation is a place at a relay.
type reservation struct {
	addrs []string // of this node, through the relay
	only  family   // the kind of IP they are for; 0 for any
	from  time.Time
	until time.Time
}

// due tells whether it is time to renew: at half its life, long before others would find a
// relay that knows nothing of this node any more.
func (r reservation) due(now time.Time) bool { return now.After(r.from.Add(r.until.Sub(r.from) / 2)) }

// family is a kind of IP, or several.
type family int

const (
	four family = 1 << iota
	six
)

// familyOf is the kind of an address; of a name it may be any.
func familyOf(addr string) family {
	switch ip := IPOf(addr); {
	case !ip.IsValid():
		return four | six
	case ip.Is4():
		return four
	}
	return six
}

// relaysFor says how many relays a node needs, and for whom: two for anybody where nobody can
// dial it, and one for those who have only the kind of IP at which it cannot be dialled. Within
// a site there is no such one. Pure.
func relaysFor(r swarm.Reach) (n int, only family) {
	if r.State == swarm.ReachNo {
		return wantRelays, 0
	}
	var at family
	for _, a := range r.Addrs {
		if ip := IPOf(a.Addr); a.State == swarm.ReachYes && (!ip.IsValid() || zoneOf(ip) == public) {
			at |= familyOf(a.Addr)
		}
	}
	if at == four || at == six {
		return 1, four | six ^ at
	}
	return 0, 0
}

// planRelays says which relays to ask now: those whose reservations are due or are for others,
// and as many more as lack of n, of the candidates in their order. Pure.
func planRelays(held map[peer.ID]reservation, n int, only family, candidates []peer.ID, refused map[peer.ID]time.Time, now time.Time) []peer.ID {
	var out []peer.ID
	for p, r := range held {
		if r.due(now) || r.only != only && r.only != 0 {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	out = out[:min(n, len(out))]
	lacking := n - len(held)
	for _, p := range candidates {
		if _, ok := held[p]; ok || lacking <= 0 {
			continue
		}
		if at, ok := refused[p]; ok && now.Sub(at) < refusedFor {
			continue
		}
		out = append(out, p)
		lacking--
	}
	return out
}

// bothFirst orders candidates so that one through which those with IPv4 alone and those with IPv6
// alone come is among the first n, if there is any: the nearest of them takes the last of these places.
func bothFirst(candidates []peer.ID, n int, both func(peer.ID) bool) []peer.ID {
	if at := slices.IndexFunc(candidates, both); at >= n && n > 0 {
		p := candidates[at]
		candidates = slices.Insert(slices.Delete(candidates, at, at+1), n-1, p)
	}
	return candidates
}

// keepRelays sees that a node which somebody cannot dial can be reached through relays.
func (h *Host) keepRelays(ctx context.Context) {
	now := time.Now()
	h.mu.Lock()
	held := maps.Clone(h.reserved)
	h.mu.Unlock()
	for p, r := range held { // no lock of ours is held over calls of libp2p
		if now.After(r.until) || !h.direct(p) {
			h.leaveRelay(p)
			delete(held, p)
		}
	}
	h.mu.Lock()
	for p, at := range h.refused {
		if now.Sub(at) > refusedFor {
			delete(h.refused, p)
		}
	}
	n, only := relaysFor(h.reach)
	refused := maps.Clone(h.refused)
	h.mu.Unlock()
	if !h.autoRelay || n == 0 {
		return
	}
	serves := func(want family) func(peer.ID) bool {
		return func(p peer.ID) bool {
			var at family
			for _, a := range h.h.Peerstore().Addrs(p) {
				if !isRelayed(a) && zoneOf(ipOf(a)) == public {
					at |= familyOf(a.String())
				}
			}
			return at&want == want
		}
	}
	candidates := h.helpers(protoHop, maxPending, serves(only))
	rtt := func(p peer.ID) time.Duration {
		if d, ok := h.RTT(swarm.PeerID(p.String())); ok {
			return d
		}
		return time.Minute
	}
	slices.SortStableFunc(candidates, func(a, b peer.ID) int { return cmp.Compare(rtt(a), rtt(b)) })
	candidates = bothFirst(candidates, n-len(held), serves(four|six))
	for _, p := range planRelays(held, n, only, candidates, refused, now) {
		h.reserve(ctx, p, only)
	}
}

// leaveRelay forgets a reservation; the relay forgets it with the connection, or in time.
func (h *Host) leaveRelay(p peer.ID) {
	h.mu.Lock()
	delete(h.reserved, p)
	h.mu.Unlock()
	h.h.ConnManager().Unprotect(p, "relay")
}

// reserve asks one relay.
func (h *Host) reserve(ctx context.Context, p peer.ID, only family) {
	ctx, cancel := context.WithTimeout(ctx, reserveTime)
	defer cancel()
	got, err := circuit.Reserve(ctx, h.h, peer.AddrInfo{ID: p})
	now := time.Now()
	if err != nil {
		h.mu.Lock()
		if ctx.Err() == nil || len(h.refused) < maxPending {
			h.refused[p] = now
		}
		r, ok := h.reserved[p]
		h.mu.Unlock()
		if ok && now.After(r.until) {
			h.leaveRelay(p)
		}
		h.log.Debug("relay refuses", "relay", p, "reason", err)
		return
	}
	h.h.ConnManager().Protect(p, "relay")
	place := reservation{h.throughRelay(p, got.Addrs, only), only, now, got.Expiration}
	h.mu.Lock()
	_, had := h.reserved[p]
	h.reserved[p] = place
	h.mu.Unlock()
	if !had {
		h.log.Info("others reach this node through a relay", "relay", p, "those with", [...]string{"any IP", "IPv4 alone", "IPv6 alone"}[only%3])
	}
}

// throughRelay are this node's addresses at a relay: those at which the relay was reached, and
// those it names, of one kind of IP if it is for those alone; of each kind one comes first.
func (h *Host) throughRelay(p peer.ID, named []ma.Multiaddr, only family) []string {
	var at []string
	add := func(a ma.Multiaddr) {
		if id, err := peer.IDFromP2PAddr(a); err == nil && id == p {
			a, _ = ma.SplitLast(a)
		}
		if s := a.String(); !isRelayed(a) && ipOf(a).IsValid() && !slices.Contains(at, s) && (only == 0 || familyOf(s)&only != 0) {
			at = append(at, s)
		}
	}
	for _, c := range h.h.Network().ConnsToPeer(p) {
		add(c.RemoteMultiaddr())
	}
	for _, a := range append(named, h.h.Peerstore().Addrs(p)...) {
		if zoneOf(ipOf(a)) == public {
			add(a)
		}
	}
	if i := slices.IndexFunc(at, func(s string) bool { return familyOf(s) != familyOf(at[0]) }); i > 1 {
		at[1], at[i] = at[i], at[1]
	}
	out := make([]string, 0, addrsPerRelay)
	for _, s := range at[:min(len(at), addrsPerRelay)] {
		out = append(out, s+"/p2p/"+p.String()+"/p2p-circuit")
	}
	return out
}

// announced are the addresses to tell others: ours but for those that were found dead, those
// at which strangers reach this node behind a router, and those at relays.
func (h *Host) announced() []string {
	ours := h.own()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	dead := func(s string) bool {
		return slices.ContainsFunc(h.reach.Addrs, func(a swarm.ReachAddr) bool { return a.Addr == s && a.State == swarm.ReachNo })
	}
	for _, s := range ours {
		if !dead(s) {
			out = append(out, s)
		}
	}
	for _, s := range h.seen {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, r := range h.reserved {
		out = append(out, r.addrs...)
	}
	if len(out) == 0 {
		out = ours // whoever is told nothing cannot even try
	}
	slices.Sort(out)
	return out
}

// Relayed tells whether others reach this node through relays alone.
func (h *Host) Relayed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reach.State == swarm.ReachNo && len(h.reserved) > 0
}
