package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"whorl/client/chain"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// passFailed says why a server did not compute a pass, and what that says about it.
type passFailed struct {
	code swarm.Code        // of the closed set
	what swarm.Observation // 0: nothing that is held against it
	text string            // in our words; it follows "server X with blocks A:B"
	err  error             // nil: the server said so
}

func (f *passFailed) Error() string {
	if f.err != nil {
		return f.text + ": " + f.err.Error()
	}
	return f.text
}

// passLink is one pass at one server.
type passLink struct {
	e      *Engine
	hop    swarm.Hop
	ask    *wire.Pass
	stream wire.Stream
	buf    []byte
	bytes  atomic.Int64 // that have come
	grant  chan struct{}
	beat   chan struct{} // a frame has come
}

// pass has a server compute a pass of what is in rows, all sections one behind another, and
// returns what comes back. The error is a *passFailed, or the end of ctx, which says nothing
// about the server.
func (e *Engine) pass(ctx context.Context, hop swarm.Hop, ask *wire.Pass, rows []float32, limit time.Duration) ([]float32, error) {
	ask.Version, ask.Features, ask.UID, ask.Span, ask.Millis = wire.Version, wire.Features, e.uid, hop.Span, limit.Milliseconds()
	ask.Mode = ask.PassMode().Hash()
	dctx, cancel := context.WithTimeout(ctx, e.cfg.Timeouts.Dial)
	stream, err := e.cfg.Dialer.Dial(dctx, hop.Peer, wire.ProtoPass)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &passFailed{swarm.CodePeerLost, swarm.Unreachable, "cannot be reached", err}
	}
	defer context.AfterFunc(ctx, func() { stream.Reset() })()
	defer stream.Reset()
	l := &passLink{e: e, hop: hop, ask: ask, stream: stream, grant: make(chan struct{}), beat: make(chan struct{}, 1)}
	out, err := l.run(ctx, rows, limit)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, err
}

// heardPass is how the listener of a pass ended.
type heardPass struct {
	rows []float32
	err  error
}

// run sends what the server is to compute and waits for what comes of it.
func (l *passLink) run(ctx context.Context, rows []float32, limit time.Duration) ([]float32, error) {
	ended := make(chan heardPass, 1)
	live, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		out, err := l.listen(live)
		ended <- heardPass{out, err}
	}()
	defer func() { // nothing of the pass outlives it
		l.stream.Reset()
		if ended != nil {
			<-ended
		}
	}()
	t := &l.e.cfg.Timeouts
	over := time.NewTimer(limit + t.Answer) // the server knows the limit and says so
	defer over.Stop()
	if err := l.write(wire.AppendJSON(l.buf[:0], wire.TypePass, l.ask)); err != nil {
		return nil, l.cut(&ended, err)
	}
	first := time.NewTimer(t.Open + wire.PassWait)
	defer first.Stop()
	select {
	case <-l.grant:
	case h := <-ended:
		ended = nil
		return nil, l.verdict(h.err)
	case <-first.C:
		return nil, &passFailed{swarm.CodePeerLost, swarm.Mute, "did not answer in time", nil}
	}
	if err := l.send(rows); err != nil {
		return nil, l.cut(&ended, err)
	}
	quiet := time.NewTimer(t.Probe)
	defer quiet.Stop()
	for asked, had := false, l.bytes.Load(); ; {
		select {
		case h := <-ended:
			ended = nil
			if h.err != nil {
				return nil, l.verdict(h.err)
			}
			return h.rows, nil
		case <-quiet.C:
			switch have := l.bytes.Load(); {
			case have > had:
				asked, had = false, have
				quiet.Reset(t.Probe)
			case asked:
				return nil, &passFailed{swarm.CodePeerLost, swarm.Mute, "did not answer in time", nil}
			default:
				if err := l.write(wire.AppendFrame(l.buf[:0], wire.TypeAsk)); err != nil {
					return nil, l.cut(&ended, err)
				}
				asked = true
				quiet.Reset(t.Answer)
			}
		case <-over.C:
			return nil, &passFailed{swarm.CodeTimeout, swarm.Stuck, fmt.Sprintf("did not compute a pass of %d rows within %v", l.ask.Rows(), limit), nil}
		}
	}
}

// cut is why a stream could not be written to: what the server said before it let go, if it did.
func (l *passLink) cut(ended *chan heardPass, err error) error {
	l.stream.SetReadDeadline(time.Now().Add(l.e.cfg.Timeouts.Answer))
	h := <-*ended
	*ended = nil
	if own := new(passFailed); errors.As(h.err, &own) {
		return own
	}
	return &passFailed{swarm.CodePeerLost, swarm.Vanished, "was lost", err}
}

// verdict is what the end of a stream says about the server.
func (l *passLink) verdict(err error) error {
	own := new(passFailed)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, wire.ErrFrame) || errors.Is(err, errRows):
		return &passFailed{swarm.CodeBadOutput, swarm.Wrong, "sent what cannot be", err}
	}
	return &passFailed{swarm.CodePeerLost, swarm.Vanished, "was lost", err}
}

// slowestLine is what a line to a server carries at least, in bytes a second, beside the time
// that any write may take.
const slowestLine = 64 << 10

func (l *passLink) write(frame []byte) error {
	l.stream.SetWriteDeadline(time.Now().Add(l.e.cfg.Timeouts.Write + time.Duration(len(frame))*time.Second/slowestLine))
	_, err := l.stream.Write(frame)
	return err
}

// send sends the rows of all sections.
func (l *passLink) send(rows []float32) error {
	hidden := l.e.cfg.Manifest.Hidden
	return l.ask.Sent().Each(wire.ChunkRows(4*hidden), func(h wire.ChunkHeader, at int) error {
		h.Codec = codec.F32
		values := rows[at*hidden:][:int(h.Count)*hidden]
		l.buf = wire.BeginChunk(l.buf[:0], &h, codec.Size(h.Codec, len(values)))
		l.buf = codec.Append(l.buf, h.Codec, values)
		return l.write(l.buf)
	})
}

// Read counts what comes, for whoever waits.
func (l *passLink) Read(p []byte) (int, error) {
	n, err := l.stream.Read(p)
	l.bytes.Add(int64(n))
	return n, err
}

// listen reads frames until all rows are here, or the stream ends.
func (l *passLink) listen(ctx context.Context) ([]float32, error) {
	hidden := l.e.cfg.Manifest.Hidden
	r := wire.NewReader(bufio.NewReaderSize(l, 64<<10))
	defer r.Release()
	r.Charge(ctx, l.stream, budget.Hold{Pool: l.e.reading, Who: budget.Who{Peer: string(l.hop.Peer)}})
	want := l.ask.Returned()
	var out []float32
	granted := false
	for !want.Done() {
		t, p, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it closed the stream")
			}
			return nil, err
		}
		switch t {
		case wire.TypeGrant:
			if granted {
				return nil, fmt.Errorf("%w: a second grant", wire.ErrFrame)
			}
			granted = true
			r.AllowRows(4 * hidden)
			close(l.grant)
		case wire.TypeProgress:
			var v wire.Progress
			if err := wire.Decode(t, p, &v); err != nil {
				return nil, err
			}
		case wire.TypeChunk:
			h, data, err := wire.ParseChunk(p)
			if err != nil {
				return nil, err
			}
			if err := want.Take(&h); err != nil {
				return nil, err
			}
			if out == nil {
				out = make([]float32, 0, l.ask.Returned().Total()*hidden)
			}
			n := int(h.Count) * hidden
			if h.Codec != codec.F32 || len(data) != codec.Size(codec.F32, n) {
				return nil, fmt.Errorf("%w: %d rows in %d bytes of codec %d", wire.ErrFrame, h.Count, len(data), h.Codec)
			}
			have := len(out)
			if out, err = codec.Decode(out, h.Codec, data, n); err != nil || !codec.Finite(out[have:]) {
				return nil, errRows
			}
		case wire.TypeFail:
			var f wire.Fail
			if err := wire.Decode(t, p, &f); err != nil {
				return nil, err
			}
			return nil, l.refused(&f)
		default:
			return nil, fmt.Errorf("%w: type %d in a pass", wire.ErrFrame, t)
		}
	}
	return out, nil
}

// refused is a failure that the server reports, in our words. Its code is a claim, and never says
// that the user erred.
func (l *passLink) refused(f *wire.Fail) error {
	l.e.cfg.Log.Info("a server refuses a pass", "peer", l.hop.Peer, "blocks", l.hop.Span.String(),
		"code", chain.Heard(string(f.Code)), "verdict", f.Verdict.String(), "text", chain.Heard(f.Message))
	out := &passFailed{code: chain.Code(f.Code), what: swarm.Refused, text: "gave a pass up"}
	switch out.code {
	case swarm.CodeTooLong:
		out.what, out.text = 0, fmt.Sprintf("takes no pass of %d rows", l.ask.Rows())
	case swarm.CodeTooMany:
		out.text = "has no room now for a pass of this client"
	case swarm.CodeDraining:
		out.text = "is draining"
	case swarm.CodeNotLoaded:
		out.text = "is not online yet"
	case swarm.CodeWrongModel:
		out.text = "does not hold what it announced"
	case swarm.CodeVersion:
		out.text = "speaks another version of the protocol"
	case swarm.CodeTimeout:
		out.text = "did not compute a pass in time"
	case swarm.CodeBadOutput:
		// Rows beyond what a float32 holds are as likely the user's as the server's doing: who
		// computes them tells.
		out.what, out.text = 0, "computed rows that are not finite, or failed"
		if f.Code == swarm.CodeInternal {
			out.what, out.text = swarm.Broke, "failed to compute a pass"
		}
	}
	return out
}
