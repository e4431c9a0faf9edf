// Package swarmtest is a whole swarm in one process for tests: an in-memory network whose
// nodes can be killed and paused, a directory without discovery, servers with a tiny
// model, and engines that talk to them. It proves sessions, not libp2p: the swarm/p2p and
// end-to-end tests do that.
package swarmtest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Handler answers a stream that a peer opened; it returns when the stream is done.
type Handler func(ctx context.Context, from swarm.PeerID, s wire.Stream)

// Net connects nodes of one process.
type Net struct {
	mu     sync.Mutex // guards all below
	nodes  map[swarm.PeerID]*Node
	counts map[Count]int
	sizes  map[Count]int // bytes, the heads of frames included
	dials  []Dialled
	delay  func(from, to swarm.PeerID) time.Duration // nil for none
}

// Count names a kind of message: who sent what to whom.
type Count struct {
	From, To swarm.PeerID
	Type     wire.Type
}

// Dialled is one attempt to open a stream.
type Dialled struct {
	From, To swarm.PeerID
	Proto    string
}

// NewNet makes an empty network.
func NewNet() *Net {
	return &Net{nodes: map[swarm.PeerID]*Node{}, counts: map[Count]int{}, sizes: map[Count]int{}}
}

// Counts returns and clears the number of frames sent.
func (n *Net) Counts() map[Count]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.counts
	n.counts = map[Count]int{}
	return c
}

// Sizes returns and clears the bytes of frames sent.
func (n *Net) Sizes() map[Count]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.sizes
	n.sizes = map[Count]int{}
	return c
}

// Dials returns and clears the attempts to open streams.
func (n *Net) Dials() []Dialled {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.dials
	n.dials = nil
	return d
}

// SetDelay has bytes, ends of streams and dials take time on their way from one peer to
// another, from now on.
func (n *Net) SetDelay(d func(from, to swarm.PeerID) time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Node is one peer of the network.
type Node struct {
	net *Net
	id  swarm.PeerID
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex // guards all below
	cond     sync.Cond
	handlers map[string]Handler
	dead     bool
	paused   bool
	streams  map[*link]struct{}
	wrap     func(proto string, s wire.Stream) wire.Stream // nil for none
}

// Node adds a peer.
func (n *Net) Node(id swarm.PeerID) *Node {
	ctx, end := context.WithCancel(context.Background())
	x := &Node{net: n, id: id, ctx: ctx, end: end, handlers: map[string]Handler{}, streams: map[*link]struct{}{}}
	x.cond.L = &x.mu
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[id] = x
	return x
}

// Handle answers streams of a protocol.
func (x *Node) Handle(proto string, h Handler) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handlers[proto] = h
}

// Wrap has the node use what f makes of its ends of streams, so that it can lie.
func (x *Node) Wrap(f func(proto string, s wire.Stream) wire.Stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrap = f
}

// Dial opens a stream to a peer.
func (x *Node) Dial(ctx context.Context, to swarm.PeerID, proto string) (wire.Stream, error) {
	x.net.mu.Lock()
	peer := x.net.nodes[to]
	x.net.dials = append(x.net.dials, Dialled{x.id, to, proto})
	delay := x.net.delay
	x.net.mu.Unlock()
	if delay != nil {
		select {
		case <-time.After(delay(x.id, to) + delay(to, x.id)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if peer == nil {
		return nil, fmt.Errorf("dial %s: no such node", to)
	}
	peer.mu.Lock()
	h, dead := peer.handlers[proto], peer.dead
	peer.mu.Unlock()
	if dead || h == nil {
		return nil, fmt.Errorf("dial %s: connection refused", to)
	}
	if err := x.gate(); err != nil {
		return nil, err
	}
	a, b := wire.Pipe()
	if delay != nil {
		far, near := wire.Pipe()
		mid := b
		x.wg.Add(2)
		peer.wg.Go(func() { defer x.wg.Done(); wire.Carry(near, mid, func() time.Duration { return delay(x.id, to) }) })
		peer.wg.Go(func() { defer x.wg.Done(); wire.Carry(mid, near, func() time.Duration { return delay(to, x.id) }) })
		b = far
	}
	mine, theirs := x.add(a, to, proto), &answered{Stream: peer.add(b, x.id, proto)}
	peer.wg.Add(1)
	go func() {
		defer peer.wg.Done()
		if peer.gate() == nil {
			h(peer.ctx, x.id, theirs)
		}
		theirs.Reset()
	}()
	return mine, nil
}

func (x *Node) add(s wire.Stream, to swarm.PeerID, proto string) wire.Stream {
	l := &link{Stream: s, node: x, to: to}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streams[l] = struct{}{}
	if x.dead {
		s.Reset()
	}
	if x.wrap != nil {
		return x.wrap(proto, l)
	}
	return l
}

// answered is the end of whoever answers a stream. As in swarm/p2p it cannot be reset once it is
// closed: what was written is still to be read.
type answered struct {
	wire.Stream
	closed atomic.Bool
}

func (s *answered) Close() error {
	s.closed.Store(true)
	return s.Stream.Close()
}

func (s *answered) Reset() error {
	if s.closed.Load() {
		return nil
	}
	return s.Stream.Reset()
}

// gate waits while the node is paused.
func (x *Node) gate() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.paused && !x.dead {
		x.cond.Wait()
	}
	if x.dead {
		return io.ErrClosedPipe
	}
	return nil
}

// Kill ends the node as SIGKILL would: every stream is reset, every dial refused.
func (x *Node) Kill() {
	x.mu.Lock()
	x.dead = true
	streams := x.streams
	x.streams = map[*link]struct{}{}
	x.cond.Broadcast()
	x.mu.Unlock()
	x.end()
	for l := range streams {
		l.Stream.Reset()
	}
}

// Pause freezes the node as SIGSTOP would: it neither reads nor writes, and its
// connections stay open.
func (x *Node) Pause() { x.setPaused(true) }

// Resume wakes a paused node.
func (x *Node) Resume() { x.setPaused(false) }

func (x *Node) setPaused(p bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.paused = p
	x.cond.Broadcast()
}

// Close kills the node and waits for its handlers.
func (x *Node) Close() {
	x.Kill()
	x.wg.Wait()
}

// link is a node's end of a stream; it counts the frames written.
type link struct {
	wire.Stream
	node *Node
	to   swarm.PeerID

	head []byte // of the frame being written
	left int    // bytes of it still to come
}

func (l *link) Read(p []byte) (int, error) {
	if err := l.node.gate(); err != nil {
		return 0, err
	}
	n, err := l.Stream.Read(p)
	if gone := l.node.gate(); gone != nil { // paused while it waited: what came is not seen yet
		return 0, gone
	}
	return n, err
}

func (l *link) Write(p []byte) (int, error) {
	if err := l.node.gate(); err != nil {
		return 0, err
	}
	l.count(p)
	return l.Stream.Write(p)
}

func (l *link) Close() error {
	l.forget()
	return l.Stream.Close()
}

func (l *link) Reset() error {
	l.forget()
	return l.Stream.Reset()
}

func (l *link) forget() {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	delete(l.node.streams, l)
}

// count finds the frames in what is written.
func (l *link) count(p []byte) {
	for len(p) > 0 {
		if l.left > 0 {
			n := min(l.left, len(p))
			l.left -= n
			p = p[n:]
			continue
		}
		n := min(wire.HeadSize-len(l.head), len(p))
		l.head = append(l.head, p[:n]...)
		p = p[n:]
		if len(l.head) == wire.HeadSize {
			t, left := wire.ParseHead([wire.HeadSize]byte(l.head))
			l.left = int(left)
			l.node.net.mu.Lock()
			l.node.net.counts[Count{l.node.id, l.to, t}]++
			l.node.net.sizes[Count{l.node.id, l.to, t}] += wire.HeadSize + l.left
			l.node.net.mu.Unlock()
			l.head = l.head[:0]
		}
	}
}
