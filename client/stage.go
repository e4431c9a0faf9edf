package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// stage is the client's end of one server's part in a session: the control stream and
// what was heard on it. What was heard is guarded by the session's lock.
type stage struct {
	s      *Session
	hop    swarm.Hop
	stream wire.Stream
	status chan wire.Status // answers to Open and Route; read while installing a route
	dead   chan struct{}    // closed when err is set
	buf    []byte           // frame being written; the session's goroutine only

	// Guarded by the session's lock.
	index    int    // in the present route
	epoch    uint32 // of the present route
	position int    // rows computed, as last heard
	heard    time.Time
	blames   int   // failures it put down to others since outputs came
	err      error // why the stage is lost; nil while it lives
}

// dial opens the control stream to a server; listen must be started after it.
func (s *Session) dial(ctx context.Context, hop swarm.Hop) (*stage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Timeouts.Dial)
	defer cancel()
	stream, err := s.e.cfg.Dialer.Dial(ctx, hop.Peer, wire.ProtoSession)
	if err != nil {
		return nil, &swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Peer: hop.Peer,
			Message: fmt.Sprintf("cannot reach server %s for blocks %v", hop.Peer.Short(), hop.Span), Err: err}
	}
	return &stage{s: s, hop: hop, stream: stream, status: make(chan wire.Status, 4), dead: make(chan struct{})}, nil
}

// mark records why the stage is lost; the first reason stays. mu is held.
func (st *stage) mark(err error) {
	if st.err == nil {
		st.err = err
		close(st.dead)
	}
}

// write sends what is in st.buf.
func (st *stage) write() error {
	st.stream.SetWriteDeadline(time.Now().Add(st.s.e.cfg.Timeouts.Write))
	if _, err := st.stream.Write(st.buf); err != nil {
		return st.lost(err)
	}
	return nil
}

// send sends one JSON frame.
func (st *stage) send(t wire.Type, v any) error {
	st.buf = wire.AppendJSON(st.buf[:0], t, v)
	return st.write()
}

// sendRows sends rows of the stage's input, from row start of the log on.
func (st *stage) sendRows(start, want int, beams wire.Beams, rows []float32) error {
	hidden := st.s.e.cfg.Manifest.Hidden
	h := wire.RowsHeader{
		Session: st.s.id, Epoch: st.s.epoch, Step: st.s.step,
		Start: uint32(start), Count: uint32(len(rows) / hidden), Want: uint32(want), Codec: codec.F32, Beams: beams,
	}
	st.buf = wire.AppendHeader(st.buf[:0], wire.TypeRows, h.Size()+codec.Size(codec.F32, len(rows)))
	st.buf = codec.Append(h.Append(st.buf), codec.F32, rows)
	return st.write()
}

// lost wraps a stream's end as the loss of this peer.
func (st *stage) lost(err error) error {
	var e *swarm.Error
	if errors.As(err, &e) {
		return err
	}
	return &swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Peer: st.hop.Peer,
		Message: fmt.Sprintf("lost server %s with blocks %v", st.hop.Peer.Short(), st.hop.Span), Err: err}
}

// listen reads frames until the stream ends, which it always does when the session
// closes. It is the only reader of the stream.
func (st *stage) listen() {
	r := wire.NewReader(bufio.NewReaderSize(st.stream, 64<<10))
	defer r.Release()
	r.AllowRows(4 * st.s.e.cfg.Manifest.Hidden)
	r.Charge(st.s.ctx, st.stream, budget.Hold{Pool: st.s.e.reading, Who: budget.Who{Peer: string(st.hop.Peer)}})
	var rows []float32
	for {
		t, p, err := r.Next()
		if err == nil {
			rows, err = st.frame(t, p, rows)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it closed the session")
			}
			st.s.mu.Lock()
			st.mark(st.lost(err))
			st.s.mu.Unlock()
			st.stream.Reset()
			st.s.notify()
			return
		}
	}
}

// frame takes one frame in; rows is scratch space.
func (st *stage) frame(t wire.Type, p []byte, rows []float32) ([]float32, error) {
	switch t {
	case wire.TypeDone:
		d, err := wire.ParseDone(p)
		if err != nil {
			return rows, err
		}
		st.s.onPosition(st, d.Epoch, int(d.Position))
		return rows, nil
	case wire.TypeRows, wire.TypeJournal:
		h, data, err := wire.ParseRows(p)
		if err != nil {
			return rows, err
		}
		n := int(h.Count) * st.s.e.cfg.Manifest.Hidden
		if h.Session != st.s.id || len(data) != codec.Size(h.Codec, n) || h.End() > st.s.maxRows() {
			return rows, fmt.Errorf("%w: %d rows from %d in %d bytes", wire.ErrFrame, h.Count, h.Start, len(data))
		}
		if rows, err = codec.Decode(rows[:0], h.Codec, data); err != nil {
			return rows, err
		}
		if !codec.Finite(rows) {
			return rows, &swarm.Error{Code: swarm.CodeBadOutput, Verdict: swarm.Elsewhere, Peer: st.hop.Peer,
				Message: fmt.Sprintf("server %s sent rows that are not finite", st.hop.Peer.Short())}
		}
		st.s.onRows(st, t, h, rows)
		return rows, nil
	case wire.TypeAccept, wire.TypeStatus:
		var v wire.Status
		if err := wire.Decode(t, p, &v); err != nil {
			return rows, err
		}
		if v.Position < 0 || v.Position > st.s.maxRows() {
			return rows, fmt.Errorf("%w: a status of %d rows", wire.ErrFrame, v.Position)
		}
		if t == wire.TypeAccept && v.Mode != st.s.mode {
			return rows, swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "server %s takes the session's mode for %s, not %s: it does not know all that the session asks for",
				st.hop.Peer.Short(), v.Mode.Short(), st.s.mode.Short())
		}
		st.s.onStatus(st, v)
		return rows, nil
	case wire.TypeFail:
		var f wire.Fail
		if err := wire.Decode(t, p, &f); err != nil {
			return rows, err
		}
		st.s.onFail(st, f)
		return rows, nil
	}
	return rows, fmt.Errorf("%w: type %d is not for a client", wire.ErrFrame, t)
}
