package client

import (
	"context"
	"slices"

	"whorl/swarm"
)

// normer is a head that has the model's last norm.
type normer interface {
	Norm(rows []float32, n int) error
}

// Mean runs ids through a session of their own and returns the mean of the hidden states behind
// the last block and its norm, [hidden]. Sums are of float64, in the order of the ids.
func (e *Engine) Mean(ctx context.Context, ids []int32) ([]float32, error) {
	norm, ok := e.cfg.Head.(normer)
	if !ok {
		return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "the head of %s has no norm: its hidden states cannot be had", e.cfg.Manifest.Name)
	}
	s, err := e.Open(ctx, SessionOptions{MaxLength: max(1, len(ids))})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.accepts(Request{Prompt: ids, TopLogprobs: -1}); err != nil {
		return nil, err
	}
	hidden := e.cfg.Manifest.Hidden
	sums := make([]float64, hidden)
	for from := 0; from < len(ids); from += scoreChunk {
		to := min(from+scoreChunk, len(ids))
		rows, err := s.advance(ctx, ids[from:to], 0)
		if err != nil {
			return nil, err
		}
		rows = slices.Clone(rows) // the session goes on with its own
		if err := norm.Norm(rows, to-from); err != nil {
			return nil, err
		}
		for i, x := range rows {
			sums[i%hidden] += float64(x)
		}
	}
	s.mu.Lock()
	s.served()
	s.mu.Unlock()
	out := make([]float32, hidden)
	for i, sum := range sums {
		out[i] = float32(sum / float64(len(ids)))
	}
	return out, nil
}
