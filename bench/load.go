package bench

import (
	"fmt"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// Load loads a whole checkpoint on a device. Its format is that of the class.
func Load(dev tensor.Device, ck *model.Checkpoint, o model.LoadOptions) (*Model, error) {
	class, err := ck.Class(o)
	if err != nil {
		return nil, err
	}
	name := class.Quant
	if name == "none" {
		name = class.DType
	}
	m := &Model{Name: ck.Name, Config: ck.Config, Blocks: make([]*nn.Block, ck.Config.Layers), SessionRope: ck.SessionRope}
	if m.Format, err = tensor.ParseDType(name); err != nil {
		return nil, fmt.Errorf("format of %s: %w", ck.Name, err)
	}
	if m.Head, err = ck.LoadHead(dev, o); err != nil {
		return nil, err
	}
	for i := range m.Blocks {
		if m.Blocks[i], err = ck.LoadBlock(dev, i, o); err != nil {
			return nil, err
		}
		n, err := ck.BlockBytes(i, o)
		if err != nil {
			return nil, err
		}
		m.BlockBytes += n
	}
	return m, nil
}
