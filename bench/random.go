package bench

import (
	"fmt"
	"math/rand/v2"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
	"whorl/tensor/quant"
)

// tileValues is how many random values are packed; matrices repeat them. It is a multiple
// of every group, and odd beyond that, so that rows differ.
const tileValues = 256 * 251

// random makes matrices of one format out of one packed tile. Its memory is that of the
// largest matrix: devices keep a copy of their own.
type random struct {
	dev    tensor.Device
	format tensor.DType
	tile   []byte
	data   []byte
}

// CanMake tells whether random weights can be made in a format: some are only read.
func CanMake(format tensor.DType) bool {
	f, ok := quant.Of(format)
	return ok && f.Pack != nil
}

func newRandom(dev tensor.Device, format tensor.DType) (*random, error) {
	if !CanMake(format) {
		return nil, fmt.Errorf("random weights in the format %v: this program only reads it", format)
	}
	f, _ := quant.Of(format)
	src := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, tileValues)
	for i := range values {
		values[i] = float32(src.NormFloat64()) * 0.02
	}
	r := &random{dev: dev, format: format, tile: make([]byte, f.Head+tileValues/f.Group*f.Bytes)}
	f.Pack(r.tile, values)
	if f.Finish != nil {
		f.Finish(r.tile)
	}
	return r, nil
}

func (r *random) matrix(rows, cols int) (tensor.Weight, error) {
	row, err := quant.RowBytes(r.format, cols)
	if err != nil {
		return nil, err
	}
	n := rows * row
	f, _ := quant.Of(r.format)
	switch {
	case f.Head > 0: // every row begins with the tile's head, wherever rows end
		if n > len(r.data) {
			r.data = make([]byte, n)
		}
		for i := 0; i < n; i += row {
			repeat(r.data[i:i+f.Head], r.tile[:f.Head])
			repeat(r.data[i+f.Head:i+row], r.tile[f.Head:])
		}
	case n > len(r.data):
		r.data = make([]byte, n)
		repeat(r.data, r.tile)
	}
	return r.dev.Load(tensor.Matrix{DType: r.format, Rows: rows, Cols: cols, Data: r.data[:n]})
}

// repeat fills dst with src, over and over.
func repeat(dst, src []byte) {
	for len(dst) > 0 {
		dst = dst[copy(dst, src):]
	}
}

// ones is the gain of a norm.
func (r *random) ones(n int) (tensor.Vector, error) {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return r.dev.LoadVector(v)
}

// Random makes a model of random weights on a device. The weights are the same each time;
// they say nothing of quality. All matrices have the one format, the LM head too.
func Random(dev tensor.Device, name string, cfg model.Config, format tensor.DType) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r, err := newRandom(dev, format)
	if err != nil {
		return nil, err
	}
	rope, err := dev.NewRope(cfg.Rope.Spec(cfg.HeadDim))
	if err != nil {
		return nil, err
	}
	// The largest matrix first: its memory serves the others.
	head, err := r.head(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the head of shape %s: %w", name, err)
	}
	blocks := make([]*nn.Block, cfg.Layers)
	for i := range blocks {
		if blocks[i], err = r.block(cfg.Block(i), rope); err != nil {
			return nil, fmt.Errorf("make block %d of shape %s: %w", i, name, err)
		}
	}
	var bytes int64
	for i := range blocks {
		bytes += blockBytes(cfg.Block(i), format)
	}
	return &Model{Name: name, Format: format, Config: cfg, Blocks: blocks, Head: head, BlockBytes: bytes}, nil
}

func (r *random) block(s nn.Spec, rope tensor.Rope) (*nn.Block, error) {
	var p nn.Params
	var err error
	for _, need := range s.Needs() {
		if need.Vector() {
			var v tensor.Vector
			v, err = r.ones(need.Cols)
			p.SetVector(need, v)
		} else {
			var w tensor.Weight
			w, err = r.matrix(need.Rows, need.Cols)
			p.SetMatrix(s, need, w)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", need.Param, err)
		}
	}
	return nn.NewBlock(r.dev, s, rope, p)
}

func (r *random) head(c model.Config) (*model.Head, error) {
	gain, err := r.ones(c.Hidden)
	if err != nil {
		return nil, err
	}
	table, err := r.matrix(c.Vocab, c.Hidden)
	if err != nil {
		return nil, err
	}
	lm := table
	if !c.Tied {
		if lm, err = r.matrix(c.Vocab, c.Hidden); err != nil {
			return nil, err
		}
	}
	return model.NewHead(r.dev, model.HeadParams{Norm: tensor.NormSpec{Gain: gain, Eps: c.NormEps}, Table: table, LM: lm})
}

// blockBytes is the size of a block whose matrices have one format.
func blockBytes(s nn.Spec, format tensor.DType) int64 {
	var sum int64
	for _, need := range s.Needs() {
		if need.Vector() {
			sum += 4 * int64(need.Cols)
		} else {
			sum += matrixBytes(format, need.Rows, need.Cols)
		}
	}
	return sum
}

// matrixBytes is the size of a matrix as it lies in a file; Load has checked its format and
// width.
func matrixBytes(format tensor.DType, rows, cols int) int64 {
	row, _ := quant.RowBytes(format, cols)
	return int64(rows) * int64(row)
}
