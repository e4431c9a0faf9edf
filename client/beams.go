package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"whorl/client/sample"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// parting says how the rows of a session's log belong to sequences: the first fork rows
// are the positions of one, and behind them every width rows are a step of a beam search
// (wire.Beams). The zero value is one sequence. Guarded by the session's lock.
type parting struct {
	fork, width int
	parents     [][wire.MaxBeams]uint8 // of each step
}

// of is what a frame of rows from the given one on says of them.
func (p *parting) of(row int) wire.Beams {
	if p.width == 0 || row < p.fork {
		return wire.Beams{}
	}
	return wire.Beams{N: uint8(p.width), Fork: uint32(p.fork), Parents: p.parents[(row-p.fork)/p.width]}
}

// until bounds rows [from, to) to what one frame may hold. A step is never cut up to fit a
// chunk: all of it is within limit.
func (p *parting) until(from, to, limit int) int {
	switch {
	case p.width == 0 || from < p.fork && to <= p.fork:
		return to
	case from < p.fork:
		return p.fork
	}
	return min(limit, p.fork+((from-p.fork)/p.width+1)*p.width)
}

// positions is the length of the sequences after so many rows.
func (p *parting) positions(rows int) int {
	if p.width == 0 || rows <= p.fork {
		return rows
	}
	return p.fork + (rows-p.fork+p.width-1)/p.width
}

// cut forgets the steps from a row on.
func (p *parting) cut(row int) {
	if p.width == 0 || row <= p.fork {
		*p = parting{}
		return
	}
	p.parents = p.parents[:(row-p.fork+p.width-1)/p.width]
}

// advanceBeams makes a step of a search: sequence i continues what was sequence parents[i],
// or the one sequence at first, with ids[i]. It returns the rows of the last stage, one for
// each sequence, like advance.
func (s *Session) advanceBeams(ctx context.Context, ids []int32, parents []uint8) ([]float32, error) {
	var step [wire.MaxBeams]uint8
	copy(step[:], parents)
	s.mu.Lock()
	before := len(s.ids)
	if s.beams.width == 0 {
		s.beams = parting{fork: before, width: len(ids)}
	}
	s.beams.parents = append(s.beams.parents, step)
	s.mu.Unlock()
	return s.advance(ctx, ids, 0)
}

// search is a turn by beam search. The session ends up with the best answer emitted and not
// computed: the sequences are given up, and the next turn computes what it needs.
func (t *turn) search(ctx context.Context) error {
	s := t.s
	s.mu.Lock()
	computed, pending := len(s.ids), s.pending
	s.mu.Unlock()
	start := time.Now()
	row, err := t.prefill(ctx)
	if err != nil || row == nil {
		return err
	}
	fork := len(t.history)
	beams, err := t.searchFrom(ctx, row, start)
	s.mu.Lock()
	if err != nil {
		s.cut(computed)
		s.pending = pending
		s.mu.Unlock()
		return err
	}
	answers := beams.Answers()
	s.cut(fork + s.lead())
	s.pending = append([]int32(nil), answers[0].IDs...)
	s.mu.Unlock()
	for _, a := range answers {
		text, finish, match := t.render(a.IDs)
		t.res.Answers = append(t.res.Answers, Answer{IDs: a.IDs, Text: text, Score: a.Score, Finish: finish, StopMatch: match})
	}
	best := t.res.Answers[0]
	t.res.IDs, t.res.Finish, t.res.StopMatch, t.ids = best.IDs, best.Finish, best.StopMatch, best.IDs
	return t.show(best.Text)
}

// search is a beam search: sample.Beams or sample.Groups.
type search interface {
	Next() (ids []int32, parents []uint8)
	Step(logits []float32) error
	Done() bool
	Answers() []sample.Answer
}

// searchFrom runs a search to its end, given the hidden row of the last position.
func (t *turn) searchFrom(ctx context.Context, row []float32, start time.Time) (search, error) {
	var stops func(int, int32) bool
	var texts []answerText // of the open sequences, if there are stop texts
	if len(t.r.Stop) > 0 {
		texts = []answerText{t.answerText()}
		stops = func(seq int, id int32) bool { return texts[seq].stopsWith(id) }
	}
	var beams search
	if t.r.Beams.Groups > 1 {
		beams = sample.NewGroups(t.r.Sampling, t.r.Beams, t.history, t.r.MaxNewTokens, t.text.ends(), stops)
	} else {
		beams = sample.NewBeams(t.r.Sampling, t.r.Beams, t.history, t.r.MaxNewTokens, t.text.ends(), stops)
	}
	vocab := t.s.e.cfg.Vocab
	logits, first := t.logits, time.Time{}
	for n := 1; ; n = t.r.Beams.Beams {
		if len(logits) < n*vocab {
			logits = make([]float32, n*vocab)
		}
		if err := t.s.e.cfg.Head.Logits(logits[:n*vocab], row, n, t.s.opt.Activations); err != nil {
			return nil, err
		}
		t.hash.add(logits[:n*vocab])
		if err := beams.Step(logits[:n*vocab]); err != nil {
			return nil, t.unchosen(err)
		}
		if first.IsZero() {
			first = time.Now()
			t.res.Timings.Prefill = first.Sub(start)
		}
		t.res.Timings.Decode = time.Since(first)
		if beams.Done() {
			return beams, nil
		}
		ids, parents := beams.Next()
		if stops != nil {
			texts = grow(texts, ids, parents)
		}
		var err error
		if row, err = t.s.advanceBeams(ctx, ids, parents); err != nil {
			return nil, err
		}
	}
}

// unchosen says why no token could be chosen: by the caller's fault if the request forbids
// all, else by rows that a server made up or by a broken head.
func (t *turn) unchosen(err error) error {
	var field *sample.FieldError
	if errors.Is(err, sample.ErrAllBanned) || errors.As(err, &field) {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "cannot choose a token: %w", err)
	}
	return &swarm.Error{Code: swarm.CodeBadOutput, Verdict: swarm.Fatal, Message: "cannot choose a token", Err: err}
}

// render is the text of an answer, why it ends, and the stop text that it ends with.
func (t *turn) render(ids []int32) (text string, finish Finish, match string) {
	a := t.answerText()
	var all strings.Builder
	for _, id := range ids {
		all.WriteString(a.push(id))
	}
	all.WriteString(a.flush())
	if a.match != "" {
		a.finish = FinishStop
		if t.r.IncludeStop {
			all.WriteString(a.match)
		}
	}
	return all.String(), a.finish, a.match
}
