package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// fakeSigner's signatures are hashes: they show what is signed, and stop nobody.
type fakeSigner struct {
	id   swarm.PeerID
	made atomic.Int64
	err  error
}

func fakeSignature(p swarm.PeerID, domain string, payload []byte) []byte {
	h := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%s", p, domain, payload))
	return h[:]
}

func (s *fakeSigner) Sign(domain string, payload []byte) ([]byte, error) {
	s.made.Add(1)
	return fakeSignature(s.id, domain, payload), s.err
}

func fakeVerify(p swarm.PeerID, domain string, payload, sig []byte) error {
	if !slices.Equal(sig, fakeSignature(p, domain, payload)) {
		return errors.New("bad signature")
	}
	return nil
}

var testNonce = content.Sum([]byte("nonce"))

// asking makes an Open ask for receipts.
func asking(o *wire.Open) { o.Receipts = testNonce }

// receipt asks for one and returns it; it must be signed for the session.
func (p *peer) receipt(n *node, o wire.Open) wire.Receipt {
	p.t.Helper()
	p.write(wire.AppendFrame(nil, wire.TypeReceipt))
	h, _ := p.until(wire.TypeReceipt)
	want := proof.Receipt{Mode: o.SessionMode().Hash(), Manifest: n.manifest, Span: o.Span, Nonce: testNonce}
	if err := h.proof.Check(n.deps.Self, &want, fakeVerify); err != nil {
		p.t.Fatalf("receipt %+v: %v", h.proof, err)
	}
	return h.proof
}

// plainRows are the rows of one sequence as somebody computes them who has all blocks.
func plainRows(in []float32, span swarm.Span) []proof.Row {
	out := reference(in, span.Start, span.End)
	rows := make([]proof.Row, len(in)/hidden)
	for i := range rows {
		at := i * hidden
		rows[i] = proof.Row{Position: uint32(i), Parent: uint32(i) - 1, In: proof.HashRow(in[at : at+hidden]), Out: proof.HashRow(out[at : at+hidden])}
	}
	return rows
}

// A receipt is about the rows as they stand: of prompt and answer, and after a cut of those
// that took the place of others.
func TestReceipt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", swarm.Span{Start: 0, End: modelSize}, func(c *Config, _ *node) { c.StepRows = 16 })
		o := openMsg(swarm.Span{Start: 1, End: 5})
		p := w.dial(n, "client")
		p.epoch = 1
		asking(&o)
		p.send(wire.TypeOpen, o)
		if a := p.expect(wire.TypeAccept); !a.status.Receipts {
			t.Error("the server does not say that it makes receipts")
		}
		p.write(wire.AppendFrame(nil, wire.TypeCommit))
		if r := p.receipt(n, o); r.Rows != 0 || r.Covers(nil) != nil {
			t.Errorf("of no rows: %+v", r)
		}
		in := input(1, 90)
		p.rows(in, 0, 70, 70)
		p.position(70)
		for pos := 70; pos < 80; pos++ {
			p.rows(in, pos, pos+1, pos)
			p.position(pos + 1)
		}
		r := p.receipt(n, o)
		if err := r.Covers(plainRows(in[:80*hidden], o.Span)); err != nil || r.Epoch != 1 {
			t.Errorf("receipt of epoch %d over %d rows: %v", r.Epoch, r.Rows, err)
		}
		p.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: 33, Journal: -1})
		p.epoch = 2
		p.expect(wire.TypeStatus)
		if r = p.receipt(n, o); r.Epoch != 2 || r.Covers(plainRows(in[:33*hidden], o.Span)) != nil {
			t.Errorf("after a cut: receipt of epoch %d over %d rows", r.Epoch, r.Rows)
		}
		other := append(slices.Clone(in[:33*hidden]), input(2, 60)...)
		p.rows(other, 33, 93, 93)
		p.position(93)
		r = p.receipt(n, o)
		if err := r.Covers(plainRows(other, o.Span)); err != nil {
			t.Errorf("after other rows: %v", err)
		}
		// One bit of one row that went in.
		other[50*hidden] += 1
		if err := r.Covers(plainRows(other, o.Span)); !errors.Is(err, proof.ErrRows) {
			t.Errorf("a receipt covers other rows: %v", err)
		}
		p.close()
		n.idle(t)
	})
}

// Sequences that part have leaves that name what they continue.
func TestReceiptOfBeams(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		span := swarm.Span{Start: 0, End: modelSize}
		n := w.serve("a", span, nil)
		p := w.opened(n, "client", span, func(o *wire.Open) { asking(o); o.Sequences = 3 })
		o := openMsg(span)
		const fork = 5
		prompt := input(1, fork)
		p.rows(prompt, 0, fork, fork)
		p.position(fork)
		all, seqs, last := plainRows(prompt, span), [][]float32{prompt}, []int{fork - 1}
		for step, parents := range [][]uint8{{0, 0, 0}, {1, 1, 2}, {2, 0, 1}} {
			rows := input(20+step, 3)
			p.beams(rows, fork, step, parents...)
			p.position(fork + 3*(step+1))
			var next [][]float32
			var ends []int
			for i, parent := range parents {
				seq := append(slices.Clone(seqs[parent]), rows[i*hidden:(i+1)*hidden]...)
				row := plainRows(seq, span)[len(seq)/hidden-1]
				row.Parent = uint32(last[parent])
				next, ends, all = append(next, seq), append(ends, len(all)), append(all, row)
			}
			seqs, last = next, ends
		}
		r := p.receipt(n, o)
		if err := r.Covers(all); err != nil {
			t.Errorf("%d rows: %v", r.Rows, err)
		}
		// Cut before the last step it goes back to the fork, and comes from there again.
		p.send(wire.TypeRoute, wire.Route{Epoch: 2, Truncate: fork + 3, Journal: -1})
		p.epoch = 2
		p.expect(wire.TypeStatus)
		r = p.receipt(n, o)
		if err := r.Covers(all[:fork]); err != nil {
			t.Errorf("after a cut: %v", err)
		}
		p.close()
		n.idle(t)
	})
}

// Nobody has to ask: a receipt comes at every 64th step. Who did not want any gets none.
func TestReceiptsUnasked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		signer := n.signer.(*fakeSigner)
		in := input(1, 150)
		for _, want := range []struct {
			change func(*wire.Open)
			rows   []uint32
		}{{nil, nil}, {asking, []uint32{wire.ReceiptSteps, 2 * wire.ReceiptSteps}}} {
			p := w.opened(n, "client", middle, want.change)
			var got []uint32
			for pos := range 150 {
				p.rows(in, pos, pos+1, 150)
				for _, h := range p.position(pos + 1) {
					if h.t == wire.TypeReceipt {
						got = append(got, h.proof.Rows)
					}
				}
				synctest.Wait()
			}
			if !slices.Equal(got, want.rows) || int(signer.made.Load()) != len(want.rows) {
				t.Errorf("receipts over %v rows, %d signatures, want over %v", got, signer.made.Load(), want.rows)
			}
			p.close()
			n.idle(t)
		}
	})
}

// Asking again costs no signature unless there are other rows, and nothing queues up.
func TestReceiptsAskedForOften(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		p := w.opened(n, "client", middle, asking)
		in := input(1, 10)
		p.rows(in, 0, 10, 10)
		p.position(10)
		var asks []byte
		for range 1000 {
			asks = wire.AppendFrame(asks, wire.TypeReceipt)
		}
		for range 20 {
			p.write(asks)
		}
		synctest.Wait()
		n.mu.Lock()
		queued := len(n.notary.todo)
		n.mu.Unlock()
		if made := n.signer.(*fakeSigner).made.Load(); made > 2 || queued > 2 {
			t.Errorf("20,000 requests: %d signatures, %d notes", made, queued)
		}
		p.close()
		n.idle(t)
	})
}

// What a session kept for receipts goes with it.
func TestLedgerIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, nil)
		p := w.opened(n, "client", middle, asking)
		in := input(1, 100)
		p.rows(in, 0, 100, 100)
		p.position(100)
		synctest.Wait()
		n.mu.Lock()
		x := n.byID[p.id][0]
		n.mu.Unlock()
		if x.ledger.log.Rows() != 100 {
			t.Errorf("%d rows are named", x.ledger.log.Rows())
		}
		n.Kill(p.id.String())
		synctest.Wait()
		if x.ledger.log.Rows() != 0 {
			t.Errorf("%d rows are kept of a session that has ended", x.ledger.log.Rows())
		}
		p.close()
		n.idle(t)
	})
}

func TestReceiptsThatCannotBe(t *testing.T) {
	r := wire.Receipt{Receipt: proof.Receipt{Span: middle, Sig: []byte{1}}}
	for name, c := range map[string]struct {
		change func(*wire.Open)
		frame  []byte
	}{
		"not asked for in the Open": {nil, wire.AppendFrame(nil, wire.TypeReceipt)},
		"a receipt of the client's": {asking, r.AppendFrame(nil)},
	} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.serve("a", middle, nil)
			p := w.opened(n, "client", middle, c.change)
			p.write(c.frame)
			if f := p.refusal(swarm.CodeBadFrame, swarm.Caller); f.Message == "" {
				t.Errorf("%s: %+v", name, f)
			}
			p.close()
			n.idle(t)
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(_ *Config, n *node) { n.signer = nil })
		p := w.dial(n, "client")
		o := openMsg(middle)
		asking(&o)
		p.send(wire.TypeOpen, o)
		p.refusal(swarm.CodeUnsupported, swarm.Elsewhere)
		p.close()
		n.idle(t)
	})
	bubble(t, func(t *testing.T, w *world) {
		n := w.serve("a", middle, func(_ *Config, n *node) { n.signer = &fakeSigner{err: errors.New("no key")} })
		p := w.opened(n, "client", middle, asking)
		p.write(wire.AppendFrame(nil, wire.TypeReceipt))
		p.refusal(swarm.CodeInternal, swarm.Elsewhere)
		p.close()
		n.idle(t)
	})
}
