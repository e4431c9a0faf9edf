package model

import (
	"fmt"

	"whorl/model/nn"
	"whorl/tensor"
)

// LoadBlock reads block i and loads it on a device. It touches the tensors of that block
// only.
func (c *Checkpoint) LoadBlock(dev tensor.Device, i int, o LoadOptions) (*Block, error) {
	if err := c.inRange(i); err != nil {
		return nil, err
	}
	s, err := c.resolve(o)
	if err != nil {
		return nil, err
	}
	spec := c.Config.Block(i)
	rope, err := c.rope(dev, spec.Rope)
	if err != nil {
		return nil, err
	}
	var p nn.Params
	for _, need := range spec.Needs() {
		src := c.source(i, need)
		if need.Vector() {
			var v tensor.Vector
			v, err = c.loadVector(dev, src, need, s)
			p.SetVector(need, v)
		} else {
			var w tensor.Weight
			w, err = c.loadMatrix(dev, src, need, s)
			p.SetMatrix(spec, need, w)
		}
		if err != nil {
			return nil, fmt.Errorf("load block %d of %s: %w", i, c.Name, err)
		}
	}
	return nn.NewBlock(dev, spec, rope, p)
}

// loadMatrix reads a matrix, puts its rows in the graph's order, converts it and hands it
// to the device, which keeps its own copy.
func (c *Checkpoint) loadMatrix(dev tensor.Device, src source, need nn.Need, s scheme) (tensor.Weight, error) {
	m, err := c.rows(src, need)
	if err != nil {
		return nil, err
	}
	defer c.file.Release(src.name)
	if c.names.interleaved(need.Param) {
		m.Data = pairHalves(m.Data, m.Rows, c.Config.HeadDim)
	}
	if m, err = convert(m, s.matrix(m.DType, need.Param), s); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", src.name, err)
	}
	w, err := dev.Load(m)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", src.name, err)
	}
	return w, nil
}

// noParam marks tensors outside of blocks.
const noParam = nn.NumParams

func (c *Checkpoint) loadVector(dev tensor.Device, src source, need nn.Need, s scheme) (tensor.Vector, error) {
	m, err := c.rows(src, need)
	if err != nil {
		return nil, err
	}
	defer c.file.Release(src.name)
	if c.names.interleaved(need.Param) {
		m.Data = pairHalves(m.Data, m.Cols, min(c.Config.HeadDim, m.Cols))
	}
	v := floats(m)
	if !s.keep {
		round(v, s.float)
	}
	if c.names.GainPlusOne && !need.Bias {
		for i := range v {
			v[i]++
		}
	}
	w, err := dev.LoadVector(v)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", src.name, err)
	}
	return w, nil
}

// pairHalves reorders rows (of whatever size) from files whose heads hold a rotated pair
// side by side, 2i and 2i+1, to the order that rotates i with i+dim/2. It returns a copy.
func pairHalves(data []byte, rows, dim int) []byte {
	size := len(data) / rows
	out := make([]byte, len(data))
	for head := 0; head < rows; head += dim {
		for i := range dim {
			from := head + 2*(i%(dim/2)) + i/(dim/2)
			copy(out[(head+i)*size:][:size], data[from*size:])
		}
	}
	return out
}
