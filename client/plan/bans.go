package plan

import (
	"time"

	"whorl/swarm"
)

// BanParams says how long failed peers are avoided.
type BanParams struct {
	// First is how long a peer is avoided after one failure: long enough that a retry
	// does not meet the same dead peer before its record expires, short enough that a
	// hiccup does not idle a healthy server.
	First time.Duration
	// Max caps the doubling on repeated failures.
	Max time.Duration
}

// DefaultBanParams avoids a peer for 15 s (Petals' figure), at most 2 min.
func DefaultBanParams() BanParams { return BanParams{First: 15 * time.Second, Max: 2 * time.Minute} }

// Bans remembers failures of peers. The zero value is not ready: use NewBans. Not for
// concurrent use.
type Bans struct {
	p     BanParams
	peers map[swarm.PeerID]ban
}

type ban struct {
	last    time.Time
	strikes int
}

// NewBans makes an empty memory.
func NewBans(p BanParams) *Bans { return &Bans{p: p, peers: map[swarm.PeerID]ban{}} }

// Fail records a failure.
func (b *Bans) Fail(p swarm.PeerID, now time.Time) {
	x := b.peers[p]
	if now.Sub(x.last) > b.p.Max {
		x.strikes = 0
	}
	b.peers[p] = ban{now, x.strikes + 1}
}

// Succeed forgets a peer's failures.
func (b *Bans) Succeed(p swarm.PeerID) { delete(b.peers, p) }

// Avoid lists the peers to avoid now with the time of their last failure, which tells a
// router whom to try first when nobody else is left.
func (b *Bans) Avoid(now time.Time) map[swarm.PeerID]time.Time {
	out := map[swarm.PeerID]time.Time{}
	for p, x := range b.peers {
		d := b.p.First << min(x.strikes-1, 10)
		if now.Sub(x.last) < min(d, b.p.Max) {
			out[p] = x.last
		} else if now.Sub(x.last) > 2*b.p.Max {
			delete(b.peers, p)
		}
	}
	return out
}
