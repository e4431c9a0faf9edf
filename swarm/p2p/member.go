package p2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
)

// memberFor is how long a peer counts as a member of the swarm after it last proved to be one.
const memberFor = time.Hour

// Member notes that a peer is of this node's swarm: it named the swarm and was answered. What
// members alone may have is asked of them: that this node relays for them, and looks whether
// they can be reached.
func (h *Host) Member(p swarm.PeerID) {
	id, err := peer.Decode(string(p))
	if err != nil {
		return
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reach.State != swarm.ReachYes {
		if _, ok := h.members[id]; !ok {
			poke(h.company)
		}
	}
	if h.members[id] = now; len(h.members) > maxProven {
		forget(h.members, func(at time.Time) time.Time { return at }, now.Add(-memberFor))
	}
}

func (h *Host) member(p swarm.PeerID) bool {
	id, err := peer.Decode(string(p))
	return err == nil && h.memberID(id)
}

func (h *Host) memberID(id peer.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.members[id]
	return ok && time.Since(at) < memberFor
}
