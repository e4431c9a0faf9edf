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
		for _, need := range c.Config.Block(i).Needs() {
			names = append(names, c.source(i, need).name)
		}
	}
	if head {
		for _, h := range c.headTensors() {
			names = append(names, h.src.name)
		}
	}
	slices.Sort(names)
	return c.file.Fetch(ctx, slices.Compact(names))
}
