package model

import (
	"fmt"

	"whorl/tensor"
)

// Head rows are computed in chunks of at most maxHeadRows, fewer where the vocabulary is
// large: logits of a chunk take at most about headLogits values of workspace.
const (
	maxHeadRows = 32
	headLogits  = 2 << 20 // 8 MiB
)

// Head is the part of a model outside of its blocks: embeddings, final norm, LM head. It
// works on rows in host memory and is safe for concurrent use; calls take turns by chunk,
// calls of Logits that meet share one, and each returns when its own rows are done.
// Embeddings wait for no logits: a session that has its token must not wait for those of others.
type Head struct {
	dev           tensor.Device
	vocab, hidden int
	p             HeadParams
	bytes         int64

	// turn holds a value while somebody uses the workspace below. Those who wait get it in
	// the order they came: nobody passes by a goroutine that is still waking up.
	turn    chan struct{}
	rows    int
	x       tensor.Buffer // [rows][hidden]
	act     tensor.Act
	logits  tensor.Buffer // [rows][vocab]
	product [1]tensor.Product
	batch   []*logitsCall

	waiting logitsQueue

	embedding chan struct{} // holds a value while somebody uses embedded
	embedded  tensor.Buffer // [rows][hidden]
}

// HeadParams are the loaded parameters of a head.
type HeadParams struct {
	Table     tensor.Weight    // of embeddings, [vocab][hidden]
	LM        tensor.Weight    // makes logits; the table itself if the model ties them
	Norm      tensor.NormSpec  // of the last block's output
	EmbedNorm *tensor.NormSpec // of embeddings; nil if none
	// EmbedScale multiplies embeddings and LogitScale logits, which LogitSoftcap then
	// caps; 0: none.
	EmbedScale, LogitScale, LogitSoftcap float32
}

// NewHead makes a head.
func NewHead(dev tensor.Device, p HeadParams) (*Head, error) {
	h := &Head{dev: dev, vocab: p.Table.Rows(), hidden: p.Table.Cols(), p: p, turn: make(chan struct{}, 1), embedding: make(chan struct{}, 1)}
	if p.LM.Rows() != h.vocab || p.LM.Cols() != h.hidden || p.Norm.Gain.Len() != h.hidden ||
		p.EmbedNorm != nil && p.EmbedNorm.Gain.Len() != h.hidden {
		return nil, fmt.Errorf("head: a norm of %d, a table of %dx%d and an LM head of %dx%d do not fit each other",
			p.Norm.Gain.Len(), h.vocab, h.hidden, p.LM.Rows(), p.LM.Cols())
	}
	h.bytes = normBytes(&p.Norm) + normBytes(p.EmbedNorm) + p.Table.Bytes()
	if p.LM != p.Table {
		h.bytes += p.LM.Bytes()
	}
	h.rows = min(max(headLogits/h.vocab, 1), maxHeadRows)
	var err error
	if h.x, err = dev.NewBuffer(h.rows, h.hidden); err != nil {
		return nil, err
	}
	if h.embedded, err = dev.NewBuffer(h.rows, h.hidden); err != nil {
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
	if err := c.checkTie(); err != nil {
		return nil, err
	}
	cfg := c.Config
	norm := tensor.NormSpec{Kind: cfg.Norm, Eps: cfg.NormEps}
	p := HeadParams{EmbedScale: cfg.EmbedScale, LogitScale: cfg.LogitScale, LogitSoftcap: cfg.LogitSoftcap, Norm: norm}
	if cfg.EmbedNorm {
		p.EmbedNorm = &norm
	}
	for _, h := range c.headTensors() {
		if !h.need.Vector() {
			w, err := c.loadMatrix(dev, h.src, h.need, s)
			if err != nil {
				return nil, err
			}
			if p.LM = w; p.Table == nil {
				p.Table = w
			}
			continue
		}
		v, err := c.loadVector(dev, h.src, h.need, s)
		if err != nil {
			return nil, err
		}
		to := &p.Norm
		if h.embedNorm {
			to = p.EmbedNorm
		}
		if h.need.Bias {
			to.Bias = v
		} else {
			to.Gain = v
		}
	}
	return NewHead(dev, p)
}

// normBytes is the memory of a norm's vectors.
func normBytes(s *tensor.NormSpec) int64 {
	if s == nil {
		return 0
	}
	n := int64(s.Gain.Len())
	if s.Bias != nil {
		n *= 2
	}
	return 4 * n
}

// Vocab is the number of logits of a row.
func (h *Head) Vocab() int { return h.vocab }

// Hidden is the width of a row.
func (h *Head) Hidden() int { return h.hidden }

// Bytes is the memory that the loaded weights hold on the device.
func (h *Head) Bytes() int64 { return h.bytes }

// LM is the matrix that logits are made with.
func (h *Head) LM() tensor.Weight { return h.p.LM }

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
	h.embedding <- struct{}{}
	defer func() { <-h.embedding }()
	h.dev.Embed(h.embedded, h.p.Table, ids)
	if h.p.EmbedScale != 0 {
		h.dev.Scale(h.embedded, len(ids), h.p.EmbedScale, 0)
	}
	if h.p.EmbedNorm != nil {
		h.dev.Norm(h.embedded, h.embedded, len(ids), *h.p.EmbedNorm)
	}
	h.dev.Download(dst, h.embedded, 0)
	if err := h.dev.Sync(); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	return nil
}
