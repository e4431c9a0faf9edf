package model

import (
	"fmt"
	"slices"

	"whorl/model/nn"
	"whorl/model/weights"
	"whorl/tensor"
)

// Fused says that several parameters lie in one tensor of a block.
type Fused struct {
	Tensor string // what follows the block's prefix, as in Names.Param
	Params []nn.Param
	// ByHead: the rows of Q, K and V of one key/value head lie together (the queries
	// that read it first). Otherwise one parameter's rows follow another's.
	ByHead bool
}

// source says where the values of a need lie in a file.
type source struct {
	name  string // of the tensor, ending in ".weight" or ".bias"
	shape []int  // that the tensor must have
	runs  []run  // of rows (elements, for vectors), in the order of the graph; nil: all
}

type run struct{ from, n int }

// source finds a need of a block of spec s. The name begins after the block's prefix.
func (n Names) source(s nn.Spec, need nn.Need) source {
	shape := []int{need.Rows, need.Cols}
	if need.Vector() {
		shape = shape[1:]
	}
	end := ".weight"
	if need.Bias {
		end = ".bias"
	}
	if s.Experts > 0 && !need.Vector() {
		if stack := n.ExpertStack[need.Param]; stack != "" {
			return source{stack + end, append([]int{s.Experts}, shape...), []run{{need.Expert * need.Rows, need.Rows}}}
		}
		if format := n.Expert[need.Param]; format != "" {
			return source{name: fmt.Sprintf(format, need.Expert) + end, shape: shape}
		}
	}
	for _, f := range n.Fused {
		// A norm that shares a parameter's name is never fused.
		if slices.Contains(f.Params, need.Param) {
			rows, runs := f.runs(s, need.Param)
			shape[0] = rows
			return source{f.Tensor + end, shape, runs}
		}
	}
	name := n.Param[need.Param]
	if beside := n.Beside[need.Param]; beside != "" && s.Parallel && !s.OneNorm {
		name = beside
	}
	return source{name: name + end, shape: shape}
}

// runs gives the rows of the whole tensor, and which of them are a parameter's.
func (f Fused) runs(s nn.Spec, p nn.Param) (rows int, runs []run) {
	if !f.ByHead {
		for _, q := range f.Params {
			n := s.Outputs(q)
			if q == p {
				runs = []run{{rows, n}}
			}
			rows += n
		}
		return rows, runs
	}
	queries := s.Heads / s.KVHeads * s.HeadDim
	stride := queries + 2*s.HeadDim
	for h := range s.KVHeads {
		at := h * stride
		switch p {
		case nn.Q:
			runs = append(runs, run{at, queries})
		case nn.K:
			runs = append(runs, run{at + queries, s.HeadDim})
		default:
			runs = append(runs, run{at + queries + s.HeadDim, s.HeadDim})
		}
	}
	return s.KVHeads * stride, runs
}

// source finds a need of block i.
func (c *Checkpoint) source(i int, need nn.Need) source {
	src := c.names.source(c.Config.Block(i), need)
	src.name = c.prefix.Body + fmt.Sprintf(c.names.Block, i) + src.name
	return src
}

// pick gives the bytes of a source's rows: a view where they lie together, else a copy.
func (src source) pick(t weights.Tensor) []byte {
	if src.runs == nil {
		return t.Data
	}
	rows := 1
	for _, d := range t.Shape[:max(len(t.Shape)-1, 1)] {
		rows *= d
	}
	size := len(t.Data) / rows
	if len(src.runs) == 1 {
		r := src.runs[0]
		return t.Data[r.from*size : (r.from+r.n)*size]
	}
	var out []byte
	for _, r := range src.runs {
		out = append(out, t.Data[r.from*size:(r.from+r.n)*size]...)
	}
	return out
}

// rows reads a source's values as rows of a need, in a type that devices know.
func (c *Checkpoint) rows(src source, need nn.Need) (tensor.Matrix, error) {
	t, err := c.file.View(src.name)
	if err != nil {
		return tensor.Matrix{}, err
	}
	data := src.pick(t)
	c.file.Touch(len(data))
	d, data, err := repack(t.Info, data)
	return tensor.Matrix{DType: d, Rows: max(need.Rows, 1), Cols: need.Cols, Data: data}, err
}
