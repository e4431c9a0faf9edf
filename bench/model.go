package bench

import (
	"fmt"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// Model is a model on a device, ready to be measured.
type Model struct {
	Name   string
	Format tensor.DType // of the blocks' matrices
	Config model.Config
	Blocks []*nn.Block
	Head   *model.Head
	// BlockBytes is the size of all blocks in the model's own format.
	BlockBytes int64
	// KV is the type of the KV cache.
	KV tensor.DType
	// SessionRope is the rotation of sequences of at most length positions, where that
	// depends on it; nil for shapes.
	SessionRope func(dev tensor.Device, length int) (tensor.Rope, error)
}

// StepBytes is what one step reads of the weights, in the model's own format.
func (m *Model) StepBytes() int64 {
	lm := m.Head.LM()
	return m.BlockBytes + 4*int64(m.Config.Hidden) + matrixBytes(lm.DType(), lm.Rows(), lm.Cols())
}

// PrefillOps is what a prompt costs in products with weights: two operations for each
// weight of a block and row, and for the LM head once.
func (m *Model) PrefillOps(rows int) float64 {
	var weights int64
	for _, need := range m.Config.Block(0).Needs() {
		if !need.Vector() {
			weights += need.Values()
		}
	}
	return 2 * (float64(weights)*float64(m.Config.Layers)*float64(rows) + float64(m.Config.Vocab)*float64(m.Config.Hidden))
}

// maxRows is how many rows a step has at most, as in a server with its defaults.
const maxRows = 512

// runner drives a model through prefills and decode steps. It belongs to one goroutine.
type runner struct {
	*Model
	dev    tensor.Device
	ws     *nn.Workspace
	kv     tensor.KV
	seqs   []tensor.KVView
	batch  tensor.Batch
	ids    []int32
	rows   []float32 // [step rows][hidden]
	logits []float32 // [sequences][vocab]
}

// newRunner reserves cache for a number of sequences of up to length positions.
func newRunner(dev tensor.Device, m *Model, seqs, length int) (*runner, error) {
	r := &runner{Model: m, dev: dev}
	rows := max(seqs, min(length, maxRows))
	var err error
	if r.ws, err = m.Config.NewWorkspace(dev, rows); err != nil {
		return nil, err
	}
	var rope tensor.Rope
	if m.SessionRope != nil {
		if rope, err = m.SessionRope(dev, length); err != nil {
			return nil, err
		}
	}
	pages := (length + tensor.PageTokens - 1) / tensor.PageTokens
	if r.kv, err = dev.NewKV(m.Config.KVSpec(m.Config.Layers, seqs*pages, m.KV)); err != nil {
		return nil, fmt.Errorf("cache of %d sequences of %d: %w", seqs, length, err)
	}
	for s := range seqs {
		view := tensor.KVView{Rope: rope}
		for p := range pages {
			view.Pages = append(view.Pages, int32(s*pages+p))
		}
		r.seqs = append(r.seqs, view)
	}
	r.ids = make([]int32, rows)
	r.rows = make([]float32, rows*m.Config.Hidden)
	r.logits = make([]float32, seqs*m.Config.Vocab)
	return r, nil
}

// step computes the batch in r.batch with any ids, and leaves its rows in r.rows.
func (r *runner) step() error {
	for i, row := range r.batch.Rows {
		// What matters is that steps differ as little as real ones.
		r.ids[i] = int32((int(row.Pos)*31 + int(row.Seq)*7 + 1) % r.Config.Vocab)
	}
	return r.forward(tensor.Mode{})
}

// forward computes the batch in r.batch with r.ids, and leaves its rows in r.rows.
func (r *runner) forward(mode tensor.Mode) error {
	n := len(r.batch.Rows)
	rows := r.rows[:n*r.Config.Hidden]
	if err := r.Head.Embed(rows, r.ids[:n]); err != nil {
		return err
	}
	r.dev.Upload(r.ws.X, 0, rows)
	round := func() {
		if mode.Residual == tensor.ResidualBF16 {
			r.dev.Round(r.ws.X, n)
		}
	}
	round()
	for i, b := range r.Blocks {
		b.Forward(r.ws, &r.batch, r.ws.X, r.kv, i, mode.Act)
		round()
	}
	r.dev.Download(rows, r.ws.X, 0)
	return r.dev.Sync()
}

// prefill computes a prompt of n positions of one sequence, and the logits of its last.
func (r *runner) prefill(seq, n int) error {
	h, last := r.Config.Hidden, 0
	for at := 0; at < n; at += last {
		last = min(n-at, r.ws.MaxRows)
		r.batch.Seqs, r.batch.Rows = r.seqs[seq:seq+1], r.batch.Rows[:0]
		for i := range last {
			r.batch.Rows = append(r.batch.Rows, tensor.Row{Pos: int32(at + i)})
		}
		if err := r.step(); err != nil {
			return err
		}
	}
	return r.Head.Logits(r.logits[:r.Config.Vocab], r.rows[(last-1)*h:last*h], 1, tensor.Act8)
}

// decode computes one token of each of the first n sequences, all at the same position.
func (r *runner) decode(n, pos int) error {
	r.batch.Seqs, r.batch.Rows = r.seqs[:n], r.batch.Rows[:0]
	for s := range n {
		r.batch.Rows = append(r.batch.Rows, tensor.Row{Seq: int32(s), Pos: int32(pos)})
	}
	if err := r.step(); err != nil {
		return err
	}
	return r.Head.Logits(r.logits[:n*r.Config.Vocab], r.rows[:n*r.Config.Hidden], n, tensor.Act8)
}
