package client

import (
	"context"
	"fmt"
	"slices"

	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// StageReceipt is what one stage of a session signed: that it computed the first Rows rows
// of the session's log, as they stood in an epoch.
type StageReceipt struct {
	Hop swarm.Hop
	wire.Receipt
}

// maxReceipts is how many receipts a session keeps, of stages that it has and had.
const maxReceipts = 64

// proofs is what a session knows of a stage's receipts.
type proofs struct {
	makes  bool // the stage says so
	newest *wire.Receipt
	asked  int
	got    int
}

// makesReceipts notes whether the stage does.
func (st *stage) makesReceipts(says bool) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	st.proofs.makes = says && !st.s.nonce.IsZero()
}

// want is what a receipt of the stage must be about.
func (st *stage) want() proof.Receipt {
	manifest, _ := st.s.e.uid.Hash()
	return proof.Receipt{Mode: st.s.mode, Manifest: manifest, Span: st.hop.Span, Nonce: st.s.nonce}
}

// receipt takes a frame in; the receipt replaces the stage's older one. The error says that
// the stage sent what cannot be.
func (st *stage) receipt(p []byte) error {
	s := st.s
	r, err := wire.ParseReceipt(p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	st.proofs.got++
	// To check one takes longer than to send one: they may come as fast as there is work.
	flood := st.proofs.got > 64+st.proofs.asked+int(s.step)+len(s.ids)
	makes := st.proofs.makes
	s.mu.Unlock()
	want := st.want()
	switch {
	case !makes:
		return fmt.Errorf("%w: a receipt that nobody asked for", wire.ErrFrame)
	case flood:
		return fmt.Errorf("%w: more receipts than there can be", wire.ErrFrame)
	case int64(r.Rows) > int64(s.maxRows()):
		return fmt.Errorf("%w: a receipt of %d rows", wire.ErrFrame, r.Rows)
	}
	if err := r.Check(st.hop.Peer, &want, s.e.cfg.Verify); err != nil {
		return fmt.Errorf("%w: a receipt: %v", wire.ErrFrame, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipts = slices.DeleteFunc(s.receipts, func(o StageReceipt) bool { return o.Hop == st.hop })
	if len(s.receipts) == maxReceipts {
		s.receipts = slices.Delete(s.receipts, 0, 1)
	}
	s.receipts = append(s.receipts, StageReceipt{Hop: st.hop, Receipt: r})
	st.proofs.newest = &r
	s.notify()
	return nil
}

// Receipts asks the stages of the present chain for receipts of all rows and waits for them
// until ctx ends. It returns the newest receipt of each stage that the session has or had, in
// the order they came; all are signed by the stage and about this session. The error says
// which stages owe theirs. The session must be open with SessionOptions.Receipts, and, as in
// a turn, no other call may run.
func (s *Session) Receipts(ctx context.Context) ([]StageReceipt, error) {
	if s.chains != nil {
		return s.chains.receipts(ctx)
	}
	s.mu.Lock()
	var asked []*stage
	for _, st := range s.stages {
		if st.stream != nil && st.proofs.makes {
			st.proofs.asked++
			asked = append(asked, st)
		}
	}
	s.mu.Unlock()
	for _, st := range asked {
		st.bare(wire.TypeReceipt) // if it fails the listener finds out
	}
	for {
		s.mu.Lock()
		owed := slices.DeleteFunc(slices.Clone(asked), func(st *stage) bool {
			r := st.proofs.newest
			return r != nil && r.Epoch == st.epoch && int(r.Rows) >= len(s.ids)
		})
		lost := slices.IndexFunc(owed, func(st *stage) bool { return st.deaf })
		list, why := slices.Clone(s.receipts), s.why
		s.mu.Unlock()
		switch {
		case why != nil:
			return list, why
		case len(owed) == 0:
			return list, s.unproved()
		case lost >= 0:
			hop := owed[lost].hop
			return list, swarm.Errorf(swarm.CodePeerLost, swarm.Elsewhere, "lost server %s with blocks %v before its receipt", hop.Peer.Short(), hop.Span)
		}
		select {
		case <-s.wake:
		case <-s.over:
		case <-ctx.Done():
			return list, swarm.Errorf(swarm.CodeTimeout, swarm.Elsewhere, "server %s with blocks %v and %d more sent no receipt in time", owed[0].hop.Peer.Short(), owed[0].hop.Span, len(owed)-1)
		}
	}
}

// unproved says which stage of the present chain has no receipt of all rows.
func (s *Session) unproved() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hop := range s.route() {
		if !slices.ContainsFunc(s.receipts, func(r StageReceipt) bool { return r.Hop == hop && int(r.Rows) >= len(s.ids) }) {
			return swarm.Errorf(swarm.CodeUnsupported, swarm.Elsewhere, "server %s with blocks %v makes no receipts", hop.Peer.Short(), hop.Span)
		}
	}
	return nil
}

// Covers compares a receipt of a present stage with what the session's journal has of its
// rows: proof.ErrRows says that the stage signed other rows than it was sent, or than it sent on.
// known is false where that cannot be told: the journal has gaps, or the outputs of the last
// stage are asked for, which no journal keeps; then roots of two receipts can be compared
// (proof.Receipt.Agrees). As in a turn, no other call may run.
func (s *Session) Covers(r *StageReceipt) (known bool, err error) {
	if s.chains != nil {
		return s.chains.covers(r)
	}
	n, span := int(r.Rows), r.Hop.Span
	s.mu.Lock()
	known = s.why == nil && n <= len(s.ids) && span.End < s.e.cfg.Manifest.Blocks && s.kept(span.End, n) && (span.Start == 0 || s.kept(span.Start, n))
	s.mu.Unlock()
	if !known {
		return false, nil
	}
	hidden, rows := s.e.cfg.Manifest.Hidden, make([]proof.Row, 0, n)
	var in, out []float32
	for from := 0; from < n; from += pageRows {
		to := min(n, from+pageRows)
		s.mu.Lock()
		if s.why != nil {
			s.mu.Unlock()
			return false, nil
		}
		ids := s.ids[from:to]
		out = s.journals[span.End].rows(out[:0], from, to)
		if span.Start > 0 {
			in = s.journals[span.Start].rows(in[:0], from, to)
		}
		s.mu.Unlock()
		if span.Start == 0 {
			in = slices.Grow(in[:0], len(ids)*hidden)[:len(ids)*hidden]
			if err := s.e.embed(in, ids, s.opt.Prompts); err != nil {
				return false, err
			}
		}
		for i := range to - from {
			beams := s.beams.of(from + i)
			rows = append(rows, proof.Row{
				Position: uint32(beams.Position(from + i)), Parent: uint32(beams.Parent(from + i)),
				In: proof.HashRow(in[i*hidden : (i+1)*hidden]), Out: proof.HashRow(out[i*hidden : (i+1)*hidden]),
			})
		}
	}
	return true, r.Receipt.Covers(rows)
}

// kept tells whether the journal in front of a block has the first n rows; mu is held.
func (s *Session) kept(block, n int) bool {
	return s.journals[block] != nil && s.machine.Known(block).KnownFrom(0) >= n
}
