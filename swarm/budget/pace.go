package budget

import (
	"sync"
	"time"
)

// Rate is so many at once, and so many a second from then on.
type Rate struct {
	Burst     float64
	PerSecond float64
}

// maxPaced is how many holders a Pace remembers beside those that have their full burst.
const maxPaced = 8192

// Pace bounds how often a peer has something done here, and a prefix: what a question costs in
// processor time cannot be given back, as bytes and places can. The clock is passed in. Safe for
// concurrent use.
type Pace struct {
	peer, net Rate

	mu   sync.Mutex // guards all below
	held map[string]*bucket
}

// bucket is what a holder has left.
type bucket struct {
	left float64
	at   time.Time
}

// NewPace makes one of the rates of a peer and of a prefix.
func NewPace(peer, net Rate) *Pace { return &Pace{peer: peer, net: net, held: map[string]*bucket{}} }

// Take takes one for a peer and its prefix; false if either had its share. A holder without a
// name is not bounded.
func (p *Pace) Take(who Who, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) > maxPaced {
		p.forget(now)
	}
	peer, net := p.of("p"+who.Peer, who.Peer, p.peer, now), p.of("n"+who.Net, who.Net, p.net, now)
	for _, b := range []*bucket{peer, net} {
		if b != nil && b.left < 1 {
			return false
		}
	}
	for _, b := range []*bucket{peer, net} {
		if b != nil {
			b.left--
		}
	}
	return true
}

// of is the bucket of a holder, filled up; nil for one without a name. mu is held.
func (p *Pace) of(key, name string, r Rate, now time.Time) *bucket {
	if name == "" {
		return nil
	}
	b := p.held[key]
	if b == nil {
		b = &bucket{r.Burst, now}
		p.held[key] = b
		return b
	}
	r.fill(b, now)
	return b
}

// fill has a bucket have what came back to it by now. Its time never goes back: callers read their clocks
// before they wait for the lock.
func (r Rate) fill(b *bucket, now time.Time) {
	if b.left = r.after(b, now); now.After(b.at) {
		b.at = now
	}
}

func (r Rate) after(b *bucket, now time.Time) float64 {
	return min(r.Burst, b.left+max(0, now.Sub(b.at).Seconds())*r.PerSecond)
}

// forget drops holders that have their full burst again, or all if nobody has: who floods with
// that many names is bounded by its prefixes. mu is held.
func (p *Pace) forget(now time.Time) {
	for key, b := range p.held {
		r := p.peer
		if key[0] == 'n' {
			r = p.net
		}
		if r.after(b, now) >= r.Burst {
			delete(p.held, key)
		}
	}
	if len(p.held) > maxPaced {
		for key := range p.held {
			if key[0] == 'p' {
				delete(p.held, key)
			}
		}
	}
}
