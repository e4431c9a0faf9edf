package model

import (
	"bytes"
	"fmt"
	"slices"

	"whorl/model/nn"
	"whorl/tensor"
	"whorl/tensor/quant"
)

// checkTie compares an LM head that the file holds although the configuration ties it to the
// embeddings. Transformers ties the two if they are equal, and computes logits with the head
// where they are not: a model that nobody meant, so it is refused. Files with both are old
// ones; others cost no read.
func (c *Checkpoint) checkTie() error {
	table := source{name: c.prefix.Body + c.names.Embed + ".weight", shape: []int{c.Config.Vocab, c.Config.Hidden}}
	head := source{name: c.prefix.Head + c.names.Head + ".weight", shape: table.shape}
	if _, there := c.file.Info(head.name); !c.Config.Tied || !there {
		return nil
	}
	need := nn.Need{Param: noParam, Rows: c.Config.Vocab, Cols: c.Config.Hidden}
	if _, err := c.checkTensor(head, need); err != nil {
		return err
	}
	same, err := c.sameMatrix(head, table, need)
	if err == nil && !same {
		err = fmt.Errorf("tensor %q differs from %q, to which tie_word_embeddings ties it: set that to false in config.json, or remove the tensor",
			head.name, table.name)
	}
	return err
}

// sameMatrix compares the values of two matrices of one shape, whatever types they have.
func (c *Checkpoint) sameMatrix(a, b source, need nn.Need) (bool, error) {
	x, err := c.rows(a, need)
	if err != nil {
		return false, err
	}
	defer c.file.Release(a.name)
	y, err := c.rows(b, need)
	if err != nil {
		return false, err
	}
	defer c.file.Release(b.name)
	return x.DType == y.DType && bytes.Equal(x.Data, y.Data) || sameRows(x, y), nil
}

func sameRows(x, y tensor.Matrix) bool {
	p, q := make([]float32, x.Cols), make([]float32, x.Cols)
	for i := range x.Rows {
		quant.UnpackRow(p, x, i)
		quant.UnpackRow(q, y, i)
		if !slices.Equal(p, q) {
			return false
		}
	}
	return true
}
