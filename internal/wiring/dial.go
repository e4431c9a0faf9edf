package wiring

import (
	"context"
	"sync"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// dialer opens streams to peers.
type dialer interface {
	Dial(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error)
}

// answer serves one stream that a peer opened; when it returns it has closed or reset it.
type answer func(ctx context.Context, from swarm.PeerID, s wire.Stream)

// selfDialer reaches the server of this very process through memory, because no host can
// dial itself, and everybody else through others.
type selfDialer struct {
	self   swarm.PeerID
	others dialer

	mu      sync.Mutex // guards answers
	answers map[string]answer
	wg      sync.WaitGroup // streams being answered
}

// handle answers streams to self of one protocol from now on.
func (d *selfDialer) handle(proto string, f answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answers == nil {
		d.answers = map[string]answer{}
	}
	d.answers[proto] = f
}

// Dial opens a stream.
func (d *selfDialer) Dial(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error) {
	if p != d.self {
		return d.others.Dial(ctx, p, proto)
	}
	d.mu.Lock()
	f := d.answers[proto]
	d.mu.Unlock()
	if f == nil {
		return nil, swarm.Errorf(swarm.CodePeerLost, swarm.Elsewhere, "this node serves no %s", proto)
	}
	near, far := wire.Pipe()
	// The stream outlives the dial: it ends when either side closes or resets it.
	ctx = context.WithoutCancel(ctx)
	d.wg.Go(func() { f(ctx, d.self, far) })
	return near, nil
}

// wait returns when no stream to self is being answered.
func (d *selfDialer) wait() { d.wg.Wait() }

// nobody is the network of a process that has none.
type nobody struct{}

func (nobody) Dial(_ context.Context, p swarm.PeerID, _ string) (wire.Stream, error) {
	return nil, swarm.Errorf(swarm.CodePeerLost, swarm.Elsewhere, "there is no network to reach %s: this is a local run", p.Short())
}

// rtt is the round trip to a peer as last measured; to self there is none.
func (n *Node) rtt(p swarm.PeerID) (time.Duration, bool) {
	if p == n.dial.self {
		return 0, true
	}
	return n.net.host.RTT(p)
}

// farDialer reaches peers as if they were further away, by so much each way.
type farDialer struct {
	dialer
	delay time.Duration
}

// Dial opens a stream, which takes a round trip.
func (d farDialer) Dial(ctx context.Context, p swarm.PeerID, proto string) (wire.Stream, error) {
	select {
	case <-time.After(2 * d.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s, err := d.dialer.Dial(ctx, p, proto)
	if err != nil {
		return nil, err
	}
	near, mid := wire.Pipe()
	later := func() time.Duration { return d.delay }
	go wire.Carry(s, mid, later)
	go wire.Carry(mid, s, later)
	return near, nil
}
