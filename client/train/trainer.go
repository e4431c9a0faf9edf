package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"whorl/client"
	"whorl/tensor"
)

// Head is the part of a model outside of its blocks. *model.Head is one.
type Head interface {
	Embedder
	// Logits writes [n][vocab] from rows of the last block.
	Logits(dst, rows []float32, n int, mode tensor.Activations) error
	// Backward gives the gradients by rows from those by their logits under tensor.ActF32.
	Backward(dst, rows, dlogits []float32) error
	// Normed applies the final norm, NormedBackward gives the gradients by rows from those behind it.
	Normed(dst, rows []float32) error
	NormedBackward(dst, rows, dnormed []float32) error
}

// Blocks computes batches through all blocks of the model.
type Blocks interface {
	Forward(ctx context.Context, b *client.Batch) (Forwarded, error)
}

// Forwarded is a batch that went forward: its rows, and the way back.
type Forwarded interface {
	Rows() []float32
	Backward(ctx context.Context, grads []float32) (rows, prompts []float32, err error)
}

// Remote makes Blocks of those of a swarm.
func Remote(r *client.Remote) Blocks { return remote{r} }

type remote struct{ *client.Remote }

func (r remote) Forward(ctx context.Context, b *client.Batch) (Forwarded, error) {
	f, err := r.Remote.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	return forwarded{f}, nil
}

type forwarded struct{ *client.Forwarded }

func (f forwarded) Rows() []float32 { return f.Outputs }

// Options say how tables are trained.
type Options struct {
	Task       Task     `json:"task"`
	Labels     []string `json:"labels,omitempty"` // of a classifier
	Tokens     int      `json:"prompt_tokens"`
	Deep       bool     `json:"deep,omitempty"`
	Epochs     int      `json:"epochs"`
	Rate       float64  `json:"learning_rate"`
	Batch      int      `json:"batch"`      // examples at once
	Accumulate int      `json:"accumulate"` // batches per step
	Warmup     int      `json:"warmup"`     // steps
	Schedule   Schedule `json:"schedule"`
	Decay      float64  `json:"weight_decay"`
	Clip       float64  `json:"clip"` // of the norm of all gradients; 0: none
	Seed       uint64   `json:"seed"`
}

// maxCount bounds epochs, batches and what is like them: beyond it a typing error is likelier than a plan,
// and products of two overflow nothing.
const maxCount = 1 << 20

// ErrDiverged tells that a step would leave numbers that are none.
var ErrDiverged = errors.New("training has diverged")

// Validate refuses what cannot be trained with.
func (o *Options) Validate() error {
	switch {
	case o.Task != Causal && o.Task != Classify:
		return fmt.Errorf("the task %q: want causal or classify", o.Task)
	case o.Task == Classify && len(o.Labels) < 2:
		return fmt.Errorf("%d labels: want at least 2", len(o.Labels))
	case o.Tokens < 1 || o.Tokens > 1024:
		return fmt.Errorf("%d prompt tokens: want 1 to 1024", o.Tokens)
	case min(o.Epochs, o.Batch, o.Accumulate, o.Warmup+1) < 1 || max(o.Epochs, o.Batch, o.Accumulate, o.Warmup) > maxCount:
		return fmt.Errorf("%d epochs, batches of %d, %d per step, %d steps of warm-up: want 1 (0 for the warm-up) to %d", o.Epochs, o.Batch, o.Accumulate, o.Warmup, maxCount)
	case !(o.Rate > 0 && o.Rate <= 1e3) || !(o.Decay >= 0 && o.Decay*o.Rate < 1) || !(o.Clip >= 0):
		return fmt.Errorf("learning rate %v, weight decay %v, clip %v: want a rate above 0, a decay of less than 1/rate, and none below 0", o.Rate, o.Decay, o.Clip)
	case o.Schedule != Constant && o.Schedule != Linear && o.Schedule != Cosine:
		return fmt.Errorf("the schedule %q: want linear, cosine or constant", o.Schedule)
	}
	return nil
}

// Trainer trains tables on examples. One goroutine uses it.
type Trainer struct {
	opt      Options
	head     Head
	blocks   Blocks
	vocab    int
	tables   *Tables
	adam     *Optimizer
	examples []Example
	done     int // steps
	epochs   []Sum

	grads   Tables
	scratch []float64
}

// New makes a trainer that begins with tables.
func New(o Options, head Head, blocks Blocks, vocab int, t *Tables, examples []Example) (*Trainer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("there are no examples")
	}
	r := &Trainer{opt: o, head: head, blocks: blocks, vocab: vocab, tables: t, adam: NewOptimizer(o.Decay), examples: examples}
	r.grads = Tables{Shallow: make([]float32, len(t.Shallow)), Deep: make([]float32, len(t.Deep)), Score: make([]float32, len(t.Score))}
	r.scratch = make([]float64, max(vocab, len(o.Labels)))
	return r, nil
}

// Tables are those that are trained, as they stand.
func (t *Trainer) Tables() *Tables { return t.tables }

// PerEpoch is how many steps an epoch has.
func (t *Trainer) PerEpoch() int {
	n := t.opt.Batch * t.opt.Accumulate
	return (len(t.examples) + n - 1) / n
}

// Steps is how many there are in all, Done how many of them were made.
func (t *Trainer) Steps() int { return t.PerEpoch() * t.opt.Epochs }

// Done is how many steps were made.
func (t *Trainer) Done() int { return t.done }

// Epochs are what came of the epochs so far, the present one included, also of those before a
// checkpoint that was gone on from.
func (t *Trainer) Epochs() []Sum { return slices.Clone(t.epochs) }

// Sum is what came of some examples.
type Sum struct {
	Loss     float64 `json:"loss"`  // of all that was learnt, added up, in nats
	Count    int     `json:"count"` // of ids, or of classified examples
	Right    int     `json:"right"` // examples of which all ids, or whose label, had the highest score
	Examples int     `json:"examples"`
	Rows     int     `json:"rows"` // that went through the blocks
}

// Mean is the loss per id or example.
func (s *Sum) Mean() float64 { return s.Loss / float64(max(1, s.Count)) }

// Accuracy is the share of examples that are right.
func (s *Sum) Accuracy() float64 { return float64(s.Right) / float64(max(1, s.Examples)) }

func (s *Sum) add(o Sum) {
	s.Loss += o.Loss
	s.Count += o.Count
	s.Right += o.Right
	s.Examples += o.Examples
	s.Rows += o.Rows
}

// Report is what a step was.
type Report struct {
	Sum
	Step  int     // counted from 1
	Epoch int     // likewise
	Rate  float64 // of learning
	Norm  float64 // of the gradients, before they were clipped
}

// Step learns from the next examples. After an error the trainer is as it was before.
func (t *Trainer) Step(ctx context.Context) (Report, error) {
	per := t.PerEpoch()
	epoch := t.done / per
	order := Order(len(t.examples), t.opt.Seed, epoch)
	first := t.done % per * t.opt.Batch * t.opt.Accumulate
	order = order[first:min(len(order), first+t.opt.Batch*t.opt.Accumulate)]
	for _, g := range [][]float32{t.grads.Shallow, t.grads.Deep, t.grads.Score} {
		clear(g)
	}
	r := Report{Step: t.done + 1, Epoch: epoch + 1}
	for len(order) > 0 {
		n := min(len(order), t.opt.Batch)
		batch := make([]Example, n)
		for i, at := range order[:n] {
			batch[i] = t.examples[at]
		}
		order = order[n:]
		sum, err := t.run(ctx, batch, true)
		if err != nil {
			return r, err
		}
		r.add(sum)
	}
	_, grads := t.grads.parameters()
	_, params := t.tables.parameters()
	mean := float32(1 / float64(max(1, r.Count)))
	for _, g := range grads {
		for i := range g {
			g[i] *= mean
		}
	}
	r.Norm = Clip(grads, t.opt.Clip)
	if !finite(r.Norm) || !finite(r.Loss) {
		return r, fmt.Errorf("%w: in step %d the loss is %v and the norm of its gradients %v; a lower --lr or --clip may help, from the last checkpoint or with --fresh", ErrDiverged, r.Step, r.Mean(), r.Norm)
	}
	r.Rate = t.opt.Schedule.Rate(t.opt.Rate, t.done, t.opt.Warmup, t.Steps())
	t.adam.Step(params, grads, r.Rate)
	t.done++
	if len(t.epochs) == epoch {
		t.epochs = append(t.epochs, Sum{})
	}
	t.epochs[epoch].add(r.Sum)
	return r, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Evaluate computes what the tables make of examples, and changes nothing. tell, if not nil, hears
// of what came of them so far.
func (t *Trainer) Evaluate(ctx context.Context, examples []Example, tell func(Sum)) (Sum, error) {
	var all Sum
	for len(examples) > 0 {
		n := min(len(examples), t.opt.Batch)
		sum, err := t.run(ctx, examples[:n], false)
		if err != nil {
			return all, err
		}
		all.add(sum)
		examples = examples[n:]
		if tell != nil {
			tell(all)
		}
	}
	return all, nil
}

// run computes a batch, and with learn adds its gradients, example by example.
func (t *Trainer) run(ctx context.Context, examples []Example, learn bool) (Sum, error) {
	p, h := t.tables.Tokens, t.tables.Hidden
	b, err := t.tables.batch(t.head, len(examples), func(i int) []int32 { return examples[i].IDs })
	if err != nil {
		return Sum{}, err
	}
	sum := Sum{Examples: len(examples), Rows: len(b.Rows) / h}
	f, err := t.blocks.Forward(ctx, b)
	if err != nil {
		return sum, err
	}
	var grads []float32
	if learn {
		grads = make([]float32, len(b.Rows))
	}
	if t.opt.Task == Classify {
		err = t.classify(examples, b, f.Rows(), grads, &sum)
	} else {
		err = t.causal(examples, b, f.Rows(), grads, &sum)
	}
	if err != nil || !learn {
		return sum, err
	}
	rows, prompts, err := f.Backward(ctx, grads)
	if err != nil {
		return sum, err
	}
	at := 0
	for i := range examples {
		add(t.grads.Shallow, rows[at*h:(at+p)*h])
		at += b.Lengths[i]
	}
	for block := range t.tables.Blocks {
		for i := range examples {
			from := (block*len(examples) + i) * p * h
			add(t.grads.Deep[block*p*h:(block+1)*p*h], prompts[from:from+p*h])
		}
	}
	return sum, nil
}

func add(to, values []float32) {
	for i, v := range values {
		to[i] += v
	}
}

// headRows is how many rows' logits are computed at once.
const headRows = 64

// causal adds up the losses of ids, each told by the row before it, and with grads finds the
// gradients by rows.
func (t *Trainer) causal(examples []Example, b *client.Batch, rows, grads []float32, sum *Sum) error {
	p, h := t.tables.Tokens, t.tables.Hidden
	type told struct {
		row, example int
		id           int32
	}
	var all []told
	at := 0
	for i, e := range examples {
		for j := e.From; j < len(e.IDs); j++ {
			all = append(all, told{at + p + j - 1, i, e.IDs[j]})
		}
		at += b.Lengths[i]
	}
	wrong := make([]bool, len(examples))
	in, back := make([]float32, headRows*h), make([]float32, headRows*h)
	logits := make([]float32, headRows*t.vocab)
	for len(all) > 0 {
		n := min(len(all), headRows)
		for i, w := range all[:n] {
			copy(in[i*h:], rows[w.row*h:(w.row+1)*h])
		}
		if err := t.head.Logits(logits[:n*t.vocab], in[:n*h], n, tensor.ActF32); err != nil {
			return err
		}
		for i, w := range all[:n] {
			loss, best := CrossEntropy(logits[i*t.vocab:(i+1)*t.vocab], int(w.id), t.scratch)
			sum.Loss += loss
			sum.Count++
			wrong[w.example] = wrong[w.example] || !best
		}
		if grads != nil {
			if err := t.head.Backward(back[:n*h], in[:n*h], logits[:n*t.vocab]); err != nil {
				return err
			}
			for i, w := range all[:n] {
				copy(grads[w.row*h:], back[i*h:(i+1)*h])
			}
		}
		all = all[n:]
	}
	for _, w := range wrong {
		if !w {
			sum.Right++
		}
	}
	return nil
}

// classify adds up the losses of labels, each told by the last row, and with grads finds the
// gradients by rows and by the classifier.
func (t *Trainer) classify(examples []Example, b *client.Batch, rows, grads []float32, sum *Sum) error {
	h, labels := t.tables.Hidden, len(t.opt.Labels)
	last, normed, err := t.tables.last(t.head, b, rows)
	if err != nil {
		return err
	}
	back := make([]float32, len(last))
	for i, e := range examples {
		row := normed[i*h : (i+1)*h]
		logits := t.tables.Scores(row)
		loss, best := CrossEntropy(logits, e.Label, t.scratch)
		sum.Loss += loss
		sum.Count++
		if best {
			sum.Right++
		}
		if grads == nil {
			continue
		}
		for l := range labels {
			weights, d := t.tables.Score[l*h:(l+1)*h], logits[l]
			for c := range row {
				t.grads.Score[l*h+c] += float32(d * row[c])
				back[i*h+c] += float32(d * weights[c])
			}
		}
	}
	if grads == nil {
		return nil
	}
	if err := t.head.NormedBackward(back, last, back); err != nil {
		return err
	}
	at := 0
	for i := range examples {
		at += b.Lengths[i]
		copy(grads[(at-1)*h:], back[i*h:(i+1)*h])
	}
	return nil
}

// Scores are the classifier's logits of a row behind the final norm: float64 sums in order.
func (t *Tables) Scores(row []float32) []float32 {
	out := make([]float32, len(t.Score)/t.Hidden)
	for l := range out {
		sum := 0.0
		for c, w := range t.Score[l*t.Hidden : (l+1)*t.Hidden] {
			sum += float64(w) * float64(row[c])
		}
		out[l] = float32(sum)
	}
	return out
}
