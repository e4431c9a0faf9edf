package hidden

import (
	"context"
	"sync"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/train"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/tensor"
)

// lossRows is how many rows have logits at a time while losses are computed, and how often they are
// held then.
const (
	lossRows   = 32
	lossCopies = 4
)

// wayBack is a head that gradients go back through. *model.Head is one.
type wayBack interface {
	Normed(dst, rows []float32) error
	NormedBackward(dst, rows, dnormed []float32) error
	Backward(dst, rows, dlogits []float32) error
}

// head computes what is outside of the blocks.
func (t *talk) head(ctx context.Context, q *request) (*reply, error) {
	h, hidden, vocab := t.layers.Head(), t.model.hidden, t.model.Vocab
	for i, id := range q.ids {
		if id < 0 || int(id) >= vocab {
			return nil, api.Invalid("", "id %d of the %d behind the header is %d: %s has 0 to %d", i, len(q.ids), id, t.model.Name, vocab-1)
		}
	}
	switch q.Type {
	case gen.HiddenRequestTypeEmbed:
		out := make([]float32, len(q.ids)*hidden)
		return rowsReply(gen.HiddenReplyTypeRows, hidden, out), h.Embed(out, q.ids)
	case gen.HiddenRequestTypeLogits:
		out := make([]float32, *q.Rows*vocab)
		return rowsReply(gen.HiddenReplyTypeRows, vocab, out), h.Logits(out, q.rows, *q.Rows, activations(q))
	}
	back, ok := h.(wayBack)
	if !ok {
		return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "the head of %s has no way back for gradients here", t.model.Name)
	}
	switch q.Type {
	case gen.HiddenRequestTypeNorm:
		out := make([]float32, len(q.rows))
		return rowsReply(gen.HiddenReplyTypeRows, hidden, out), back.Normed(out, q.rows)
	case gen.HiddenRequestTypeNormBackward:
		out := make([]float32, len(q.rows))
		return rowsReply(gen.HiddenReplyTypeGradients, hidden, out), back.NormedBackward(out, q.rows, q.grads)
	case gen.HiddenRequestTypeLogitsBackward:
		out := make([]float32, len(q.rows))
		return rowsReply(gen.HiddenReplyTypeGradients, hidden, out), back.Backward(out, q.rows, q.grads)
	}
	return t.loss(ctx, h, back, q)
}

// loss is the cross-entropy of an id behind each row, and its gradient by that row.
func (t *talk) loss(ctx context.Context, h client.Head, back wayBack, q *request) (*reply, error) {
	hidden, vocab := t.model.hidden, t.model.Vocab
	losses, grads := make([]float32, len(q.ids)), []float32(nil)
	if api.Value(q.Grad, false) {
		grads = make([]float32, len(q.rows))
	}
	logits, scratch := make([]float32, min(len(q.ids), lossRows)*vocab), make([]float64, vocab)
	for at := 0; at < len(q.ids); at += lossRows {
		if ctx.Err() != nil { // whoever asked has left
			return nil, late(ctx, ctx.Err())
		}
		n := min(lossRows, len(q.ids)-at)
		rows, l := q.rows[at*hidden:(at+n)*hidden], logits[:n*vocab]
		if err := h.Logits(l, rows, n, tensor.ActF32); err != nil {
			return nil, err
		}
		for i := range n {
			loss, _ := train.CrossEntropy(l[i*vocab:(i+1)*vocab], int(q.ids[at+i]), scratch)
			losses[at+i] = float32(loss)
		}
		if grads == nil {
			continue
		}
		if err := back.Backward(grads[at*hidden:(at+n)*hidden], rows, l); err != nil {
			return nil, err
		}
	}
	n := len(losses)
	p := &reply{HiddenReply: gen.HiddenReply{Type: gen.HiddenReplyTypeLoss, Rows: &n}, losses: losses}
	if grads != nil {
		p.Columns, p.values = &hidden, [][]float32{grads}
	}
	return p, nil
}

// keeping is memory that a pass has taken on its way. Safe for concurrent use.
type keeping struct {
	mu    sync.Mutex
	bytes int64 // guarded by mu
}

func (k *keeping) take(h budget.Hold, n int64) error {
	if err := h.Pool.Take(n, h.Who); err != nil {
		return full(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes += n
	return nil
}

func (k *keeping) give(h budget.Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.Pool.Give(k.bytes, h.Who)
	k.bytes = 0
}
