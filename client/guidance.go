package client

import (
	"context"

	"whorl/client/sample"
)

// Guidance moves an answer away from what would follow another context: each token is chosen from
// what sample.Guide makes of both. A turn with guidance has a second session for the other context,
// on a chain of its own, as long as it runs.
type Guidance struct {
	Scale float64 // 1 is none
	// Other is the other context; without ids it is the last one before the answer.
	Other []int32
}

// validate refuses what cannot be done; the error is a *sample.FieldError.
func (g *Guidance) validate(r *Request, vocab int) error {
	if err := sample.ValidateGuidance(g.Scale); err != nil {
		return err
	}
	for _, id := range g.Other {
		if id < 0 || int(id) >= vocab {
			return &sample.FieldError{Field: "negative_prompt_ids", Value: id, Want: "ids of the vocabulary"}
		}
	}
	if r.Beams.Beams > 1 {
		return &sample.FieldError{Field: "guidance_scale", Value: g.Scale, Want: "1 in a beam search: transformers does not have the other context follow the beams"}
	}
	return nil
}

// other is the other context of a turn.
type other struct {
	s       *Session
	scale   float64
	pending []int32 // not computed yet
	row     []float32
	err     error
	done    chan struct{} // closed once row and err are those of pending; nil before start
	both    []float32     // scratch: hidden rows of both contexts, and then their logits
	logits  []float32
	mixed   []float32
}

// openOther opens the session of the other context, if the turn has one.
func (t *turn) openOther(ctx context.Context) error {
	g, s := t.r.Guidance, t.s
	if g == nil || t.r.MaxNewTokens == 0 {
		return nil
	}
	ids := g.Other
	if len(ids) == 0 {
		ids = t.history[len(t.history)-1:]
	}
	o := s.opt
	o.MaxLength, o.Prompt, o.Beams, o.Receipts, o.Audit = len(ids)+t.r.MaxNewTokens, len(ids), 0, false, false
	opened, err := s.e.Open(ctx, o)
	if err != nil {
		return err
	}
	vocab := s.e.cfg.Vocab
	t.other = &other{
		s: opened, scale: g.Scale, pending: append([]int32(nil), ids...), logits: make([]float32, 2*vocab), mixed: make([]float32, vocab),
	}
	return nil
}

// close ends the session and waits for its step; nil has none.
func (o *other) close() {
	if o == nil {
		return
	}
	o.s.Close()
	if o.done != nil {
		<-o.done
	}
}

// start computes what is pending beside the turn's own step.
func (o *other) start(ctx context.Context) {
	if o == nil {
		return
	}
	done := make(chan struct{})
	o.done = done
	go func() {
		defer close(done)
		o.row, o.err = o.s.advance(ctx, o.pending, len(o.pending)-1)
	}()
}

// logitsOf are those of the text, given its hidden row, and those of the other context.
func (o *other) logitsOf(t *turn, row []float32) (text, beside []float32, err error) {
	<-o.done
	if o.err != nil {
		return nil, nil, o.err
	}
	o.pending = o.pending[:0]
	o.both = append(append(o.both[:0], row...), o.row...)
	if err := t.s.e.cfg.Head.Logits(o.logits, o.both, 2, t.s.opt.Activations); err != nil {
		return nil, nil, err
	}
	t.hash.add(o.logits)
	return o.logits[:len(o.mixed)], o.logits[len(o.mixed):], nil
}

// choose samples the next id from a hidden row.
func (t *turn) choose(row []float32) (int32, error) {
	o := t.other
	if o == nil {
		if err := t.s.e.cfg.Head.Logits(t.logits, row, 1, t.s.opt.Activations); err != nil {
			return 0, err
		}
		t.hash.add(t.logits)
		return t.pick(t.logits, t.logits)
	}
	text, beside, err := o.logitsOf(t, row)
	if err != nil {
		return 0, err
	}
	if err := sample.Guide(o.mixed, text, beside, o.scale); err != nil {
		return 0, t.unchosen(err)
	}
	return t.pick(text, o.mixed)
}

// pick samples the next id from logits; what is told of it is by those of the text.
func (t *turn) pick(text, from []float32) (int32, error) {
	mask, err := t.mask()
	if err != nil {
		return 0, err
	}
	id, err := t.sampler.SampleAmong(from, t.history, mask)
	if err != nil {
		return 0, t.unchosen(err)
	}
	if t.r.TopLogprobs >= 0 {
		t.measured(sample.Logprobs(text, id, t.r.TopLogprobs))
	}
	return id, nil
}
