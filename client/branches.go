package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"whorl/client/sample"
	"whorl/swarm"
)

// Branch is one of several answers that go on from the same text (Request.Branches).
type Branch struct {
	Prompt []int32 // ids behind the common prompt; may be empty
	Seed   uint64
}

// validateBranches refuses what several answers to one prompt cannot have; the error is a
// *sample.FieldError.
func (r *Request) validateBranches() error {
	switch {
	case len(r.Branches) > sample.MaxBeams:
		return &sample.FieldError{Field: "n", Value: len(r.Branches), Want: "at most 32"}
	case r.Beams.Beams > 1:
		return &sample.FieldError{Field: "num_beams", Value: r.Beams.Beams, Want: "1 beside several answers: num_return_sequences gives those of a search"}
	case r.Guidance != nil:
		return &sample.FieldError{Field: "guidance_scale", Value: r.Guidance.Scale, Want: "1 beside several answers of one session"}
	case r.Echo || r.Hash:
		return &sample.FieldError{Field: "echo", Value: true, Want: "false beside several answers of one session"}
	case r.MaxNewTokens < 1:
		return &sample.FieldError{Field: "max_new_tokens", Value: r.MaxNewTokens, Want: "1 or more"}
	}
	return nil
}

// longestBranch is the length of the longest prompt of a branch.
func (r *Request) longestBranch() int {
	longest := 0
	for _, b := range r.Branches {
		longest = max(longest, len(b.Prompt))
	}
	return longest
}

// branch is a turn with several answers: its text is computed once, and they go on from it side by
// side, as the sequences of a beam search do (ADR 0040). Each is what it would be alone. The
// session ends up with the text that they have in common, whose rows the servers keep.
func (t *turn) branch(ctx context.Context) error {
	s := t.s
	s.mu.Lock()
	computed, pending := len(s.ids), s.pending
	s.mu.Unlock()
	start := time.Now()
	row, err := t.prefill(ctx)
	if err != nil {
		return err
	}
	t.res.Timings.Prefill = time.Since(start)
	branches := make([]*turn, len(t.r.Branches))
	defer func() {
		for _, b := range branches {
			if b != nil {
				b.settle()
			}
		}
	}()
	rows := make([][]float32, len(branches))
	for i, b := range t.r.Branches {
		if branches[i], err = t.sprout(i, b); err != nil {
			break
		}
		rows[i] = row
	}
	if err == nil {
		err = t.grow(ctx, branches, rows)
	}
	t.res.Timings.Decode = time.Since(start) - t.res.Timings.Prefill
	cancelled := swarm.CodeOf(err) == swarm.CodeCancelled && !s.isOver()
	for i, b := range branches {
		if b == nil {
			continue
		}
		if cancelled && !b.over {
			b.res.Finish = FinishCancelled
			err = errors.Join(err, b.finish(""))
		}
		t.res.Answers = append(t.res.Answers, Answer{IDs: b.res.IDs, Text: b.res.Text, Finish: b.res.Finish, StopMatch: b.res.StopMatch, Logprobs: b.res.Logprobs})
		t.res.IDs = append(t.res.IDs, b.res.IDs...)
		if i == 0 {
			t.res.Finish, t.res.StopMatch, t.res.Text = b.res.Finish, b.res.StopMatch, b.res.Text
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !cancelled {
		s.cut(computed)
		s.pending = pending
		return err
	}
	s.cut(len(t.history) + s.lead())
	s.pending = nil
	return err
}

// sprout makes the turn of one answer, which has the text of t behind it.
func (t *turn) sprout(index int, b Branch) (*turn, error) {
	r := t.r
	r.Branches, r.Prompt, r.Sampling.Seed = nil, b.Prompt, b.Seed
	emit := t.emit
	if emit != nil {
		emit = func(d Delta) error {
			d.Branch = index
			return t.emit(d)
		}
	}
	out := newTurnBehind(t.s, r, emit, slices.Concat(t.history, b.Prompt))
	out.until = t.until
	out.aside, out.queue = true, slices.Clone(b.Prompt)
	var err error
	out.form, err = r.startForm()
	return out, err
}

// grow chooses the tokens of all branches, step by step, until all have ended. rows are the hidden
// rows that their next tokens are chosen from. A branch with ids in its queue takes those first;
// one that has ended goes on with what does not matter, since a step has rows of all.
func (t *turn) grow(ctx context.Context, branches []*turn, rows [][]float32) error {
	hidden, vocab := t.s.e.cfg.Manifest.Hidden, t.s.e.cfg.Vocab
	ids, parents := make([]int32, len(branches)), make([]uint8, len(branches))
	packed, logits := make([]float32, 0, len(branches)*hidden), make([]float32, len(branches)*vocab)
	for first := true; ; first = false {
		var asking []*turn
		packed = packed[:0]
		for i, b := range branches {
			if !b.over && len(b.queue) == 0 {
				asking, packed = append(asking, b), append(packed, rows[i]...)
			}
		}
		if len(asking) > 0 {
			if err := t.s.e.cfg.Head.Logits(logits[:len(asking)*vocab], packed, len(asking), t.s.opt.Activations); err != nil {
				return err
			}
		}
		for i, b := range asking {
			if err := b.next(logits[i*vocab : (i+1)*vocab]); err != nil {
				return err
			}
		}
		left := false
		for i, b := range branches {
			switch {
			case len(b.queue) > 0 && !b.over:
				ids[i], b.queue = b.queue[0], b.queue[1:]
				left = true
				if len(b.queue) == 0 {
					b.prepare()
				}
			case first: // it ended with its first token
				ids[i] = t.history[len(t.history)-1]
			}
			if parents[i] = uint8(i); first {
				parents[i] = 0
			}
		}
		if !left {
			return nil
		}
		out, err := t.s.advanceBeams(ctx, ids, parents)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i] = out[i*hidden : (i+1)*hidden]
		}
	}
}

// next chooses the next token of a branch, and takes those that have to come behind it.
func (t *turn) next(logits []float32) error {
	id, err := t.pick(logits, logits)
	if err != nil {
		return err
	}
	done, err := t.accept(id)
	if err == nil && !done {
		done, err = t.jump()
	}
	t.over = done
	return err
}

// Keep puts ids behind the session's text, such as those of one of several answers: they are
// computed with what comes next.
func (s *Session) Keep(ids []int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if id < 0 || int(id) >= s.e.cfg.Vocab {
			return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "token id %d is outside the vocabulary of %d", id, s.e.cfg.Vocab)
		}
	}
	if have, most := s.position()-s.lead(), s.opt.MaxLength-s.opt.Prompts.rows(); have+len(ids) > most {
		return errTooLong(have, len(ids), most)
	}
	s.pending = slices.Concat(s.pending, ids)
	return nil
}
