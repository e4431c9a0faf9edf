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
	rope, err := c.rope(dev)
	if err != nil {
		return nil, err
	}
	var p nn.Params
	spec := c.Config.Spec()
	for _, need := range spec.Needs() {
		name := c.names.tensorName(c.prefix, i, need)
		switch {
		case need.Bias:
			p.Bias[need.Param], err = c.loadVector(dev, name, need.Param, s)
		case need.Vector():
			p.Gain[need.Param], err = c.loadVector(dev, name, need.Param, s)
		default:
			p.Weight[need.Param], err = c.loadMatrix(dev, name, need.Param, true, s)
		}
		if err != nil {
			return nil, fmt.Errorf("load block %d of %s: %w", i, c.Name, err)
		}
	}
	return nn.NewBlock(dev, spec, rope, p)
}

// loadMatrix reads a matrix, puts its rows in the graph's order, converts it and hands it
// to the device, which keeps its own copy.
func (c *Checkpoint) loadMatrix(dev tensor.Device, name string, param nn.Param, inBlock bool, s scheme) (tensor.Weight, error) {
	t, err := c.file.Tensor(name)
	if err != nil {
		return nil, err
	}
	defer c.file.Release(name)
	m, err := t.Matrix()
	if err != nil {
		return nil, err
	}
	if inBlock && c.names.interleaved(param) {
		m.Data = pairHalves(m.Data, m.Rows, c.Config.HeadDim)
	}
	if m, err = convert(m, s.matrix(m.DType, inBlock), s); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	w, err := dev.Load(m)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	return w, nil
}

// noParam marks vectors outside of blocks.
const noParam = nn.NumParams

func (c *Checkpoint) loadVector(dev tensor.Device, name string, param nn.Param, s scheme) (tensor.Vector, error) {
	t, err := c.file.Tensor(name)
	if err != nil {
		return nil, err
	}
	defer c.file.Release(name)
	if c.names.interleaved(param) {
		t.Data = pairHalves(t.Data, t.Shape[0], c.Config.HeadDim)
	}
	v := floats(t)
	if !s.keep {
		round(v, s.float)
	}
	w, err := dev.LoadVector(v)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
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
