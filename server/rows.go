package server

import (
	"context"
	"fmt"
	"time"

	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// takeRows puts a frame of rows into the session's queue, after the rules of package wire.
// It waits while the queue is full, which stops the sender. An error breaks the protocol;
// everything else is reported to the client.
func (x *session) takeRows(ctx context.Context, src source, sender swarm.PeerID, p []byte) error {
	h, data, err := wire.ParseRows(p)
	if err != nil {
		return err
	}
	if h.Session != x.id {
		return fmt.Errorf("%w: rows of session %s on the stream of %s", wire.ErrFrame, h.Session, x.id)
	}
	s := x.srv
	s.mu.Lock()
	ok, err := x.expectsLocked(src, &h)
	s.mu.Unlock()
	if !ok {
		return err
	}
	s.metrics.taken(src, int(h.Count), wire.HeadSize+len(p))
	f, bad := x.decode(&h, data, src, sender)
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad != nil {
		if h.Epoch == x.route.Epoch {
			x.failLocked(bad)
		}
		return nil
	}
	queued := false
	defer func() {
		if !queued {
			f.free(s)
		}
	}()
	x.waitRoomLocked(ctx, src, h.Epoch)
	queued, err = x.acceptLocked(f, &h)
	return err
}

// expectsLocked tells whether rows like these may come now.
func (x *session) expectsLocked(src source, h *wire.RowsHeader) (bool, error) {
	switch {
	case x.phase == opening:
		return false, fmt.Errorf("%w: rows before the session was accepted", wire.ErrFrame)
	case x.phase == ended || h.Epoch < x.route.Epoch:
		return false, nil
	case h.Epoch > x.route.Epoch:
		// A client sends the route before the rows, and a push stream is not read before
		// its epoch is here: nobody waits for this frame's route.
		x.failLocked(swarm.Errorf(swarm.CodeGap, swarm.Replay, "rows of epoch %d, the route is of epoch %d", h.Epoch, x.route.Epoch))
		return false, nil
	case int(h.Beams.N) > x.sequences:
		return false, fmt.Errorf("%w: rows of %d sequences in a session of %d", wire.ErrFrame, h.Beams.N, x.sequences)
	case h.Beams.Position(h.End()-1) >= x.maxLength:
		x.failLocked(swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "Maximum length exceeded: prefix %d + current %d exceeds pre-allocated maximum %d", h.Start, h.Count, x.maxLength))
		return false, nil
	}
	return true, nil
}

// decode reads the rows of a frame. The error blames who sent them.
func (x *session) decode(h *wire.RowsHeader, data []byte, src source, sender swarm.PeerID) (_ *frame, bad *swarm.Error) {
	verdict := swarm.Elsewhere
	if src == fromClient {
		verdict = swarm.Caller
	}
	blame := func(code swarm.Code, format string, a ...any) (*frame, *swarm.Error) {
		e := swarm.Errorf(code, verdict, format, a...)
		e.Peer = sender
		return nil, e
	}
	n := int(h.Count) * x.srv.cfg.Manifest.Hidden
	switch {
	case codec.Size(h.Codec, n) < 0 && h.Codec != codec.BF16Packed:
		_, err := codec.Decode(nil, h.Codec, nil, 0)
		return blame(swarm.CodeUnsupported, "%w", err)
	case h.Codec != x.codec && h.Codec != codec.BF16Packed:
		return blame(swarm.CodeUnsupported, "rows from %s in codec %d in a session whose rows are in codec %d", sender.Short(), h.Codec, x.codec)
	case !codec.Fits(h.Codec, x.codec, n, len(data)):
		return blame(swarm.CodeBadOutput, "%d rows from %s in %d bytes of codec %d, want %d", h.Count, sender.Short(), len(data), h.Codec, codec.Size(x.codec, n))
	}
	f := x.srv.frames.get(4 * n)
	defer func() {
		if bad != nil {
			f.free(x.srv)
		}
	}()
	*f = frame{src: src, step: h.Step, start: int(h.Start), count: int(h.Count), want: int(h.Want), beams: h.Beams, came: time.Now(), rows: f.rows[:0]}
	rows, err := codec.Decode(f.rows, h.Codec, data, n)
	if err != nil {
		return blame(swarm.CodeBadOutput, "%w", err)
	}
	if f.rows = rows; !codec.Finite(f.rows) {
		return blame(swarm.CodeBadOutput, "rows %d to %d from %s are not finite", h.Start, h.End()-1, sender.Short())
	}
	return f, nil
}

// waitRoomLocked waits until the queue of a source has room, or the rows do not matter any more.
// The lock is released while it waits.
func (x *session) waitRoomLocked(ctx context.Context, src source, epoch uint32) {
	for x.phase != ended && x.route.Epoch == epoch && x.fullLocked(src) && ctx.Err() == nil {
		c := x.room.next()
		x.srv.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
		}
		x.srv.mu.Lock()
	}
}

// acceptLocked queues a frame if its rows continue the session. An error breaks the
// protocol.
func (x *session) acceptLocked(f *frame, h *wire.RowsHeader) (queued bool, err error) {
	s := x.srv
	end := f.start + f.count
	if x.phase == ended || h.Epoch < x.route.Epoch {
		return false, nil
	}
	if err := x.comes.follows(h, x.next); err != nil {
		return false, err
	}
	x.active = time.Now()
	if f.start > x.next {
		gap := swarm.Errorf(swarm.CodeGap, swarm.Replay, "rows from %d, the session has %d", f.start, x.next)
		if f.src == fromPrev {
			gap.Peer = x.route.Prev // whose rows they are: the client knows its own
		}
		x.failLocked(gap)
		return false, nil
	}
	if f.start < x.next {
		x.out.computedLocked(x.route.Epoch, x.length, x.step)
		s.metrics.duplicates.Add(float64(min(end, x.next) - f.start))
		if end <= x.next {
			return false, nil
		}
		f.done = x.next - f.start
	}
	x.failed = ""
	s.ids++
	f.id = s.ids
	x.frames = append(x.frames, f)
	x.countLocked(f.src, f.bytes())
	x.next, x.comes = end, after(h)
	x.home.queue.Push(s.clock(), x.key, f.id, f.count-f.done, f.class())
	if x.readyLocked() {
		poke(x.home.work)
	}
	return true, nil
}
