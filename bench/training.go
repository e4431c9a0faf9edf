package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"whorl/model/nn"
	"whorl/tensor"
)

// TrainingOptions say what to measure of training.
type TrainingOptions struct {
	Formats []tensor.DType
	Rows    int // of one sequence
	Repeat  int
	Slice   time.Duration
}

// Training is what a block of a shape reached going forward, and forward and backward. Rates are
// tokens a second through one block.
type Training struct {
	Format       string  `json:"format"`
	ForwardTokS  float64 `json:"forward_tok_s"`
	BackwardTokS float64 `json:"backward_tok_s"`
	BothTokS     float64 `json:"both_tok_s"`
	// Of the float dot products of the machine: going forward once, and both, which counts as
	// three times a forward's products. Nil: there is no such ceiling.
	ForwardShare *float64 `json:"forward_share"`
	BothShare    *float64 `json:"both_share"`
}

// passes are how many times the products of a forward pass, forward and backward count: once
// forward, once again for what going backward needs of it, once transposed.
const passes = 3

// trainingPiece is how many rows go forward at once, as where training is served.
const trainingPiece = 256

// MeasureTraining measures a block of random weights in each format. It calls report after
// each.
func MeasureTraining(ctx context.Context, dev tensor.Device, c Ceiling, shape string, o TrainingOptions, report func(Training)) error {
	cfg, err := ShapeOf(shape)
	if err != nil {
		return err
	}
	if o.Rows < 1 || o.Rows > cfg.MaxPositions {
		return fmt.Errorf("a sequence of %d rows: want 1 to %d", o.Rows, cfg.MaxPositions)
	}
	rope, err := dev.NewRope(cfg.Rope.Spec(cfg.HeadDim))
	if err != nil {
		return err
	}
	for _, f := range o.Formats {
		r, err := newRandom(dev, f)
		if err != nil {
			return err
		}
		block, err := r.block(cfg.Block(0), rope)
		if err != nil {
			return err
		}
		t, err := training(ctx, dev, c, block, o)
		if err != nil {
			return fmt.Errorf("%v: %w", f, err)
		}
		t.Format = f.String()
		report(t)
	}
	return nil
}

// training measures one block.
func training(ctx context.Context, dev tensor.Device, c Ceiling, block *nn.Block, o TrainingOptions) (Training, error) {
	s, n := block.Spec(), o.Rows
	ws, err := nn.NewWorkspace(dev, min(n, trainingPiece), s)
	if err != nil {
		return Training{}, err
	}
	back, err := nn.NewBackSpace(dev, n, s)
	if err != nil {
		return Training{}, err
	}
	view := tensor.KVView{}
	for p := range (n + tensor.PageTokens - 1) / tensor.PageTokens {
		view.Pages = append(view.Pages, int32(p))
	}
	kv, err := dev.NewKV(tensor.KVSpec{Layers: 1, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Pages: len(view.Pages)})
	if err != nil {
		return Training{}, err
	}
	b := tensor.Batch{Seqs: []tensor.KVView{view}}
	for pos := range n {
		b.Rows = append(b.Rows, tensor.Row{Pos: int32(pos)})
	}
	x := make([]float32, n*s.Hidden)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	forward := func() (float64, error) {
		for at := 0; at < n; at += ws.MaxRows {
			rows := min(ws.MaxRows, n-at)
			dev.Upload(ws.X, 0, x[at*s.Hidden:(at+rows)*s.Hidden])
			block.Forward(ws, &tensor.Batch{Rows: b.Rows[at : at+rows], Seqs: b.Seqs}, ws.X, kv, 0, tensor.ActF32)
		}
		return float64(n), dev.Sync()
	}
	backward := func() (float64, error) {
		dev.Upload(back.X, 0, x)
		dev.Upload(back.D, 0, x)
		block.Backward(back, &b, kv, nil)
		return float64(n), dev.Sync()
	}
	dots := func() (float64, error) { return float64(c.Dot(tensor.F32)), nil }
	for _, once := range []Slice{forward, backward} { // memory is in use from then on
		if _, err := once(); err != nil {
			return Training{}, err
		}
	}
	rates, err := Alternate(ctx, o.Repeat, o.Slice, forward, backward, dots)
	if err != nil {
		return Training{}, err
	}
	var ops float64 // of a row
	for _, need := range s.Needs() {
		if !need.Vector() {
			ops += 2 * float64(need.Values())
		}
	}
	both := make([]float64, o.Repeat)
	for i := range both {
		both[i] = 1 / (1/rates[0][i] + 1/rates[1][i])
	}
	return Training{
		ForwardTokS: Median(rates[0]), BackwardTokS: Median(rates[1]), BothTokS: Median(both),
		ForwardShare: shareOf(rates[0], rates[2], ops), BothShare: shareOf(both, rates[2], passes*ops),
	}, nil
}

// shareOf is that of rates of rows, ops each, in a ceiling; nil if there is none.
func shareOf(rates, ceiling []float64, ops float64) *float64 {
	all := make([]float64, len(rates))
	for i, r := range rates {
		all[i] = r * ops
	}
	share, err := Share(all, ceiling)
	if err != nil {
		return nil
	}
	return &share
}
