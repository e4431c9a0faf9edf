package p2p

import (
	"cmp"
	"context"
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
	from  time.Time
	until time.Time
}

// due tells whether it is time to renew: at half its life, long before others would find a
// relay that knows nothing of this node any more.
func (r reservation) due(now time.Time) bool { return now.After(r.from.Add(r.until.Sub(r.from) / 2)) }

// plan says which relays to ask now: those whose reservations are due, and as many more as are
// lacking, of the candidates in their order. Pure.
func planRelays(held map[peer.ID]reservation, candidates []peer.ID, refused map[peer.ID]time.Time, now time.Time) []peer.ID {
	var out []peer.ID
	for p, r := range held {
		if r.due(now) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	lacking := wantRelays - len(held)
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

// keepRelays sees that a node which nobody can dial can be reached through two relays.
func (h *Host) keepRelays(ctx context.Context) {
	now := time.Now()
	h.mu.Lock()
	for p, r := range h.reserved {
		if now.After(r.until) || !h.direct(p) {
			delete(h.reserved, p)
			h.h.ConnManager().Unprotect(p, "relay")
		}
	}
	for p, at := range h.refused {
		if now.Sub(at) > refusedFor {
			delete(h.refused, p)
		}
	}
	if !h.autoRelay || h.reach.State != swarm.ReachNo {
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	candidates := h.helpers(protoHop, maxPending, "")
	rtt := func(p peer.ID) time.Duration {
		if d, ok := h.RTT(swarm.PeerID(p.String())); ok {
			return d
		}
		return time.Minute
	}
	slices.SortStableFunc(candidates, func(a, b peer.ID) int { return cmp.Compare(rtt(a), rtt(b)) })
	h.mu.Lock()
	ask := planRelays(h.reserved, candidates, h.refused, now)
	h.mu.Unlock()
	for _, p := range ask {
		h.reserve(ctx, p)
	}
}

// reserve asks one relay.
func (h *Host) reserve(ctx context.Context, p peer.ID) {
	ctx, cancel := context.WithTimeout(ctx, reserveTime)
	defer cancel()
	got, err := circuit.Reserve(ctx, h.h, peer.AddrInfo{ID: p})
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil || len(h.refused) < maxPending {
			h.refused[p] = now
		}
		if r, ok := h.reserved[p]; ok && now.After(r.until) {
			delete(h.reserved, p)
		}
		h.log.Debug("relay refuses", "relay", p, "reason", err)
		return
	}
	if _, ok := h.reserved[p]; !ok {
		h.log.Info("others reach this node through a relay", "relay", p)
		h.h.ConnManager().Protect(p, "relay")
	}
	h.reserved[p] = reservation{h.throughRelay(p, got.Addrs), now, got.Expiration}
}

// throughRelay are this node's addresses at a relay: those at which the relay was reached, and
// those it names.
func (h *Host) throughRelay(p peer.ID, named []ma.Multiaddr) []string {
	var at []string
	add := func(a ma.Multiaddr) {
		if id, err := peer.IDFromP2PAddr(a); err == nil && id == p {
			a, _ = ma.SplitLast(a)
		}
		if s := a.String(); !isRelayed(a) && ipOf(a).IsValid() && !slices.Contains(at, s) {
			at = append(at, s)
		}
	}
	for _, c := range h.h.Network().ConnsToPeer(p) {
		add(c.RemoteMultiaddr())
	}
	for _, a := range named {
		if zoneOf(ipOf(a)) == public {
			add(a)
		}
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
