package model

import (
	"fmt"

	"whorl/model/nn"
	"whorl/tensor"
)

// Gradients of a head are computed for up to maxBackRows rows at once, in workspace of the call's
// own; fewer where the vocabulary is large, but enough that unpacking the LM head pays.
const (
	maxBackRows = 256
	minBackRows = 32
	backLogits  = 16 << 20 // 64 MiB
)

// Normed applies the final norm to rows that the last block put out: what the LM head, or a
// classifier, reads. Both are [n][hidden] and may be the same.
func (h *Head) Normed(dst, hidden []float32) error {
	if err := h.checkRows("final norm", dst, hidden); err != nil {
		return err
	}
	return h.chunks(len(hidden)/h.hidden, func(c *headChunk) {
		c.upload(c.x, hidden)
		h.dev.Norm(c.x, c.x, c.n, h.p.Norm)
		c.download(dst, c.x)
	})
}

// NormedBackward gives the gradient by hidden of what Normed makes of it, whose gradient is
// dnormed: all are [n][hidden], and dst may be dnormed. The error wraps [nn.ErrNoBackward] if
// the device cannot go backward.
func (h *Head) NormedBackward(dst, hidden, dnormed []float32) error {
	if err := h.checkRows("back through the final norm", dst, hidden, dnormed); err != nil {
		return err
	}
	return h.chunks(len(hidden)/h.hidden, func(c *headChunk) {
		c.upload(c.x, hidden)
		c.upload(c.grad, dnormed)
		c.back.NormBack(c.grad, c.x, c.grad, c.n, h.p.Norm)
		c.download(dst, c.grad)
	})
}

// Backward gives the gradient by hidden, [n][hidden], of the logits that Logits makes of it
// under tensor.ActF32, whose gradient is dlogits, [n][vocab]. Beside what devices do, capped
// logits y = cap*tanh(x/cap) go back as d*(1-r*r) with r = y/cap, and scaled ones as d*scale,
// each step rounded. The error wraps [nn.ErrNoBackward] if the device cannot go backward.
func (h *Head) Backward(dst, hidden, dlogits []float32) error {
	if err := h.checkRows("back through the LM head", dst, hidden); err != nil {
		return err
	}
	if len(dlogits) != len(hidden)/h.hidden*h.vocab {
		return fmt.Errorf("back through the LM head: %d gradients by logits for %d rows of %d", len(dlogits), len(hidden)/h.hidden, h.vocab)
	}
	var bent []float32
	var failed error
	err := h.chunks(len(hidden)/h.hidden, func(c *headChunk) {
		d := dlogits[c.at*h.vocab:][:c.n*h.vocab]
		if c.logits == nil {
			if failed = c.forLogits(); failed != nil {
				return
			}
			bent = make([]float32, len(d))
		}
		c.upload(c.x, hidden)
		h.dev.Upload(c.logits, 0, h.bend(c, bent[:len(d)], d))
		c.back.MatMulBack(c.grad, c.logits, c.n, h.p.LM, false)
		c.back.NormBack(c.grad, c.x, c.grad, c.n, h.p.Norm)
		c.download(dst, c.grad)
	})
	if failed != nil {
		return failed
	}
	return err
}

// bend makes of gradients by logits those by what the LM head's product gave, for the rows in
// c.x.
func (h *Head) bend(c *headChunk, to, d []float32) []float32 {
	copy(to, d)
	if limit := h.p.LogitSoftcap; limit != 0 {
		h.dev.Norm(c.grad, c.x, c.n, h.p.Norm)
		h.dev.Prepare(c.act, c.grad, c.n, tensor.ActF32)
		h.dev.MatMul(c.act, []tensor.Product{{W: h.p.LM, Scale: h.p.LogitScale, Dst: c.logits}})
		h.dev.Scale(c.logits, c.n, 1, limit)
		h.dev.Download(to, c.logits, 0)
		for i, y := range to {
			r := y / limit
			to[i] = d[i] * float32(1-float32(r*r))
		}
	}
	if scale := h.p.LogitScale; scale != 0 {
		for i := range to {
			to[i] *= scale
		}
	}
	return to
}

// headChunk is n rows from number at on, and buffers for them.
type headChunk struct {
	h       *Head
	back    tensor.Backward
	rows    int // that buffers have room for
	at, n   int
	x, grad tensor.Buffer // [rows][hidden]
	logits  tensor.Buffer // [rows][vocab]
	act     tensor.Act    // of rows that the LM head reads
}

func (c *headChunk) upload(b tensor.Buffer, rows []float32) {
	c.h.dev.Upload(b, 0, rows[c.at*c.h.hidden:][:c.n*c.h.hidden])
}

func (c *headChunk) download(rows []float32, b tensor.Buffer) {
	c.h.dev.Download(rows[c.at*c.h.hidden:][:c.n*c.h.hidden], b, 0)
}

// forLogits makes room for logits.
func (c *headChunk) forLogits() (err error) {
	if c.act, err = c.h.dev.NewAct(c.rows, c.h.hidden); err == nil {
		c.logits, err = c.h.dev.NewBuffer(c.rows, c.h.vocab)
	}
	return err
}

// chunks calls do for runs of n rows.
func (h *Head) chunks(n int, do func(c *headChunk)) error {
	if n == 0 {
		return nil
	}
	c := headChunk{h: h, rows: min(n, max(min(backLogits/h.vocab, maxBackRows), minBackRows))}
	var ok bool
	var err error
	if c.back, ok = h.dev.(tensor.Backward); !ok {
		return fmt.Errorf("device %s: %w", h.dev.Info().Name, nn.ErrNoBackward)
	}
	if c.x, err = h.dev.NewBuffer(c.rows, h.hidden); err != nil {
		return err
	}
	if c.grad, err = h.dev.NewBuffer(c.rows, h.hidden); err != nil {
		return err
	}
	for ; c.at < n; c.at += c.n {
		c.n = min(c.rows, n-c.at)
		do(&c)
		if err := h.dev.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// checkRows wants equal numbers of whole rows.
func (h *Head) checkRows(what string, rows ...[]float32) error {
	for _, r := range rows {
		if len(r) != len(rows[0]) || len(r)%h.hidden != 0 {
			return fmt.Errorf("%s: %d and %d values, want as many rows of %d", what, len(rows[0]), len(r), h.hidden)
		}
	}
	return nil
}
