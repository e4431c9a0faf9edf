package model

import (
	"fmt"
	"sync"

	"whorl/tensor"
)

// Head rows are computed in chunks of at most maxHeadRows, fewer where the vocabulary is
// large: logits of a chunk take at most about headLogits values of workspace.
const (
	maxHeadRows = 32
	headLogits  = 2 << 20 // 8 MiB
)

// Head is the part of a model outside of its blocks: embeddings, final norm, LM head. It
// works on rows in host memory and is safe for concurrent use; calls take turns by chunk.
type Head struct {
	dev           tensor.Device
	vocab, hidden int
	norm          tensor.NormSpec
	table, lm     tensor.Weight // the same handle if tied
	bytes         int64

	mu      sync.Mutex // guards the workspace below
	rows    int
	x       tensor.Buffer // [rows][hidden]
	act     tensor.Act
	logits  tensor.Buffer // [rows][vocab]
	product [1]tensor.Product
}

// NewHead makes a head of loaded parameters: a final norm, a table of embeddings and the
// matrix of the logits, which is the table itself if the model ties them.
func NewHead(dev tensor.Device, norm tensor.NormSpec, table, lm tensor.Weight) (*Head, error) {
	h := &Head{dev: dev, vocab: table.Rows(), hidden: table.Cols(), norm: norm, table: table, lm: lm}
	if lm.Rows() != h.vocab || lm.Cols() != h.hidden || norm.Gain.Len() != h.hidden {
		return nil, fmt.Errorf("head: a norm of %d, a table of %dx%d and an LM head of %dx%d do not fit each other",
			norm.Gain.Len(), h.vocab, h.hidden, lm.Rows(), lm.Cols())
	}
	h.bytes = 4*int64(h.hidden) + table.Bytes()
	if lm != table {
		h.bytes += lm.Bytes()
	}
	h.rows = min(max(headLogits/h.vocab, 1), maxHeadRows)
	var err error
	if h.x, err = dev.NewBuffer(h.rows, h.hidden); err != nil {
		return nil, err
	}
	if h.act, err = dev.NewAct(h.rows, h.hidden); err != nil {
		return nil, err
	}
	h.logits, err = dev.NewBuffer(h.rows, h.vocab)
	return h, err
}

// LoadHead reads embeddings, final norm and LM head and loads them on a device. It touches
// no block.
func (c *Checkpoint) LoadHead(dev tensor.Device, o LoadOptions) (*Head, error) {
	s, err := c.resolve(o)
	if err != nil {
		return nil, err
	}
	h, err := c.loadHead(dev, s)
	if err != nil {
		return nil, fmt.Errorf("load the head of %s: %w", c.Name, err)
	}
	return h, nil
}

func (c *Checkpoint) loadHead(dev tensor.Device, s scheme) (*Head, error) {
	gain, err := c.loadVector(dev, c.normName(), noParam, s)
	if err != nil {
		return nil, err
	}
	var table, lm tensor.Weight
	for i, name := range c.headMatrices() {
		if lm, err = c.loadMatrix(dev, name, noParam, false, s); err != nil {
			return nil, err
		}
		if i == 0 {
			table = lm
		}
	}
	return NewHead(dev, tensor.NormSpec{Kind: tensor.RMSNorm, Gain: gain, Eps: c.Config.NormEps}, table, lm)
}

// Vocab is the number of logits of a row.
func (h *Head) Vocab() int { return h.vocab }

// Hidden is the width of a row.
func (h *Head) Hidden() int { return h.hidden }

// Bytes is the memory that the loaded weights hold on the device.
func (h *Head) Bytes() int64 { return h.bytes }

// LM is the matrix that logits are made with.
func (h *Head) LM() tensor.Weight { return h.lm }

// Embed writes the embedding of each id to dst, [len(ids)][hidden]. An id outside of the
// vocabulary is an error, and dst is not written.
func (h *Head) Embed(dst []float32, ids []int32) error {
	if len(dst) != len(ids)*h.hidden {
		return fmt.Errorf("embed: %d values for %d rows of %d", len(dst), len(ids), h.hidden)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= h.vocab {
			return fmt.Errorf("embed: id %d is outside of the vocabulary of %d", id, h.vocab)
		}
	}
	for len(ids) > 0 {
		n := min(len(ids), h.rows)
		if err := h.embedChunk(dst[:n*h.hidden], ids[:n]); err != nil {
			return err
		}
		dst, ids = dst[n*h.hidden:], ids[n:]
	}
	return nil
}

func (h *Head) embedChunk(dst []float32, ids []int32) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dev.Embed(h.x, h.table, ids)
	h.dev.Download(dst, h.x, 0)
	if err := h.dev.Sync(); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	return nil
}

// Logits computes the logits of n rows that the last block put out: hidden is [n][hidden],
// dst [n][vocab]. The result of a row does not depend on the rows beside it.
func (h *Head) Logits(dst, hidden []float32, n int, mode tensor.Activations) error {
	if n < 0 || len(hidden) != n*h.hidden || len(dst) != n*h.vocab {
		return fmt.Errorf("logits: %d values in and %d out for %d rows of %d and %d", len(hidden), len(dst), n, h.hidden, h.vocab)
	}
	for n > 0 {
		rows := min(n, h.rows)
		if err := h.logitsChunk(dst[:rows*h.vocab], hidden[:rows*h.hidden], rows, mode); err != nil {
			return err
		}
		dst, hidden, n = dst[rows*h.vocab:], hidden[rows*h.hidden:], n-rows
	}
	return nil
}

func (h *Head) logitsChunk(dst, hidden []float32, rows int, mode tensor.Activations) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dev.Upload(h.x, 0, hidden)
	h.dev.Norm(h.x, h.x, rows, h.norm)
	h.dev.Prepare(h.act, h.x, rows, mode)
	h.product[0] = tensor.Product{W: h.lm, Dst: h.logits}
	h.dev.MatMul(h.act, h.product[:])
	h.dev.Download(dst, h.logits, 0)
	if err := h.dev.Sync(); err != nil {
		return fmt.Errorf("logits: %w", err)
	}
	return nil
}
