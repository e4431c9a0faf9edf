package server

import (
	"context"
	"time"

	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// packet is a frame of rows on its way out, in one piece so that it takes one write.
type packet struct {
	buf  wire.RowsFrame
	head wire.RowsHeader
}

func (p *packet) bytes() int { return cap(p.buf) }

// rowsPacket encodes rows as a frame, packed if its reader can and it pays.
func (s *Server) rowsPacket(t wire.Type, h wire.RowsHeader, as uint8, packs bool, rows []float32) *packet {
	h.Codec = as
	n := codec.Size(h.Codec, len(rows))
	p := s.packets.get(wire.RowsFrameSize(&h, n))
	if packs && as == codec.BF16 {
		h.Codec = codec.BF16Packed
		p.head = h
		p.buf = wire.BeginRows(p.buf[:0], t, &h, 0)
		if buf, ok := codec.AppendPacked(p.buf, rows); ok {
			p.buf = buf
			wire.PutSize(p.buf)
			return p
		}
		h.Codec = as
	}
	p.head = h
	p.buf = wire.BeginRows(p.buf[:0], t, &h, n)
	p.buf = codec.Append(p.buf, h.Codec, rows)
	return p
}

// restamp moves a packet to another epoch.
func (p *packet) restamp(epoch uint32) {
	p.head.Epoch = epoch
	p.buf.Restamp(epoch)
}

// journalPiece bounds a frame of prefill journal: what a result may have to wait for.
const journalPiece = 256 << 10

// maxFails bounds the failures a client has not read yet; more are dropped.
const maxFails = 16

// outbox is all that goes to the client on the control stream, in order of urgency. One
// goroutine writes. Nothing but run ever waits.
type outbox struct {
	x    *session
	wake chan struct{}

	accept, status bool        // an answer is due
	answer         wire.Status // as it was when it was asked for
	fails          []wire.Fail
	leaving        time.Time // by then the session must be gone; zero: the client need not be told
	results        []*packet
	resultBytes    int // with the packet that is being written
	done           wire.Done
	doneDue        bool
	told           time.Time // when the load was told last
	receipt        []byte    // a frame; nil if none is due
	urgent, bulk   []*packet // journal: of decodes, of prefill
	journalBytes   int
	bulkAfter      time.Time // pacing
	since          time.Time // when the present write began; zero if none
	closing        bool
}

func newOutbox(x *session) *outbox { return &outbox{x: x, wake: make(chan struct{}, 1)} }

func (o *outbox) poke() { poke(o.wake) }

// reportLocked answers an Open (accept), a Route or an Ask. An answer that was not written yet is
// replaced: the client counts epochs, not answers.
func (o *outbox) reportLocked(accept bool) {
	x := o.x
	o.accept, o.status = o.accept || accept, o.status || !accept
	o.answer = wire.Status{Epoch: x.route.Epoch, Position: x.length, Step: x.step, Mode: x.modeHash, Receipts: x.ledger != nil}
	o.poke()
}

// leavingLocked tells a client that knows what that means by when it must have gone elsewhere.
func (o *outbox) leavingLocked(by time.Time) {
	if o.x.hands {
		o.leaving = by
		o.poke()
	}
}

func (o *outbox) failLocked(f wire.Fail) {
	if len(o.fails) < maxFails {
		o.fails = append(o.fails, f)
	}
	o.poke()
}

// computedLocked reports the position. A report that was not written yet is replaced: the newer
// one says all that it said.
func (o *outbox) computedLocked(epoch uint32, position int, step uint64) {
	o.done, o.doneDue = wire.Done{Epoch: epoch, Position: uint32(position), Step: step}, true
	o.poke()
}

// receiptLocked sends a receipt. One that was not written yet is replaced.
func (o *outbox) receiptLocked(r wire.Receipt) {
	o.receipt = r.AppendFrame(o.receipt[:0])
	o.poke()
}

func (o *outbox) resultLocked(p *packet) {
	o.results = append(o.results, p)
	o.resultBytes += p.bytes()
	o.x.srv.outputLocked(p.bytes())
	o.poke()
}

// journalLocked keeps a packet for the client. Without room it is dropped, which leaves a gap
// in the client's knowledge and costs recomputing, never correctness.
func (o *outbox) journalLocked(p *packet, urgent bool) {
	s := o.x.srv
	if o.journalBytes+p.bytes() > s.cfg.Queues.Journal || s.journals+p.bytes() > s.cfg.Queues.JournalTotal {
		s.metrics.journalDropped.Add(float64(p.head.Count))
		s.packets.put(p, p.bytes())
		return
	}
	o.journalledLocked(p.bytes())
	if urgent {
		o.urgent = append(o.urgent, p)
	} else {
		o.bulk = append(o.bulk, p)
	}
	o.poke()
}

// journalledLocked counts bytes of journal that came or went.
func (o *outbox) journalledLocked(n int) {
	o.journalBytes += n
	o.x.srv.journals += n
}

// rerouteLocked forgets what a new epoch makes worthless. Journal rows that are still true and
// still unknown to the client go out under the new epoch.
func (o *outbox) rerouteLocked(r wire.Route, length int) {
	o.freeLocked(o.results)
	o.results, o.doneDue = o.results[:0], false
	for _, q := range []*[]*packet{&o.urgent, &o.bulk} {
		kept := (*q)[:0]
		for _, p := range *q {
			if r.Next != "" && r.Journal >= 0 && p.head.End() > r.Journal && p.head.End() <= length {
				p.restamp(r.Epoch)
				kept = append(kept, p)
				continue
			}
			o.journalledLocked(-p.bytes())
			o.x.srv.packets.put(p, p.bytes())
		}
		*q = kept
	}
}

// freeLocked recycles results that are not sent.
func (o *outbox) freeLocked(list []*packet) {
	for _, p := range list {
		o.resultBytes -= p.bytes()
		o.x.srv.outputLocked(-p.bytes())
		o.x.srv.packets.put(p, p.bytes())
	}
}

// dropLocked empties the outbox.
func (o *outbox) dropLocked() {
	o.accept, o.status, o.receipt = false, false, nil
	o.rerouteLocked(wire.Route{Journal: -1}, 0)
}

// closeLocked lets the writer end once the reason is written, and the reader once the client
// has had time to read it.
func (o *outbox) closeLocked() {
	o.closing = true
	o.x.control.SetDeadline(time.Now().Add(o.x.srv.cfg.Timeouts.Linger))
	o.poke()
}

// hurryLocked ends a write that takes longer than the limit.
func (o *outbox) hurryLocked(now time.Time, limit time.Duration) {
	if !o.since.IsZero() && now.Sub(o.since) > limit {
		o.x.control.SetWriteDeadline(now)
	}
}

// run writes until ctx ends, a write fails (which ends the session), or all is written
// after close.
func (o *outbox) run(ctx context.Context) {
	s := o.x.srv
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var scratch []byte
	for {
		s.mu.Lock()
		p, b, pause := o.nextLocked(scratch[:0], time.Now())
		closing := o.closing
		s.mu.Unlock()
		if len(b) == 0 {
			if closing {
				return
			}
			timer.Reset(pause)
			select {
			case <-ctx.Done():
				return
			case <-o.wake:
			case <-timer.C:
			}
			continue
		}
		if p == nil {
			scratch = b
		}
		_, err := o.x.control.Write(b)
		s.mu.Lock()
		o.writtenLocked(p)
		if err != nil {
			o.x.endLocked()
			o.x.control.SetReadDeadline(time.Now()) // nobody listens: the reader may go
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// nextLocked takes the most urgent frame: a packet, or one made in scratch. Without any, pause
// is how long to wait for a wake-up.
func (o *outbox) nextLocked(scratch []byte, now time.Time) (p *packet, b []byte, pause time.Duration) {
	x := o.x
	switch {
	case o.accept:
		o.accept = false
		b = wire.AppendJSON(scratch, wire.TypeAccept, o.answer)
	case o.status:
		o.status = false
		b = wire.AppendJSON(scratch, wire.TypeStatus, o.answer)
	case len(o.fails) > 0:
		b = wire.AppendJSON(scratch, wire.TypeFail, pop(&o.fails))
	case !o.leaving.IsZero():
		b = wire.AppendJSON(scratch, wire.TypeLeaving, wire.Leaving{Millis: o.leaving.Sub(now).Milliseconds()})
		o.leaving = time.Time{}
	case len(o.results) > 0:
		p = pop(&o.results)
	case o.doneDue:
		o.doneDue = false
		o.tellLocked(now)
		b = wire.AppendHeader(scratch, wire.TypeDone, o.done.Size())
		b = o.done.Append(b)
	case len(o.receipt) > 0:
		b = append(scratch, o.receipt...)
		o.receipt = o.receipt[:0]
	case len(o.urgent) > 0:
		p = pop(&o.urgent)
	case len(o.bulk) > 0 && (x.push == nil || x.push.bytes == 0):
		if wait := o.bulkAfter.Sub(now); wait > 0 {
			return nil, nil, wait
		}
		p = pop(&o.bulk)
		if rate := x.srv.cfg.Queues.JournalRate; rate > 0 {
			o.bulkAfter = now.Add(time.Duration(len(p.buf)) * time.Second / time.Duration(rate))
		}
	default:
		return nil, nil, time.Hour
	}
	if p != nil {
		b = p.buf
	}
	o.since = now
	return p, b, 0
}

// writtenLocked recycles what next gave out.
func (o *outbox) writtenLocked(p *packet) {
	o.since = time.Time{}
	if p == nil {
		return
	}
	if p.buf.Type() == wire.TypeRows {
		o.resultBytes -= p.bytes()
		o.x.srv.outputLocked(-p.bytes())
		o.x.settleLocked()
	} else {
		o.journalledLocked(-p.bytes())
	}
	o.x.srv.packets.put(p, p.bytes())
}
