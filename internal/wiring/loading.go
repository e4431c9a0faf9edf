package wiring

import (
	"sync"
	"time"

	"whorl/model/hub"
	"whorl/swarm"
)

// loading follows how far the node is with fetching its model's files.
type loading struct {
	mu   sync.Mutex // guards all below
	from *fetched   // nil: nothing is fetched
	last hub.Progress
	at   time.Time // of last
	rate float64   // bytes a second, smoothed
}

// rateEvery is how often a rate is taken, rateShare how much it counts against earlier ones.
const (
	rateEvery = 500 * time.Millisecond
	rateShare = 0.4
)

// loads has the node tell how far x is.
func (n *Node) loads(x *fetched) {
	n.loading.mu.Lock()
	defer n.loading.mu.Unlock()
	n.loading.from = x
}

// status is what the node tells; nil when all is there.
func (l *loading) status(now time.Time) *swarm.Loading {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from == nil {
		return nil
	}
	p := l.from.hub.Progress()
	if d := now.Sub(l.at); l.at.IsZero() {
		l.last, l.at = p, now
	} else if d >= rateEvery {
		rate := float64(p.Done-l.last.Done) / d.Seconds()
		if l.rate > 0 {
			rate = rateShare*rate + (1-rateShare)*l.rate
		}
		l.rate, l.last, l.at = rate, p, now
	}
	if p.Done >= p.Total {
		return nil
	}
	out := swarm.NewLoading(p.Done, p.Total, l.rate)
	out.Sources = l.from.sources(p)
	return out
}

// reading is what a node tells that has all that it lacked, and is not ready yet.
func (l *loading) reading() *swarm.Loading {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &swarm.Loading{Phase: swarm.Reading, Sources: &swarm.Sources{}}
	if l.from != nil {
		p := l.from.hub.Progress()
		out.Bytes, out.Total, out.Sources = p.Done, p.Done, l.from.sources(p)
	}
	return out
}
