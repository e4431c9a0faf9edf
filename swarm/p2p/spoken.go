package p2p

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// spokenFor is how long a router may let in whom its machine has spoken to: mappings of TCP
// live two hours (RFC 5382) after the last packet.
const spokenFor = 3 * time.Hour

// spoken remembers to whom packets of this node went. A router in front of it may let those in
// and nobody else, so that their getting through proves nothing. The clock is passed in. Safe
// for concurrent use.
type spoken struct {
	mu    sync.Mutex // guards all below
	ips   map[netip.Addr]exchange
	peers map[peer.ID]time.Time // when last
}

// exchange is when packets went to an IP.
type exchange struct {
	first, last time.Time
	dialled     bool // by this node, and not only in answer
}

func newSpoken() *spoken {
	return &spoken{ips: map[netip.Addr]exchange{}, peers: map[peer.ID]time.Time{}}
}

// note says that packets go to an IP, for a peer if it is not "".
func (s *spoken) note(p peer.ID, ip netip.Addr, dialled bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != "" {
		if s.peers[p] = now; len(s.peers) > maxProven {
			forget(s.peers, func(at time.Time) time.Time { return at }, now.Add(-spokenFor))
		}
	}
	if !ip.IsValid() {
		return
	}
	e, ok := s.ips[ip]
	if !ok || now.Sub(e.last) > spokenFor {
		e = exchange{first: now}
	}
	s.ips[ip] = exchange{e.first, now, e.dialled || dialled}
	if len(s.ips) > maxProven {
		forget(s.ips, func(e exchange) time.Time { return e.last }, now.Add(-spokenFor))
	}
}

// to tells whether a router may know an IP: this node has dialled it lately, or had a
// connection from there before some time. Who came later got in uninvited.
func (s *spoken) to(ip netip.Addr, before time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.ips[ip]
	return ok && before.Sub(e.last) < spokenFor && (e.dialled || e.first.Before(before))
}

// with tells whether a peer was lately dialled or connected.
func (s *spoken) with(p peer.ID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.peers[p]
	return ok && now.Sub(at) < spokenFor
}

// lately are up to n peers, the latest first.
func (s *spoken) lately(n int) []peer.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]peer.ID, 0, len(s.peers))
	for p := range s.peers {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b peer.ID) int { return cmp.Or(s.peers[b].Compare(s.peers[a]), cmp.Compare(a, b)) })
	return out[:min(n, len(out))]
}
