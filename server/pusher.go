package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// pusher sends a session's outputs to its successor in one epoch. Every epoch has a push
// stream of its own: what an older route left in a stream cannot reach a newer one. One
// goroutine dials and writes.
type pusher struct {
	x      *session
	to     swarm.PeerID
	record []byte
	epoch  uint32
	wake   chan struct{}

	// guarded by Server.mu
	queue  []*packet
	bytes  int  // with the packet that is being written
	dial   bool // connect before there are rows
	failed bool // the successor is lost; the session waits for a new route
	over   bool // the epoch has ended
	stream wire.Stream
	since  time.Time // when the present write began; zero if none
}

func newPusher(x *session) *pusher {
	return &pusher{x: x, to: x.route.Next, record: x.route.NextRecord, epoch: x.route.Epoch, wake: make(chan struct{}, 1)}
}

// sendLocked queues a packet.
func (p *pusher) sendLocked(k *packet) {
	if p.failed || p.over {
		p.x.srv.packets.put(k, k.bytes())
		return
	}
	p.queue = append(p.queue, k)
	p.bytes += k.bytes()
	p.x.srv.outputLocked(k.bytes())
	poke(p.wake)
}

// earlyLocked lets the pusher connect before there are rows.
func (p *pusher) earlyLocked() {
	p.dial = true
	poke(p.wake)
}

// hurryLocked ends a write that takes longer than the limit.
func (p *pusher) hurryLocked(now time.Time, limit time.Duration) {
	if p.stream != nil && !p.since.IsZero() && now.Sub(p.since) > limit {
		p.stream.SetWriteDeadline(now)
	}
}

// run serves the epoch, until ctx ends or the successor is lost.
func (p *pusher) run(ctx context.Context) {
	s := p.x.srv
	stop := context.AfterFunc(ctx, p.cut)
	err := p.serve(ctx)
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.stream != nil {
		p.stream.Reset()
	}
	p.over = ctx.Err() != nil
	p.failed = !p.over
	for _, k := range p.queue {
		s.packets.put(k, k.bytes())
	}
	s.outputLocked(-p.bytes)
	p.queue, p.bytes = nil, 0
	if p.failed && p.x.push == p {
		p.x.settleLocked()
		p.x.failLocked(p.lost(err))
	}
}

// cut makes a write that waits for the successor fail.
func (p *pusher) cut() {
	p.x.srv.mu.Lock()
	stream := p.stream
	p.x.srv.mu.Unlock()
	if stream != nil {
		stream.Reset()
	}
}

// lost is what the client is told.
func (p *pusher) lost(err error) *swarm.Error {
	var e *swarm.Error
	if !errors.As(err, &e) {
		e = &swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Message: fmt.Sprintf("cannot push to server %s: %v", p.to.Short(), err)}
	}
	e.Peer = p.to
	return e
}

// serve sends packets until it fails or ctx ends.
func (p *pusher) serve(ctx context.Context) error {
	s := p.x.srv
	for {
		s.mu.Lock()
		var k *packet
		if len(p.queue) > 0 {
			k = p.queue[0]
			p.since = time.Now()
		}
		connect := p.stream == nil && (k != nil || p.dial)
		s.mu.Unlock()
		if connect {
			if err := p.connect(ctx); err != nil {
				return err
			}
		}
		if k == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-p.wake:
			}
			continue
		}
		if _, err := p.stream.Write(k.buf); err != nil {
			return err
		}
		s.mu.Lock()
		p.writtenLocked(k)
		s.mu.Unlock()
	}
}

// writtenLocked takes a packet out of the queue.
func (p *pusher) writtenLocked(k *packet) {
	p.since = time.Time{}
	pop(&p.queue)
	p.bytes -= k.bytes()
	p.x.srv.outputLocked(-k.bytes())
	p.x.srv.packets.put(k, k.bytes())
	p.x.settleLocked()
	if p.bytes == 0 && len(p.x.out.bulk) > 0 {
		p.x.out.poke()
	}
}

// connect dials the successor, which must be known by a signed record, and says hello.
func (p *pusher) connect(ctx context.Context) error {
	s := p.x.srv
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeouts.Dial)
	defer cancel()
	if err := s.known(ctx, p.to, p.record); err != nil {
		return err
	}
	stream, err := s.deps.Dialer.Dial(ctx, p.to, wire.ProtoPush)
	if err != nil {
		return err
	}
	s.mu.Lock()
	p.stream = stream
	s.mu.Unlock()
	if err := ctx.Err(); err != nil { // cut may have come before the stream was there
		return err
	}
	hello := wire.Hello{Version: wire.Version, Features: wire.Features, Session: p.x.id, Epoch: p.epoch}
	stream.SetWriteDeadline(time.Now().Add(s.cfg.Timeouts.Dial))
	_, err = stream.Write(wire.AppendJSON(nil, wire.TypeHello, hello))
	stream.SetWriteDeadline(time.Time{})
	return err
}

// known checks that a peer may be dialled: a client must not make this server connect to
// whomever it likes.
func (s *Server) known(ctx context.Context, peer swarm.PeerID, signed []byte) error {
	if len(signed) > 0 {
		r, err := s.deps.Directory.Accept(signed)
		if err == nil && r.Peer != peer {
			err = fmt.Errorf("it is the record of %s", r.Peer)
		}
		if err != nil {
			return swarm.Errorf(swarm.CodeUnauthorised, swarm.Elsewhere, "the record of successor %s is refused: %w", peer.Short(), err)
		}
		return nil
	}
	view, err := s.deps.Directory.View(ctx, s.uid)
	if err != nil {
		return err
	}
	if _, ok := view.Server(peer); !ok {
		return swarm.Errorf(swarm.CodeUnauthorised, swarm.Elsewhere, "successor %s is unknown here and came without a signed record", peer.Short())
	}
	return nil
}
