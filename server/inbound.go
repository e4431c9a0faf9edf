package server

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// Bounds on push streams that wait for their session, so that strangers cannot pile them up.
const (
	maxHellos     = 1024
	maxPeerHellos = 64
)

// ServePush reads rows from a push stream that a predecessor opened (wire.ProtoPush). It
// returns when the stream, the epoch or the session ends; the stream is then reset.
func (s *Server) ServePush(ctx context.Context, from swarm.PeerID, stream wire.Stream) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { stream.Reset() })
	defer stop()
	defer stream.Reset()
	defer cancel()

	r := wire.NewReader(bufio.NewReaderSize(stream, readBuffer))
	defer r.Release()
	r.Charge(ctx, stream, s.hold(from, stream))
	x, epoch, next, err := s.hello(ctx, cancel, from, stream, r)
	for err == nil {
		var t wire.Type
		var p []byte
		if t, p, err = r.Next(); err != nil {
			break
		}
		if t != wire.TypeRows {
			err = fmt.Errorf("%w: type %d on a push stream", wire.ErrFrame, t)
			break
		}
		if h, _, e := wire.ParseRows(p); e == nil {
			if h.Epoch != epoch {
				err = fmt.Errorf("%w: rows of epoch %d on the push stream of %d", wire.ErrFrame, h.Epoch, epoch)
				break
			}
			// A predecessor pushes every row once and in order. Rows that overlap would be
			// trimmed like those that a client sends again, and others take their place.
			if int(h.Start) < next {
				err = fmt.Errorf("%w: rows from %d again on a push stream where %d comes next", wire.ErrFrame, h.Start, next)
				break
			}
			next = h.End()
		}
		err = x.takeRows(ctx, fromPrev, from, p)
	}
	switch e := frameError(err); {
	case e == nil:
	case x == nil: // strangers do not fill the log
		s.log.Debug("push stream refused", "from", from, "reason", err)
	default:
		s.log.Warn("push stream refused", "session", x.id.String(), "from", from, "reason", err)
		x.blame(e, from, epoch)
	}
}

// blame tells the client that its stage's predecessor broke the protocol.
func (x *session) blame(e *swarm.Error, prev swarm.PeerID, epoch uint32) {
	x.srv.mu.Lock()
	defer x.srv.mu.Unlock()
	if x.route.Epoch == epoch {
		e.Verdict, e.Peer = swarm.Elsewhere, prev
		x.failLocked(e)
	}
}

// hello reads the first frame of a push stream and finds its session, the epoch, and the row
// that comes first, 0 if that is not known. cancel ends the stream when its epoch does.
func (s *Server) hello(ctx context.Context, cancel context.CancelFunc, from swarm.PeerID, stream wire.Stream, r *wire.Reader) (*session, uint32, int, error) {
	stream.SetReadDeadline(time.Now().Add(s.cfg.Timeouts.Open))
	p, err := r.First(wire.TypeHello)
	if err != nil {
		return nil, 0, 0, err
	}
	stream.SetReadDeadline(time.Time{})
	var h wire.Hello
	if err := wire.DecodeFirst(wire.TypeHello, p, s.deps.Self, from, &h); err != nil {
		return nil, 0, 0, err
	}
	x, err := s.await(ctx, from, &h)
	if err != nil {
		return nil, 0, 0, err
	}
	defer s.mu.Unlock()
	if x.pushed != nil {
		x.pushed() // a predecessor that connects again has given the old stream up
	}
	x.pushed = cancel
	r.AllowRows(s.rowBytes())
	return x, h.Epoch, x.route.Resume, nil
}

// await finds the session a Hello speaks of, and returns with mu held if it does. The
// client tells all stages of a new epoch at once, so a predecessor may be ahead of it:
// the Hello of a session or an epoch that is not known yet waits for a bounded time. Rows
// behind it wait in the stream.
func (s *Server) await(ctx context.Context, from swarm.PeerID, h *wire.Hello) (*session, error) {
	limit := time.NewTimer(s.cfg.Timeouts.Hello)
	defer limit.Stop()
	s.mu.Lock()
	for {
		x, early, err := s.matchLocked(from, h)
		if x != nil {
			return x, nil
		}
		if !early {
			s.mu.Unlock()
			return nil, err
		}
		if s.early >= maxHellos || s.hellos[from] >= maxPeerHellos {
			s.mu.Unlock()
			return nil, swarm.Errorf(swarm.CodeTooMany, swarm.Again, "too many push streams wait for their session")
		}
		s.early++
		s.hellos[from]++
		c := s.changed.next()
		s.mu.Unlock()
		over := false
		select {
		case <-c:
		case <-ctx.Done():
			over = true
		case <-limit.C:
			over = true
		}
		s.mu.Lock()
		s.early--
		if s.hellos[from]--; s.hellos[from] == 0 {
			delete(s.hellos, from)
		}
		if over {
			s.mu.Unlock()
			return nil, err
		}
	}
}

// matchLocked finds the session of a Hello among those with its id; early tells that it may
// still come.
func (s *Server) matchLocked(from swarm.PeerID, h *wire.Hello) (x *session, early bool, err error) {
	list := s.byID[h.Session]
	early = len(list) == 0
	for _, y := range list {
		switch {
		case y.phase == opening || y.route.Epoch < h.Epoch:
			early = true
		case y.route.Epoch == h.Epoch && y.route.Prev == from:
			return y, false, nil
		case y.route.Epoch > h.Epoch:
			err = errStale
		}
	}
	if err == nil || early {
		err = swarm.Errorf(swarm.CodeUnauthorised, swarm.Fatal, "no session %s of epoch %d has this predecessor", h.Session, h.Epoch)
	}
	return nil, early, err
}

// errStale is silent: the route has moved on.
var errStale = fmt.Errorf("the epoch is over")
