package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// readBuffer is the size of a stream's read buffer: some decode frames, a small part of a
// prefill frame.
const readBuffer = 32 << 10

// A client may send so many frames without rows in a second, after a burst: they cost it a few
// bytes and the server an answer. An honest client sends a few in a second while it looks for a
// server that is lost.
const (
	controlRate  = 64
	controlBurst = 256
)

// ServeSession answers a control stream that a client opened (wire.ProtoSession). It
// returns when the session is over and everything it held is freed; the stream is then
// reset.
func (s *Server) ServeSession(ctx context.Context, from swarm.PeerID, stream wire.Stream) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { stream.Reset() })
	defer stop()
	defer stream.Reset()
	defer cancel()

	r := wire.NewReader(bufio.NewReaderSize(stream, readBuffer))
	defer r.Release()
	r.Charge(ctx, stream, s.hold(from, stream))
	open, err := s.readOpen(from, stream, r)
	if err != nil {
		s.refuse(stream, 0, err)
		return
	}
	x, err := s.admit(ctx, from, open, stream)
	if err != nil {
		s.refuse(stream, open.Route.Epoch, err)
		return
	}
	s.log.Debug("session opens", "session", x.id.String(), "client", from, "blocks", x.span.String(), "max_length", x.maxLength)
	x.tasks.Go(func() { x.out.run(ctx) })

	r.Charge(ctx, lingering{stream, x}, s.hold(from, stream))
	x.read(ctx, r)
	s.mu.Lock()
	x.endLocked()
	s.mu.Unlock()
	cancel()
	x.tasks.Wait()
}

// readOpen reads the first frame of a control stream.
func (s *Server) readOpen(from swarm.PeerID, stream wire.Stream, r *wire.Reader) (*wire.Open, error) {
	stream.SetReadDeadline(time.Now().Add(s.cfg.Timeouts.Open))
	defer stream.SetReadDeadline(time.Time{})
	p, err := r.First(wire.TypeOpen)
	if err != nil {
		return nil, err
	}
	open := new(wire.Open)
	return open, wire.DecodeFirst(wire.TypeOpen, p, s.deps.Self, from, open)
}

// lingering is a control stream whose reader sets no deadline any more once the session has
// ended: it would take back the one by which its client must be gone.
type lingering struct {
	wire.Stream
	x *session
}

func (l lingering) SetReadDeadline(t time.Time) error {
	l.x.srv.mu.Lock()
	defer l.x.srv.mu.Unlock()
	if l.x.out.closing {
		return nil
	}
	return l.Stream.SetReadDeadline(t)
}

// hold is a peer's hand in the bytes of frames that are being read. The node itself, and who
// is on this machine, are of no network.
func (s *Server) hold(from swarm.PeerID, stream wire.Stream) budget.Hold {
	who := budget.Who{Peer: string(from), Net: wire.Net(stream)}
	if from == s.deps.Self {
		who = budget.Who{}
	}
	return budget.Hold{Pool: s.reading.Load(), Who: who}
}

// refuse tells a client why there is no session and gives it time to read that.
func (s *Server) refuse(stream wire.Stream, epoch uint32, err error) {
	e := frameError(err)
	if e == nil {
		return // the stream is gone
	}
	s.metrics.failures.WithLabelValues(string(e.Code)).Inc()
	s.log.Debug("session refused", "code", e.Code, "reason", e.Message)
	stream.SetDeadline(time.Now().Add(s.cfg.Timeouts.Linger))
	if _, err := stream.Write(wire.AppendJSON(nil, wire.TypeFail, wire.NewFail(epoch, e))); err == nil {
		io.CopyN(io.Discard, stream, readBuffer) // until the client has closed, or goes on for too long
	}
}

// frameError is what a client is told about an error of its frames; nil for an error of
// the stream itself, of which nobody can be told.
func frameError(err error) *swarm.Error {
	var e *swarm.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, new(*budget.Full)):
		return swarm.Errorf(swarm.CodeTooMany, swarm.Elsewhere, "%w: ask another server, or again later", err)
	case errors.Is(err, wire.ErrFrame):
		return swarm.Errorf(swarm.CodeBadFrame, swarm.Caller, "%w", err)
	}
	return nil
}

// read handles the frames of the control stream until it ends. After the session has
// ended for another reason it goes on reading, and forgets, until the client has closed
// or Linger is over: a reset would take the last frame from the client.
func (x *session) read(ctx context.Context, r *wire.Reader) {
	r.AskRows(x.takesRows)
	pace := rate.NewLimiter(controlRate, controlBurst)
	for {
		t, p, err := r.Next()
		if err == nil && t != wire.TypeRows && t != wire.TypeChunk && !pace.Allow() {
			err = fmt.Errorf("%w: more than %d frames without rows in a second", wire.ErrFrame, controlRate)
		}
		if err == nil {
			err = x.handle(ctx, t, p)
		}
		if err == nil {
			continue
		}
		if e := frameError(err); e != nil {
			x.srv.mu.Lock()
			x.finishLocked(e)
			x.srv.mu.Unlock()
			io.Copy(io.Discard, x.control)
		}
		return
	}
}

// takesRows is the size of a row once the session has been accepted, 0 before.
func (x *session) takesRows() int {
	x.srv.mu.Lock()
	defer x.srv.mu.Unlock()
	if x.phase == opening {
		return 0
	}
	return x.srv.rowBytes()
}

// rowBytes is the size of a row as it travels.
func (s *Server) rowBytes() int { return 4 * s.cfg.Manifest.Hidden }

// handle takes one frame in. An error breaks the protocol and ends the session.
func (x *session) handle(ctx context.Context, t wire.Type, p []byte) error {
	if t == wire.TypeRows {
		return x.takeRows(ctx, fromClient, x.client, p)
	}
	if t == wire.TypeChunk {
		return x.takePrompts(p)
	}
	x.srv.mu.Lock()
	defer x.srv.mu.Unlock()
	if x.phase == ended {
		return nil
	}
	switch t {
	case wire.TypeCommit:
		return x.commitLocked()
	case wire.TypeAsk:
		// Answered by the writer, at once even while rows are computed.
		if x.phase != opening {
			x.out.reportLocked(false)
		}
		return nil
	case wire.TypeReceipt:
		if x.ledger == nil || x.phase == opening || len(p) > 0 {
			return fmt.Errorf("%w: a receipt from a client, or asked for in a session without receipts", wire.ErrFrame)
		}
		x.receiptLocked()
		return nil
	case wire.TypeRoute:
		var r wire.Route
		if err := wire.Decode(t, p, &r); err != nil {
			return err
		}
		if err := checkRoute(&r, x.srv.deps.Self); err != nil {
			return err
		}
		switch {
		case x.phase == opening:
			return fmt.Errorf("%w: route before the session was accepted", wire.ErrFrame)
		case r.Epoch <= x.route.Epoch:
			x.failLocked(swarm.Errorf(swarm.CodeStaleEpoch, swarm.Caller, "route of epoch %d after %d", r.Epoch, x.route.Epoch))
			return nil
		}
		x.active = time.Now()
		x.rerouteLocked(ctx, r)
		return nil
	}
	return fmt.Errorf("%w: type %d is not for a server", wire.ErrFrame, t)
}
