package client

import (
	"context"
	"strings"

	"whorl/client/sample"
)

// echo tells the prompt, with the log-probabilities of its ids or without.
func (t *turn) echo(lps []Logprob) error {
	e := &Echo{Logprobs: lps}
	if tok := t.text.tok; tok != nil {
		var text strings.Builder
		stream := tok.NewStream(!t.r.Special)
		for i, id := range t.r.Prompt {
			if lps != nil {
				lps[i].Offset = stream.Start(id)
			}
			text.WriteString(stream.Push(id))
		}
		text.WriteString(stream.Flush())
		e.Text = text.String()
	}
	t.res.Echo = e
	if t.emit == nil {
		return nil
	}
	return t.emit(Delta{Text: e.Text, Logprobs: lps, Echo: true})
}

// scored computes the prompt and tells it with its log-probabilities. It returns the hidden row
// of the last position, nil if no token is asked for.
func (t *turn) scored(ctx context.Context) ([]float32, error) {
	ids := t.r.Prompt
	lps := make([]Logprob, len(ids))
	lps[0].ID = ids[0]
	row, err := t.s.eachLogits(ctx, ids, func(i int, logits []float32) {
		if i+1 < len(ids) {
			lp := sample.Logprobs(logits, ids[i+1], t.r.TopLogprobs)
			lps[i+1] = Logprob{ID: lp.ID, Logprob: lp.Logprob, Top: lp.Top}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := t.echo(lps); err != nil || t.r.MaxNewTokens == 0 {
		return nil, err
	}
	return row, nil
}
