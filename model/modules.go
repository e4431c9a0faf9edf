package model

import (
	"slices"
	"strings"

	"whorl/model/nn"
	"whorl/model/weights"
)

// Module is a matrix of a block as transformers has it, such as self_attn.q_proj: adapters
// speak of those. It may hold the rows of several parameters.
type Module struct {
	Name       string // what follows the block's prefix
	Rows, Cols int
	Parts      []ModulePart
	// Choice tells matrices of experts and of the router that chooses among them.
	Choice bool
}

// ModulePart is one parameter's share of a module.
type ModulePart struct {
	Param nn.Param
	Rows  int
	src   source
	pairs int // elements of a head whose rotated pairs lie side by side; 0: they do not
}

// Modules lists the matrices of block i, whatever format the file has.
func (c *Checkpoint) Modules(i int) []Module {
	spec := c.Config.Block(i)
	var list []Module
	for _, need := range spec.Needs() {
		if need.Vector() {
			continue
		}
		src := c.canon.source(spec, need)
		name := strings.TrimSuffix(src.name, ".weight")
		at := slices.IndexFunc(list, func(m Module) bool { return m.Name == name })
		if at < 0 {
			at = len(list)
			rows := 1
			for _, n := range src.shape[:len(src.shape)-1] {
				rows *= n
			}
			list = append(list, Module{Name: name, Rows: rows, Cols: need.Cols})
		}
		p := ModulePart{Param: need.Param, Rows: need.Rows, src: src}
		if c.canon.interleaved(need.Param) {
			p.pairs = spec.HeadDim
		}
		m := &list[at]
		m.Parts = append(m.Parts, p)
		m.Choice = m.Choice || spec.Experts > 0 && slices.Contains([]nn.Param{nn.Router, nn.Gate, nn.Up, nn.Down}, need.Param)
	}
	return list
}

// Pick gives the rows of this part, in the order of the graph, from a tensor that has as
// many rows as the module, of any width.
func (p ModulePart) Pick(t weights.Tensor) []byte {
	data := p.src.pick(t)
	if p.pairs > 0 {
		data = pairHalves(data, p.Rows, p.pairs)
	}
	return data
}
