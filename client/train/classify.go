package train

import (
	"context"

	"whorl/client"
	"whorl/client/sample"
)

// batch is texts in ids behind the tables' prompts.
func (t *Tables) batch(head Embedder, n int, ids func(i int) []int32) (*client.Batch, error) {
	b := &client.Batch{Lengths: make([]int, n)}
	for i := range n {
		text := ids(i)
		b.Lengths[i] = t.Tokens + len(text)
		b.Rows = append(b.Rows, t.Shallow...)
		at := len(b.Rows)
		b.Rows = append(b.Rows, make([]float32, len(text)*t.Hidden)...)
		if err := head.Embed(b.Rows[at:], text); err != nil {
			return nil, err
		}
	}
	if t.Blocks > 0 {
		b.Prompt, b.Prompts, b.Shared = t.Tokens, t.Deep, true
	}
	return b, nil
}

// last are the rows behind the final norm at the end of each text.
func (t *Tables) last(head Head, b *client.Batch, rows []float32) (before, normed []float32, err error) {
	at := 0
	for _, n := range b.Lengths {
		at += n
		before = append(before, rows[(at-1)*t.Hidden:at*t.Hidden]...)
	}
	normed = make([]float32, len(before))
	return before, normed, head.Normed(normed, before)
}

// Classify tells for each text how likely each label is, in the order of the labels. A text has at
// least one id.
func (t *Tables) Classify(ctx context.Context, head Head, blocks Blocks, texts [][]int32) ([][]float64, error) {
	b, err := t.batch(head, len(texts), func(i int) []int32 { return texts[i] })
	if err != nil {
		return nil, err
	}
	f, err := blocks.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	_, normed, err := t.last(head, b, f.Rows())
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(texts))
	for i := range texts {
		out[i] = softmax(t.Scores(normed[i*t.Hidden : (i+1)*t.Hidden]))
	}
	return out, nil
}

// softmax makes shares of logits, by the exponentials of package sample.
func softmax(logits []float32) []float64 {
	top := logits[0]
	for _, v := range logits {
		top = max(top, v)
	}
	out, sum := make([]float64, len(logits)), 0.0
	for i, v := range logits {
		out[i] = float64(v) - float64(top)
	}
	sample.Exp(out)
	for _, v := range out {
		sum += v
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}
