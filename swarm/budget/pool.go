package budget

import (
	"context"
	"fmt"
	"sync"
)

// Who takes something. An empty field stands for nobody in particular and has no share of
// its own, only the total binds: a node's own doings, or the prefix of loopback.
type Who struct {
	Peer string // one peer, or one address where no peer is known
	Net  string // the address prefix it comes from, as [Rule.Net] names it
}

// Reasons why something is not given; they are labels of metrics.
const (
	ReasonTotal = "total" // there is no more
	ReasonPeer  = "peer"  // one peer holds its share
	ReasonNet   = "net"   // the peers of one prefix hold their share
)

// Full says that a pool does not give what was asked for.
type Full struct {
	Pool   string
	Reason string
}

func (e *Full) Error() string {
	switch e.Reason {
	case ReasonPeer:
		return fmt.Sprintf("this peer holds its share of the %s", e.Pool)
	case ReasonNet:
		return fmt.Sprintf("the peers of this network hold their share of the %s", e.Pool)
	}
	return fmt.Sprintf("all of the %s are in use", e.Pool)
}

// Share says how much one holder may have: at most share * free * (free / total). With 1 one
// that is alone gets 38 % of all, with 2 it gets half. Whoever comes as number n, after
// others have taken all they could, still finds about 1/n of the total free.
type Share float64

// The usual shares of a peer, and of all peers of a prefix.
const (
	PeerShare Share = 1
	NetShare  Share = 2
)

// Pool is an amount of one thing. Safe for concurrent use.
type Pool struct {
	name  string
	total int64

	mu      sync.Mutex // guards all below
	used    int64
	peers   map[string]int64
	nets    map[string]int64
	refused map[string]uint64 // by reason
	freed   chan struct{}     // closed when something is given back; nil if nobody waits
}

// New makes a pool of total things, of which peers and prefixes get the usual shares; name is
// a plural, for errors and metrics.
func New(name string, total int64) *Pool {
	return &Pool{name: name, total: total, peers: map[string]int64{}, nets: map[string]int64{}, refused: map[string]uint64{}}
}

// Total is all there is.
func (p *Pool) Total() int64 { return p.total }

// Used is what is held at present.
func (p *Pool) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Take takes n things at once or fails with a *Full.
func (p *Pool) Take(n int64, who Who) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := p.lacks(n, who); why != "" {
		p.refused[why]++
		return &Full{p.name, why}
	}
	p.add(n, who)
	return nil
}

// Wait is Take that waits until there is enough, or ctx ends; the error is then a *Full.
func (p *Pool) Wait(ctx context.Context, n int64, who Who) error {
	for {
		p.mu.Lock()
		why := p.lacks(n, who)
		if why == "" {
			p.add(n, who)
			p.mu.Unlock()
			return nil
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		c := p.freed
		p.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			p.mu.Lock()
			p.refused[why]++
			p.mu.Unlock()
			return &Full{p.name, why}
		}
	}
}

// lacks is why n more are not given, "" if they are; mu is held.
func (p *Pool) lacks(n int64, who Who) string {
	free := float64(p.total - p.used)
	most := func(s Share) float64 { return max(1, float64(s)*free*free/float64(p.total)) }
	switch {
	case float64(n) > free:
		return ReasonTotal
	case who.Peer != "" && float64(p.peers[who.Peer]+n) > most(PeerShare):
		return ReasonPeer
	case who.Net != "" && float64(p.nets[who.Net]+n) > most(NetShare):
		return ReasonNet
	}
	return ""
}

func (p *Pool) add(n int64, who Who) {
	p.used += n
	if who.Peer != "" {
		p.peers[who.Peer] += n
	}
	if who.Net != "" {
		p.nets[who.Net] += n
	}
}

// Give gives back n things that who took.
func (p *Pool) Give(n int64, who Who) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(-n, who)
	if p.peers[who.Peer] <= 0 {
		delete(p.peers, who.Peer)
	}
	if p.nets[who.Net] <= 0 {
		delete(p.nets, who.Net)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// Hold is one holder's hand in a pool, for readers that take and give back in their course.
type Hold struct {
	Pool *Pool
	Who  Who
}

// Take waits for n bytes until ctx ends.
func (h Hold) Take(ctx context.Context, n int) error { return h.Pool.Wait(ctx, int64(n), h.Who) }

// Give gives n bytes back.
func (h Hold) Give(n int) { h.Pool.Give(int64(n), h.Who) }
