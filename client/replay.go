package client

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"whorl/client/chain"
	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// replayRows is how many rows an audit has in work: few, since users come first.
const replayRows = 64

// replay has servers compute rows of a session that has ended, and names the results. Every
// server is fed by this client alone, so that each is answerable for what it makes of them.
func (e *Engine) replay(ctx context.Context, ev *evidence, hops []swarm.Hop, rows int) ([]content.Hash, error) {
	links := make([]*replayLink, len(hops))
	for i, h := range hops {
		l, err := e.openReplay(ctx, ev, h)
		if err != nil {
			return nil, err
		}
		defer l.close()
		links[i] = l
	}
	return e.feed(ev, links, rows)
}

// feed sends rows through sessions of one stage each, and names what comes out of the last.
func (e *Engine) feed(ev *evidence, links []*replayLink, rows int) ([]content.Hash, error) {
	hidden := e.cfg.Manifest.Hidden
	out := make([]content.Hash, 0, rows)
	var feed []float32
	for from := 0; from < rows; from += replayRows {
		to := min(from+replayRows, rows)
		var err error
		if feed, err = ev.inputs(e, feed[:0], links[0].hop.Span.Start, from, to, hidden); err != nil {
			return nil, err
		}
		for _, l := range links {
			if feed, err = l.through(feed, from, to); err != nil {
				return nil, err
			}
		}
		for i := range to - from {
			out = append(out, proof.HashRow(feed[i*hidden:(i+1)*hidden]))
		}
	}
	return out, nil
}

// inputs appends the rows in front of a block.
func (ev *evidence) inputs(e *Engine, dst []float32, block, from, to, hidden int) ([]float32, error) {
	if ev.canary != nil {
		return ev.canary.Fill(dst, from, to, hidden), nil
	}
	if block > 0 {
		return ev.journals[block].rows(dst, from, to), nil
	}
	dst = slices.Grow(dst, (to-from)*hidden)[:(to-from)*hidden]
	return dst, e.embed(dst, ev.ids[from:to], ev.opt.Prompts)
}

// replayLink is a session of one stage.
type replayLink struct {
	e      *Engine
	hop    swarm.Hop
	id     wire.SessionID
	stream wire.Stream
	r      *wire.Reader
	stop   func() bool
	buf    []byte
	step   uint64
	codec  uint8 // of its rows
	makes  bool  // receipts
}

// openReplay opens a session of one stage. It waits for no cache: users come first.
func (e *Engine) openReplay(ctx context.Context, ev *evidence, h swarm.Hop) (*replayLink, error) {
	dctx, cancel := context.WithTimeout(ctx, e.cfg.Timeouts.Dial)
	defer cancel()
	stream, err := e.cfg.Dialer.Dial(dctx, h.Peer, wire.ProtoSession)
	if err != nil {
		return nil, err
	}
	l := &replayLink{e: e, hop: h, codec: e.codec(), stream: stream, r: wire.NewReader(bufio.NewReaderSize(stream, 64<<10))}
	l.stop = context.AfterFunc(ctx, func() { stream.Reset() })
	l.r.AllowRows(4 * e.cfg.Manifest.Hidden)
	l.r.Charge(ctx, stream, budget.Hold{Pool: e.reading, Who: budget.Who{Peer: string(h.Peer)}})
	rand.Read(l.id[:])
	open := wire.Open{
		Version: wire.Version, Features: wire.Features &^ wire.FeatureHandover, Session: l.id, UID: ev.uid, Mode: ev.mode, Span: h.Span, MaxLength: ev.opt.MaxLength,
		Activations: ev.opt.Activations.String(), Residual: e.residual(), Adapter: ev.adapter, Background: !ev.urgent, Route: wire.Route{Epoch: 1, Journal: -1},
		Prompts: ev.opt.Prompts.named(e.cfg.Manifest.Blocks),
	}
	if ev.canary != nil { // whatever this engine's sessions are
		l.codec, open.Residual = codec.F32, ""
		if ev.urgent {
			open.Receipts = ev.canary.Nonce()
		}
	}
	l.buf = wire.AppendJSON(l.buf[:0], wire.TypeOpen, open)
	err = l.write()
	if err == nil {
		err = l.accepted(ev.mode)
	}
	if err == nil && open.Prompts != nil {
		err = chunks(open.Prompts, ev.opt.Prompts.of(h.Span), h.Span.Len(), e.cfg.Manifest.Hidden, func(frame []byte) error {
			l.buf = append(l.buf[:0], frame...)
			return l.write()
		})
	}
	if err == nil {
		l.buf = wire.AppendFrame(l.buf[:0], wire.TypeCommit)
		err = l.write()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *replayLink) close() {
	l.stop()
	l.stream.Reset()
	l.r.Release()
}

func (l *replayLink) write() error {
	l.stream.SetWriteDeadline(time.Now().Add(l.e.cfg.Timeouts.Write))
	_, err := l.stream.Write(l.buf)
	return err
}

// next reads a frame that is no failure.
func (l *replayLink) next() (wire.Type, []byte, error) {
	t, p, err := l.r.Next()
	if err != nil || t != wire.TypeFail {
		return t, p, err
	}
	var f wire.Fail
	if err := wire.Decode(t, p, &f); err != nil {
		return t, nil, err
	}
	return t, nil, fmt.Errorf("server %s gave an audit up: %s", l.hop.Peer.Short(), chain.Code(f.Code))
}

// accepted waits for the server's word.
func (l *replayLink) accepted(mode content.Hash) error {
	l.stream.SetReadDeadline(time.Now().Add(l.e.cfg.Timeouts.Open))
	t, p, err := l.next()
	if err != nil {
		return err
	}
	var v wire.Status
	if err := wire.Decode(t, p, &v); err != nil {
		return err
	}
	l.makes = v.Receipts
	if t != wire.TypeAccept || v.Mode != mode {
		return fmt.Errorf("%w: server %s does not accept an audit", wire.ErrFrame, l.hop.Peer.Short())
	}
	return nil
}

// through sends rows and waits for what the server makes of them, which is in feed then.
func (l *replayLink) through(feed []float32, from, to int) ([]float32, error) {
	hidden := l.e.cfg.Manifest.Hidden
	l.step++
	h := wire.RowsHeader{Session: l.id, Epoch: 1, Step: l.step, Start: uint32(from), Count: uint32(to - from), Want: uint32(from), Codec: l.codec}
	l.buf = wire.BeginRows(l.buf[:0], wire.TypeRows, &h, codec.Size(h.Codec, len(feed)))
	l.buf = codec.Append(l.buf, h.Codec, feed)
	if err := l.write(); err != nil {
		return nil, err
	}
	feed = feed[:0]
	deadline := time.Now().Add(l.e.cfg.Timeouts.Step) // for all of them: a trickle is no answer
	for len(feed) < (to-from)*hidden {
		l.stream.SetReadDeadline(deadline)
		t, p, err := l.next()
		if err != nil {
			return nil, err
		}
		if t == wire.TypeDone {
			continue
		}
		if t != wire.TypeRows {
			return nil, fmt.Errorf("%w: type %d in an audit", wire.ErrFrame, t)
		}
		h, data, err := wire.ParseRows(p)
		if err != nil {
			return nil, err
		}
		n := int(h.Count) * hidden
		if h.Session != l.id || int(h.Start) != from+len(feed)/hidden || h.End() > to || !codec.Fits(h.Codec, l.codec, n, len(data)) {
			return nil, fmt.Errorf("%w: %d rows from %d in an audit", wire.ErrFrame, h.Count, h.Start)
		}
		have := len(feed)
		if feed, err = codec.Decode(feed, h.Codec, data, n); err != nil || !codec.Finite(feed[have:]) {
			return nil, errRows
		}
	}
	return feed, nil
}

// receipt asks for what the server signs of the rows so far.
func (l *replayLink) receipt() (*proof.Receipt, error) {
	if !l.makes {
		return nil, fmt.Errorf("server %s makes no receipts", l.hop.Peer.Short())
	}
	l.buf = wire.AppendFrame(l.buf[:0], wire.TypeReceipt)
	if err := l.write(); err != nil {
		return nil, err
	}
	l.stream.SetReadDeadline(time.Now().Add(l.e.cfg.Timeouts.Open))
	for {
		t, p, err := l.next()
		switch {
		case err != nil:
			return nil, err
		case t == wire.TypeDone:
			continue
		case t != wire.TypeReceipt:
			return nil, fmt.Errorf("%w: type %d where a receipt should be", wire.ErrFrame, t)
		}
		r, err := wire.ParseReceipt(p)
		return &r.Receipt, err
	}
}
