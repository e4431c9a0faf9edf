package client

import (
	"context"

	"whorl/client/sample"
	"whorl/swarm"
)

// Score is what a model thinks of a text.
type Score struct {
	// Logprobs[i] is the natural logarithm of p(id i | ids before i); entry 0 means
	// nothing and is 0.
	Logprobs []float64
	// Next are the logits after the last id.
	Next []float32
}

// scoreRows is how many rows of logits are held at a time.
const scoreRows = 16

// Score runs ids through an empty session and measures each of them.
func (s *Session) Score(ctx context.Context, ids []int32) (Score, error) {
	if err := s.accepts(Request{Prompt: ids, TopLogprobs: -1}); err != nil {
		return Score{}, err
	}
	if s.Position() > 0 {
		return Score{}, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "scoring needs an empty session, this one is at position %d", s.Position())
	}
	rows, err := s.advance(ctx, ids, 0)
	if err != nil {
		return Score{}, err
	}
	hidden, vocab := s.e.cfg.Manifest.Hidden, s.e.cfg.Vocab
	out := Score{Logprobs: make([]float64, len(ids))}
	logits := make([]float32, scoreRows*vocab)
	for at := 0; at < len(ids); at += scoreRows {
		if err := s.ended(ctx); err != nil {
			return Score{}, err
		}
		n := min(scoreRows, len(ids)-at)
		if err := s.e.cfg.Head.Logits(logits[:n*vocab], rows[at*hidden:(at+n)*hidden], n, s.opt.Activations); err != nil {
			return Score{}, err
		}
		for i := range n {
			row := logits[i*vocab : (i+1)*vocab]
			if at+i+1 < len(ids) {
				out.Logprobs[at+i+1] = sample.Logprobs(row, ids[at+i+1], 0).Logprob
			} else {
				out.Next = append([]float32(nil), row...)
			}
		}
	}
	return out, nil
}
