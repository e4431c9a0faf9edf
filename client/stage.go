package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"whorl/client/chain"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// stage is the client's end of one server's part in a session: the control stream.
type stage struct {
	s     *Session
	id    int // in the machine
	hop   swarm.Hop
	end   context.CancelFunc // ends the dial, and waits of the listener
	epoch uint32             // of the present route; the session's goroutine only
	fails int                // failures that it reported; its listener only
	buf   []byte             // frame being written; the session's goroutine only

	// Guarded by the session's lock.
	stream  wire.Stream // nil until it is dialled
	closed  bool
	counted uint64 // the session's steps up to which it was noted what the stage served
	deaf    bool   // its listener has ended
	proofs  proofs
}

// dial opens the control stream to a server and listens to it. That the caller has left
// says nothing about the server.
func (s *Session) dial(ctx context.Context, a *chain.Action) {
	live, end := context.WithCancel(context.WithoutCancel(ctx)) // as long as the stage
	st := &stage{s: s, id: a.Stage, hop: a.Hop.Hop, end: end}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		end()
		return
	}
	st.counted = s.step
	s.stages[st.id] = st
	tasks := &s.tasks
	if a.Aside { // it outlives the call
		tasks, ctx = &s.aside, live
	}
	tasks.Go(func() {
		dctx, cancel := context.WithTimeout(ctx, s.e.cfg.Timeouts.Dial)
		defer cancel()
		defer context.AfterFunc(live, cancel)()
		stream, err := s.e.cfg.Dialer.Dial(dctx, st.hop.Peer, wire.ProtoSession)
		s.mu.Lock()
		unwanted := st.closed
		switch {
		case unwanted:
		case err == nil:
			st.stream = stream
			s.take(chain.Event{Kind: chain.Dialled, Stage: st.id}, nil)
			go st.listen(live)
		case ctx.Err() == nil:
			s.take(chain.Event{Kind: chain.Lost, Stage: st.id, What: swarm.Unreachable, Err: &swarm.Error{
				Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Peer: st.hop.Peer,
				Message: fmt.Sprintf("cannot reach server %s for blocks %v", st.hop.Peer.Short(), st.hop.Span), Err: err}}, nil)
		}
		s.mu.Unlock()
		if unwanted && err == nil {
			stream.Reset()
		}
	})
}

// close ends the stream, or the dial.
func (st *stage) close() {
	st.end()
	st.s.mu.Lock()
	stream := st.stream
	st.closed = true
	st.s.mu.Unlock()
	if stream != nil {
		stream.Reset()
	}
}

// write sends what is in st.buf.
func (st *stage) write() error {
	st.stream.SetWriteDeadline(time.Now().Add(st.s.e.cfg.Timeouts.Write))
	_, err := st.stream.Write(st.buf)
	return err
}

// bare sends a frame without a payload.
func (st *stage) bare(t wire.Type) error {
	st.buf = wire.AppendFrame(st.buf[:0], t)
	return st.write()
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
		Session: st.s.id, Epoch: st.epoch, Step: st.s.step,
		Start: uint32(start), Count: uint32(len(rows) / hidden), Want: uint32(want), Codec: st.s.e.codec(), Beams: beams,
	}
	if h.Codec == codec.BF16 && st.s.e.packs(st.hop.Peer) {
		h.Codec = codec.BF16Packed
		st.buf = wire.BeginRows(st.buf[:0], wire.TypeRows, &h, 0)
		if buf, ok := codec.AppendPacked(st.buf, rows); ok {
			st.buf = buf
			wire.PutSize(st.buf)
			return st.write()
		}
		h.Codec = codec.BF16
	}
	st.buf = wire.BeginRows(st.buf[:0], wire.TypeRows, &h, codec.Size(h.Codec, len(rows)))
	st.buf = codec.Append(st.buf, h.Codec, rows)
	return st.write()
}

// lost is the event of a stream's end, or of what cannot be on it.
func (st *stage) lost(err error) chain.Event {
	var own *swarm.Error
	if errors.As(err, &own) {
		return chain.Event{Kind: chain.Lost, Stage: st.id, What: swarm.Refused, Err: own}
	}
	e := &swarm.Error{Code: swarm.CodePeerLost, Verdict: swarm.Elsewhere, Peer: st.hop.Peer,
		Message: fmt.Sprintf("lost server %s with blocks %v", st.hop.Peer.Short(), st.hop.Span), Err: err}
	what := swarm.Vanished
	if errors.Is(err, wire.ErrFrame) || errors.Is(err, errRows) {
		what, e.Code = swarm.Wrong, swarm.CodeBadOutput
		e.Message = fmt.Sprintf("server %s with blocks %v sent what cannot be", st.hop.Peer.Short(), st.hop.Span)
	}
	return chain.Event{Kind: chain.Lost, Stage: st.id, What: what, Err: e}
}

var errRows = errors.New("rows that are not finite, or no rows")

// listen reads frames until the stream ends, which it always does when the session
// closes. It is the only reader of the stream.
func (st *stage) listen(live context.Context) {
	r := wire.NewReader(bufio.NewReaderSize(st.stream, 64<<10))
	defer r.Release()
	r.AllowRows(4 * st.s.e.cfg.Manifest.Hidden)
	r.Charge(live, st.stream, budget.Hold{Pool: st.s.e.reading, Who: budget.Who{Peer: string(st.hop.Peer)}})
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
			st.deaf = true
			st.s.take(st.lost(err), nil)
			st.s.notify()
			st.s.mu.Unlock()
			st.stream.Reset()
			return
		}
	}
}

// logFails is how many failures of a stage are logged: a liar may report any number.
const logFails = 8

// log is where a peer's own words end up.
func (st *stage) log(f *wire.Fail) {
	if st.fails++; st.fails > logFails {
		return
	}
	st.s.e.cfg.Log.Info("a server reports a failure", "session", st.s.String(), "peer", st.hop.Peer, "blocks", st.hop.Span.String(),
		"code", chain.Heard(string(f.Code)), "verdict", f.Verdict.String(), "text", chain.Heard(f.Message))
}

// frame takes one frame in; rows is scratch space.
func (st *stage) frame(t wire.Type, p []byte, rows []float32) ([]float32, error) {
	e := chain.Event{Stage: st.id}
	switch t {
	case wire.TypeDone:
		d, err := wire.ParseDone(p)
		if err != nil {
			return rows, err
		}
		e.Kind, e.Epoch, e.To = chain.Computed, d.Epoch, int(d.Position)
		if d.Tells {
			st.s.e.loads.hear(st.hop.Peer, d.Told, time.Now())
		}
	case wire.TypeRows, wire.TypeJournal:
		h, data, err := wire.ParseRows(p)
		if err != nil {
			return rows, err
		}
		n := int(h.Count) * st.s.e.cfg.Manifest.Hidden
		if h.Session != st.s.id || !codec.Fits(h.Codec, st.s.e.codec(), n, len(data)) || h.End() > st.s.maxRows() {
			return rows, fmt.Errorf("%w: %d rows from %d in %d bytes", wire.ErrFrame, h.Count, h.Start, len(data))
		}
		if rows, err = codec.Decode(rows[:0], h.Codec, data, n); err != nil || !codec.Finite(rows) {
			return rows, errRows
		}
		e.Kind, e.Epoch, e.From, e.To = chain.Results, h.Epoch, int(h.Start), h.End()
		if t == wire.TypeJournal {
			e.Kind = chain.Journalled
		}
		st.s.mu.Lock()
		defer st.s.mu.Unlock()
		st.s.take(e, rows)
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
		e.Kind, e.Epoch, e.To = chain.Answered, v.Epoch, v.Position
		if t == wire.TypeAccept {
			st.makesReceipts(v.Receipts)
		}
	case wire.TypeReceipt:
		return rows, st.receipt(p)
	case wire.TypeLeaving:
		var v wire.Leaving
		if err := wire.Decode(t, p, &v); err != nil {
			return rows, err
		}
		e.Kind, e.By = chain.Leaving, time.Now().Add(v.Within())
	case wire.TypeFail:
		var f wire.Fail
		if err := wire.Decode(t, p, &f); err != nil {
			return rows, err
		}
		e.Kind, e.Epoch, e.Code, e.Verdict, e.Peer = chain.Failed, f.Epoch, f.Code, f.Verdict, f.Peer
		st.log(&f)
	default:
		return rows, fmt.Errorf("%w: type %d is not for a client", wire.ErrFrame, t)
	}
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	st.s.take(e, nil)
	return rows, nil
}
