package trust

import (
	"time"

	"whorl/swarm"
)

// AuditRates say which sessions of a server are computed again elsewhere and compared.
type AuditRates struct {
	// Whole is how many sessions of a server that is new to this node are all audited.
	Whole int
	// Tenth is how many after those are audited one in ten.
	Tenth int
	// Steady is the share of the sessions after that.
	Steady float64
}

// DefaultAuditRates find a server that lies in every session within its first, and cost a
// hundredth of the sessions in the end.
func DefaultAuditRates() AuditRates { return AuditRates{Whole: 20, Tenth: 200, Steady: 0.01} }

// Audit decides whether a session of a peer, that has just ended, is to be audited, and
// counts it. draw is a number of the caller's from [0, 1). Steady 0 audits nobody at all.
func (b *Book) Audit(p swarm.PeerID, r AuditRates, draw float64, now time.Time) bool {
	if r.Steady <= 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(p, now)
	e.sessions++
	switch n := e.sessions; {
	case n <= r.Whole:
		return true
	case n <= r.Whole+r.Tenth:
		return draw < max(0.1, r.Steady)
	}
	return draw < r.Steady
}

// Watch has a peer audited from its next session on as if it were new to this node.
func (b *Book) Watch(p swarm.PeerID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entry(p, now).sessions = 0
}
