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

const (
	// scoreRows is how many rows of logits are held at a time.
	scoreRows = 16
	// scoreChunk is how many hidden rows are.
	scoreChunk = 512
)

// Score runs ids through an empty session and measures each of them.
func (s *Session) Score(ctx context.Context, ids []int32) (Score, error) {
	if err := s.accepts(Request{Prompt: ids, TopLogprobs: -1}); err != nil {
		return Score{}, err
	}
	out := Score{Logprobs: make([]float64, len(ids))}
	_, err := s.eachLogits(ctx, ids, func(i int, logits []float32) {
		if i+1 < len(ids) {
			out.Logprobs[i+1] = sample.Logprobs(logits, ids[i+1], 0).Logprob
		} else {
			out.Next = append([]float32(nil), logits...)
		}
	})
	if err != nil {
		return Score{}, err
	}
	return out, nil
}

// eachLogits runs ids through an empty session and shows the logits after each of them, in
// bounded memory however many there are. It returns the hidden row of the last one, which the
// next advance overwrites. On an error the session is empty again.
func (s *Session) eachLogits(ctx context.Context, ids []int32, visit func(i int, logits []float32)) (last []float32, err error) {
	if n := s.Position(); n > 0 {
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "scoring needs an empty session, this one is at position %d", n)
	}
	hidden, vocab := s.e.cfg.Manifest.Hidden, s.e.cfg.Vocab
	logits := make([]float32, scoreRows*vocab)
	defer func() {
		if err != nil {
			s.mu.Lock()
			s.cut(0)
			s.mu.Unlock()
		}
	}()
	for from := 0; from < len(ids); from += scoreChunk {
		to := min(from+scoreChunk, len(ids))
		rows, err := s.advance(ctx, ids[from:to], 0)
		if err != nil {
			return nil, err
		}
		for at := from; at < to; at += scoreRows {
			if err := s.ended(ctx); err != nil {
				return nil, err
			}
			n := min(scoreRows, to-at)
			if err := s.e.cfg.Head.Logits(logits[:n*vocab], rows[(at-from)*hidden:(at-from+n)*hidden], n, s.opt.Activations); err != nil {
				return nil, err
			}
			for i := range n {
				visit(at+i, logits[i*vocab:(i+1)*vocab])
			}
		}
		last = rows[(to-from-1)*hidden:]
	}
	return last, nil
}
