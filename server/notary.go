package server

import (
	"context"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/proof"
	"whorl/swarm/wire"
)

// Signer signs in the name of this node, for one purpose each.
type Signer interface {
	Sign(domain string, payload []byte) ([]byte, error)
}

// notary makes receipts beside the compute loop: an iteration's rows are hashed while the
// next one is computed. It works through one queue, so that rows, cuts and receipts of a
// session keep their order. What waits in it is bounded: the rows of two iterations, and two
// notes a session.
type notary struct {
	s    *Server
	wake chan struct{}

	todo []note // guarded by Server.mu
}

// rowset is the rows of one iteration before and after the blocks, [StepRows][hidden] each.
type rowset struct {
	in, out []float32
	free    chan *rowset // where it goes when it is read no more
}

// maxRowsets is how many there are: one is computed while the other is hashed.
const maxRowsets = 2

// note is one thing for the notary to do.
type note struct {
	what  task
	x     *session
	set   *rowset
	at    int        // of the first row in the set
	first int        // row of the session's log
	rows  int        // how many; of a receipt: all that are computed
	beams wire.Beams // of the rows
	epoch uint32
}

type task uint8

const (
	noteRows task = iota // name rows that were computed
	noteSign             // make a receipt
	noteDrop             // the session has ended
	noteFree             // the set is read no more
)

// ledger is what a session keeps for its receipts: nil for one that asked for none.
type ledger struct {
	nonce content.Hash

	// Guarded by Server.mu.
	due   bool   // a receipt is in the notary's queue
	again bool   // and another was asked for since
	steps uint64 // of the session at the last one
	told  bool   // a receipt was made of the rows that epoch and rows name
	epoch uint32
	rows  int

	// The notary's own.
	log  proof.Log
	last proof.Receipt // without a signature if there is none yet
}

func newNotary(s *Server) *notary {
	return &notary{s: s, wake: make(chan struct{}, 1)}
}

func (n *notary) addLocked(t note) {
	n.todo = append(n.todo, t)
	poke(n.wake)
}

// noteLocked has the rows of a job named by which its session, which has a ledger, advances.
func (n *notary) noteLocked(j *job, set *rowset) {
	x := j.x
	n.addLocked(note{what: noteRows, x: x, set: set, at: j.at, first: j.first, rows: j.rows, beams: j.f.beams})
	if x.steps-x.ledger.steps >= wire.ReceiptSteps {
		x.receiptLocked()
	}
}

// receiptLocked has a receipt made of what is computed, unless the client has it or will
// have it: asking costs the server nothing that the asker does not pay with rows or routes.
func (x *session) receiptLocked() {
	l := x.ledger
	if l.told && l.epoch == x.route.Epoch && l.rows == x.length {
		return
	}
	if l.due {
		l.again = true
		return
	}
	l.due, l.steps = true, x.steps
	l.told, l.epoch, l.rows = true, x.route.Epoch, x.length
	x.srv.notary.addLocked(note{what: noteSign, x: x, rows: x.length, epoch: x.route.Epoch})
}

// run works until ctx ends. The compute loop must have ended before: it waits for sets.
func (n *notary) run(ctx context.Context) {
	var list []note
	for ctx.Err() == nil {
		n.s.mu.Lock()
		list, n.todo = n.todo, list[:0]
		n.s.mu.Unlock()
		for i := range list {
			n.do(&list[i])
			list[i] = note{}
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-n.wake:
		}
	}
}

func (n *notary) do(t *note) {
	switch t.what {
	case noteRows:
		n.name(t)
	case noteSign:
		n.sign(t)
	case noteDrop:
		t.x.ledger.log = proof.Log{}
	case noteFree:
		t.set.free <- t.set
	}
}

// name appends the leaves of rows. Those of a log that was cut take the place of others.
func (n *notary) name(t *note) {
	hidden := n.s.cfg.Manifest.Hidden
	log := &t.x.ledger.log
	log.Cut(t.first)
	leaf := proof.Leaf{Mode: t.x.modeHash, Manifest: n.s.manifest, Span: t.x.span}
	for i := range t.rows {
		row, from := t.first+i, (t.at+i)*hidden
		leaf.Row, leaf.Position, leaf.Parent = uint32(row), uint32(t.beams.Position(row)), uint32(t.beams.Parent(row))
		leaf.In, leaf.Out = proof.HashRow(t.set.in[from:from+hidden]), proof.HashRow(t.set.out[from:from+hidden])
		log.Append(leaf.Hash())
	}
}

// sign makes a receipt and hands it to the writer. Where the rows are those of the last one,
// in another epoch, its signature serves again.
func (n *notary) sign(t *note) {
	x, l, s := t.x, t.x.ledger, n.s
	l.log.Cut(t.rows)
	r := proof.Receipt{Mode: x.modeHash, Manifest: s.manifest, Span: x.span, Rows: uint32(l.log.Rows()), Nonce: l.nonce, Root: l.log.Root()}
	var err error
	if r.Sig = l.last.Sig; r.Sig == nil || r.Rows != l.last.Rows || r.Root != l.last.Root {
		if r.Sig, err = s.deps.Signer.Sign(proof.ReceiptDomain, r.Payload()); err == nil {
			s.metrics.receipts.Inc()
			l.last = r
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.due = false
	if x.phase == ended {
		return
	}
	if err != nil {
		s.log.Error("cannot sign a receipt", "session", x.id.String(), "reason", err)
		x.failLocked(swarm.Errorf(swarm.CodeInternal, swarm.Elsewhere, "server %s cannot sign a receipt", s.deps.Self.Short()))
		return
	}
	x.out.receiptLocked(wire.Receipt{Epoch: t.epoch, Receipt: r})
	if l.again {
		l.again = false
		x.receiptLocked()
	}
}
