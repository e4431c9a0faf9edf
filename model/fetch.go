package model

import (
	"context"
	"slices"
)

// Fetch brings the weights of blocks [from, to) onto this disk, and those of embeddings and
// head if asked to. It does nothing for a model whose files are whole.
func (c *Checkpoint) Fetch(ctx context.Context, from, to int, head bool) error {
	var names []string
	for i := from; i < to; i++ {
		if err := c.inRange(i); err != nil {
			return err
		}
		names = append(names, c.blockTensors(i)...)
	}
	if head {
		for _, h := range c.headTensors() {
			names = append(names, h.src.name)
		}
	}
	return c.file.Fetch(ctx, names)
}

// Here tells whether all weights of a block are on this disk.
func (c *Checkpoint) Here(block int) bool {
	return c.inRange(block) == nil && c.file.Has(c.blockTensors(block))
}

// blockTensors names the tensors that a block is read from.
func (c *Checkpoint) blockTensors(i int) []string {
	var names []string
	for _, need := range c.Config.Block(i).Needs() {
		names = append(names, c.source(i, need).name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
