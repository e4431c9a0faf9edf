package lora

import (
	"fmt"

	"whorl/model/nn"
	"whorl/tensor"
)

// BlockBytes is the size of what the adapter adds to a block, as stored; a device may hold
// it a little larger.
func (a *Adapter) BlockBytes(block int) int64 {
	var sum int64
	for _, c := range a.changes[block] {
		for _, name := range []string{c.a, c.b} {
			info, _ := a.file.Info(name)
			sum += info.Bytes
		}
	}
	return sum
}

// LoadBlock puts what the adapter adds to a block on a device; nil if that is nothing.
func (a *Adapter) LoadBlock(dev tensor.Device, block int) (*nn.LoRA, error) {
	if block < 0 || block >= len(a.changes) {
		return nil, fmt.Errorf("adapter %s is for blocks 0 to %d, not %d", a.Name, len(a.changes)-1, block)
	}
	if len(a.changes[block]) == 0 {
		return nil, nil
	}
	l := &nn.LoRA{}
	for _, c := range a.changes[block] {
		if err := a.load(dev, c, l); err != nil {
			return nil, fmt.Errorf("load block %d of adapter %s: %w", block, a.Name, err)
		}
	}
	return l, nil
}

func (a *Adapter) load(dev tensor.Device, c change, l *nn.LoRA) error {
	down, err := a.matrix(c.a)
	if err != nil {
		return err
	}
	up, err := a.matrix(c.b)
	if err != nil {
		return err
	}
	wa, err := dev.Load(down)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", c.a, err)
	}
	size := len(up.Data) / up.Rows
	row := 0
	for _, p := range c.module.parts {
		m := tensor.Matrix{DType: up.DType, Rows: p.rows, Cols: up.Cols, Data: up.Data[row*size:][:p.rows*size]}
		wb, err := dev.Load(m)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", c.b, err)
		}
		l.A[p.param], l.B[p.param], l.Scale[p.param] = wa, wb, c.scale
		row += p.rows
	}
	return nil
}

func (a *Adapter) matrix(name string) (tensor.Matrix, error) {
	t, err := a.file.Tensor(name)
	if err != nil {
		return tensor.Matrix{}, err
	}
	return t.Matrix()
}
