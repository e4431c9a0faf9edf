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

// Observe takes in what was seen of a peer: each observation is a failure.
func (b *Bans) Observe(p swarm.PeerID, _ swarm.Observation, now time.Time) { b.Fail(p, now) }

// Fail records a failure. One of a peer that is avoided already is no second strike: all
// sessions that a server had lose it at once.
func (b *Bans) Fail(p swarm.PeerID, now time.Time) {
	x := b.peers[p]
	switch since := now.Sub(x.last); {
	case since > b.p.Max:
		x.strikes = 1
	case since >= b.length(x):
		x.strikes++
	}
	b.peers[p] = ban{now, x.strikes}
}

// length is how long a peer is avoided after its last failure.
func (b *Bans) length(x ban) time.Duration {
	if x.strikes == 0 {
		return 0
	}
	return min(b.p.First<<min(x.strikes-1, 10), b.p.Max)
}

// Avoid lists the peers to avoid now with the time of their last failure, which tells a
// router whom to try first when nobody else is left.
func (b *Bans) Avoid(now time.Time) map[swarm.PeerID]time.Time {
	out := map[swarm.PeerID]time.Time{}
	for p, x := range b.peers {
		if now.Sub(x.last) < b.length(x) {
			out[p] = x.last
		} else if now.Sub(x.last) > 2*b.p.Max {
			delete(b.peers, p)
		}
	}
	return out
}
