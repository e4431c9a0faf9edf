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
	ta, err := a.file.Tensor(c.a)
	if err != nil {
		return err
	}
	tb, err := a.file.Tensor(c.b)
	if err != nil {
		return err
	}
	wa, err := dev.Load(tensor.Matrix{DType: ta.DType, Rows: c.rank, Cols: c.module.Cols, Data: ta.Data})
	if err != nil {
		return fmt.Errorf("tensor %s: %w", c.a, err)
	}
	for _, p := range c.module.Parts { // of a fused module: each takes its rows of B, and all of A
		wb, err := dev.Load(tensor.Matrix{DType: tb.DType, Rows: p.Rows, Cols: c.rank, Data: p.Pick(tb)})
		if err != nil {
			return fmt.Errorf("tensor %s: %w", c.b, err)
		}
		l.A[p.Param], l.B[p.Param], l.Scale[p.Param] = wa, wb, c.scale
	}
	return nil
}
