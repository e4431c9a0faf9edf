package server

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
)

// Passes bounds what a server computes without a session, for clients that train.
type Passes struct {
	Off    bool
	Rows   int   // most rows of one pass
	Most   int   // passes at once: most of them wait
	Memory int64 // bytes for their rows and for the workspace of the one that is computed; 0: what the plan gives
}

// passBudgets are the memory of passes: half is for their rows, of which peers and prefixes get
// shares, half for the workspace of the one that is computed.
type passBudgets struct{ rows, work, count *budget.Pool }

// The rate at which a client must send the rows that memory is held for, after a while.
const (
	passPatience = 10 * time.Second
	passSlowest  = 64 << 10 // bytes a second
)

// passStream is the server's end of a pass.
type passStream struct {
	s      *Server
	from   swarm.PeerID
	stream wire.Stream
	r      *wire.Reader
	buf    []byte
}

// ServePass answers a stream on which a client asks for one pass (wire.ProtoPass). It returns when
// that is over and everything it held is freed.
func (s *Server) ServePass(ctx context.Context, from swarm.PeerID, stream wire.Stream) {
	stop := context.AfterFunc(ctx, func() { stream.Reset() })
	defer stop()
	defer stream.Reset()

	r := wire.NewReader(bufio.NewReaderSize(stream, readBuffer))
	defer r.Release()
	hold := s.hold(from, stream)
	r.Charge(ctx, stream, hold)
	t := &passStream{s: s, from: from, stream: stream, r: r}
	p, err := t.open()
	if err != nil {
		s.refuse(stream, 0, err)
		return
	}
	limit := min(time.Duration(p.ask.Millis)*time.Millisecond, s.cfg.Timeouts.Pass)
	ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	ctx, over := context.WithTimeoutCause(ctx, limit, errPassTime(s.deps.Self, limit))
	defer over()
	p.ctx = ctx
	budgets := s.passing.Load()
	if err := budgets.count.Take(1, hold.Who); err != nil {
		s.refuse(stream, 0, err)
		return
	}
	defer budgets.count.Give(1, hold.Who)
	bytes := p.bytes(s.cfg.Manifest.Hidden)
	wait, enough := context.WithTimeout(ctx, wire.PassWait)
	err = budgets.rows.Wait(wait, bytes, hold.Who)
	enough()
	if err != nil {
		s.refuse(stream, 0, err)
		return
	}
	defer budgets.rows.Give(bytes, hold.Who)
	if err := t.receive(p, bytes); err != nil {
		s.refuse(stream, 0, err)
		return
	}
	s.mu.Lock()
	if err = s.mayPassLocked(p); err == nil { // it may have moved meanwhile
		if p.adapter, err = s.adapterLocked(p.ask.Adapter); err == nil {
			s.queueLocked(p)
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.refuse(stream, 0, err)
		return
	}
	gone := make(chan struct{})
	asks := make(chan struct{}, 1)
	go func() {
		defer close(gone)
		t.listen(asks)
	}()
	t.answer(p, gone, asks)
	// The stream is reset once the client has read to the end, or takes too long for it.
	late := time.NewTimer(s.cfg.Timeouts.Write)
	defer late.Stop()
	select {
	case <-gone:
	case <-late.C:
	}
	stream.Reset()
	<-gone
}

// open reads what is asked for and checks it.
func (t *passStream) open() (*pass, error) {
	s := t.s
	t.stream.SetReadDeadline(time.Now().Add(s.cfg.Timeouts.Open))
	b, err := t.r.First(wire.TypePass)
	if err != nil {
		return nil, err
	}
	t.stream.SetReadDeadline(time.Time{})
	ask := new(wire.Pass)
	if err := wire.DecodeFirst(wire.TypePass, b, s.deps.Self, t.from, ask); err != nil {
		return nil, err
	}
	p := &pass{from: t.from, ask: ask, done: make(chan struct{})}
	if err := s.checkPass(p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.home = s.container
	return p, s.mayPassLocked(p)
}

// receive lets the rows come.
func (t *passStream) receive(p *pass, bytes int64) error {
	hidden := t.s.cfg.Manifest.Hidden
	slow := time.AfterFunc(passPatience+time.Duration(bytes)*time.Second/passSlowest, func() { t.stream.Reset() })
	defer slow.Stop()
	defer context.AfterFunc(p.ctx, func() { t.stream.Reset() })()
	t.stream.SetWriteDeadline(time.Now().Add(t.s.cfg.Timeouts.Write))
	if _, err := t.stream.Write(wire.AppendFrame(t.buf[:0], wire.TypeGrant)); err != nil {
		return err
	}
	t.r.AllowRows(t.s.rowBytes())
	sent, at := p.ask.Sent(), 0
	all := make([]float32, sent.Total()*hidden)
	for !sent.Done() {
		typ, b, err := t.r.Next()
		switch {
		case err != nil:
			return err
		case typ == wire.TypeAsk:
			continue // it is being read: that is progress of its own
		case typ != wire.TypeChunk:
			return fmt.Errorf("%w: type %d in a pass", wire.ErrFrame, typ)
		}
		h, data, err := wire.ParseChunk(b)
		if err != nil {
			return err
		}
		if err := sent.Take(&h); err != nil {
			return err
		}
		n := int(h.Count) * hidden
		rows, err := codec.Decode(all[at:at:at+n], h.Codec, data, n)
		if err != nil || h.Codec != codec.F32 || !codec.Finite(rows) {
			return fmt.Errorf("%w: rows of a pass that are not %d finite values of codec %d", wire.ErrFrame, n, codec.F32)
		}
		at += n
	}
	p.take(all, hidden)
	return nil
}

// take divides the rows that came.
func (p *pass) take(all []float32, hidden int) {
	n := p.ask.Rows() * hidden
	p.in, all = all[:n:n], all[n:]
	if p.ask.Backward {
		p.grads, all = all[:n:n], all[n:]
	}
	if p.ask.Prompt == 0 {
		return
	}
	p.prompts = all
	table, seqs := p.ask.Prompt*hidden, len(p.ask.Lengths)
	if p.ask.Shared && seqs > 1 {
		p.prompts = make([]float32, 0, len(all)*seqs)
		for block := range p.ask.Span.Len() {
			for range seqs {
				p.prompts = append(p.prompts, all[block*table:(block+1)*table]...)
			}
		}
	}
	if p.ask.Backward {
		p.dprompts = make([]float32, p.ask.Span.Len()*seqs*table)
	}
}

// bytes is what the rows of a pass take, results included.
func (p *pass) bytes(hidden int) int64 {
	rows := p.ask.Sent().Total()
	tables := p.ask.Span.Len() * len(p.ask.Lengths) * p.ask.Prompt
	if p.ask.Shared {
		rows += tables
	}
	if p.ask.Backward {
		rows += tables
	}
	return int64(rows) * int64(hidden) * 4
}

// listen hears questions until the stream ends.
func (t *passStream) listen(asks chan struct{}) {
	pace := rate.NewLimiter(controlRate, controlBurst)
	for {
		typ, _, err := t.r.Next()
		if err != nil || typ != wire.TypeAsk || !pace.Allow() {
			return
		}
		poke(asks)
	}
}

// answer waits until the pass is computed, and writes what came of it.
func (t *passStream) answer(p *pass, gone, asks chan struct{}) {
	s, stopped, left := t.s, p.ctx.Done(), gone
	for over := false; !over; {
		select {
		case <-p.done:
			over = true
		case <-asks:
			s.mu.Lock()
			ahead := p.home.passes.Ahead(s.clock(), p.id)
			s.mu.Unlock()
			t.write(wire.AppendJSON(t.buf[:0], wire.TypeProgress, wire.Progress{Ahead: ahead}))
		case <-left:
			left = nil
			p.cancel(errPassGone)
		case <-stopped:
			// The one that is computed ends with its present piece.
			stopped = nil
			s.mu.Lock()
			if p.home.training != p {
				s.dropLocked(p, context.Cause(p.ctx))
			}
			s.mu.Unlock()
		}
	}
	if left == nil {
		return
	}
	err := p.err
	if err == nil {
		err = t.results(p)
	}
	if e := s.passError(err); e != nil {
		s.metrics.failures.WithLabelValues(string(e.Code)).Inc()
		t.write(wire.AppendJSON(t.buf[:0], wire.TypeFail, wire.NewFail(0, e)))
	}
}

// results writes what a pass gave.
func (t *passStream) results(p *pass) error {
	hidden := t.s.cfg.Manifest.Hidden
	first, rows := p.in, p.ask.Rows()
	if p.ask.Backward {
		first = p.grads
	}
	if !codec.Finite(first) || !codec.Finite(p.dprompts) {
		return swarm.Errorf(swarm.CodeBadOutput, swarm.Elsewhere, "server %s computed rows that are not finite", t.s.deps.Self.Short())
	}
	return p.ask.Returned().Each(wire.ChunkRows(t.s.rowBytes()), func(h wire.ChunkHeader, at int) error {
		from := first
		if at >= rows {
			from, at = p.dprompts, at-rows
		}
		h.Codec = codec.F32
		values := from[at*hidden:][:int(h.Count)*hidden]
		t.buf = wire.BeginChunk(t.buf[:0], &h, codec.Size(h.Codec, len(values)))
		t.buf = codec.Append(t.buf, h.Codec, values)
		return t.write(t.buf)
	})
}

// write hands one frame to the network. A client that does not take it is gone.
func (t *passStream) write(frame []byte) error {
	t.stream.SetWriteDeadline(time.Now().Add(t.s.cfg.Timeouts.Write))
	_, err := t.stream.Write(frame)
	if err != nil {
		t.stream.Reset()
	}
	return err
}
