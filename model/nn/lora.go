package nn

import (
	"fmt"

	"whorl/tensor"
)

// LoRA is what an adapter adds to the matrices of one block: beside W·x+bias, the product of
// parameter p gives
//
//	Scale[p] * (B[p]·(A[p]·x))
//
// in float32. A is [rank][in] and B is [out][rank]; both are nil where the adapter changes
// nothing. Parameters that a checkpoint fuses may share one A. A LoRA is immutable.
type LoRA struct {
	A, B  [NumParams]tensor.Weight
	Scale [NumParams]float32
}

// Bytes is the memory that A and B hold on the device.
func (l *LoRA) Bytes() int64 {
	var sum int64
	for p, a := range l.A {
		if a == nil {
			continue
		}
		sum += l.B[p].Bytes()
		shared := false
		for _, before := range l.A[:p] {
			shared = shared || before == a
		}
		if !shared {
			sum += a.Bytes()
		}
	}
	return sum
}

// Adapted says which rows of a step an adapter changes. Rows of other adapters, and of
// none, may be in the same step: the bits of a row depend on its own adapter alone.
type Adapted struct {
	*LoRA
	Rows []int32 // places in the batch, each at most once and in one Adapted only
}

// loraRows is how many rows go through A and B at once: room for them is small then, and a
// longer prefill takes them piece by piece, which changes no bits.
const loraRows = 64

// loraSpace is what a pass with adapters needs beside the rest of a Workspace.
type loraSpace struct {
	gates []tensor.Buffer // [MaxRows][FFN]: gates apart from what they multiply, one for each width
	wide  []source        // [loraRows][...]: rows that A reads
	outs  []tensor.Buffer // [loraRows][...]: what B writes
	ranks []source        // [loraRows][rank]: what A writes
}

// ReserveLoRA makes room for steps through blocks of Spec s with what adapters add to such
// a block. It comes before the steps; reserving twice is harmless.
func (ws *Workspace) ReserveLoRA(dev tensor.Device, s Spec, loras ...*LoRA) error {
	l := &ws.lora
	if ws.out == nil {
		out, err := dev.NewBuffer(ws.MaxRows, s.Hidden)
		if err != nil {
			return fmt.Errorf("workspace for adapters: %w", err)
		}
		ws.out = out
	}
	if !s.Ungated && s.Experts == 0 {
		if err := reserveBuffer(dev, &l.gates, ws.MaxRows, s.FFN); err != nil {
			return fmt.Errorf("workspace for adapters: %w", err)
		}
	}
	for _, lora := range loras {
		for p, a := range lora.A {
			if a == nil {
				continue
			}
			for _, r := range []struct {
				list *[]source
				cols int
			}{{&l.wide, a.Cols()}, {&l.ranks, a.Rows()}} {
				if err := reserve(dev, r.list, min(loraRows, ws.MaxRows), r.cols); err != nil {
					return fmt.Errorf("workspace for adapters: %w", err)
				}
			}
			if err := reserveBuffer(dev, &l.outs, min(loraRows, ws.MaxRows), lora.B[p].Rows()); err != nil {
				return fmt.Errorf("workspace for adapters: %w", err)
			}
		}
	}
	return nil
}

// LoRABytes is about what ReserveLoRA takes for steps of so many rows.
func (s Spec) LoRABytes(rows int) int64 {
	q := s.Heads * s.HeadDim
	return 4 * (int64(rows)*int64(s.Hidden+s.FFN) + 2*loraRows*int64(s.Hidden+2*q+s.FFN))
}

// reserve adds room of a width unless there is some.
func reserve(dev tensor.Device, list *[]source, rows, cols int) error {
	if _, ok := room(*list, cols); ok {
		return nil
	}
	buf, err := dev.NewBuffer(rows, cols)
	if err != nil {
		return err
	}
	act, err := dev.NewAct(rows, cols)
	if err != nil {
		return err
	}
	*list = append(*list, source{buf, act})
	return nil
}

// reserveBuffer is reserve for rows that are only written.
func reserveBuffer(dev tensor.Device, list *[]tensor.Buffer, rows, cols int) error {
	if ofWidth(*list, cols) != nil {
		return nil
	}
	buf, err := dev.NewBuffer(rows, cols)
	if err != nil {
		return err
	}
	*list = append(*list, buf)
	return nil
}

func room(list []source, cols int) (source, bool) {
	for _, i := range list {
		if i.buf.Cols() == cols {
			return i, true
		}
	}
	return source{}, false
}

// ofWidth is the buffer of a width; nil if there is none.
func ofWidth(list []tensor.Buffer, width int) tensor.Buffer {
	for _, b := range list {
		if b.Cols() == width {
			return b
		}
	}
	return nil
}

// adapts tells whether any row of the step has an adapter that changes a parameter. The
// products of those run without their epilogues, which follow as ops of their own with the
// same bits: rows without an adapter cannot tell.
func (p *pass) adapts(param Param) bool {
	for i := range p.adapted {
		if p.adapted[i].A[param] != nil {
			return true
		}
	}
	return false
}

// target is a finished product that adapters add to.
type target struct {
	param Param
	dst   tensor.Buffer
}

// adapt adds what adapters make of rows of src, [rows][in], to products of src.
func (p *pass) adapt(src tensor.Buffer, targets ...target) {
	for i := range p.adapted {
		d := &p.adapted[i]
		for from := 0; from < len(d.Rows); from += loraRows {
			p.adaptRows(d.LoRA, src, d.Rows[from:min(from+loraRows, len(d.Rows))], targets)
		}
	}
}

func (p *pass) adaptRows(l *LoRA, src tensor.Buffer, rows []int32, targets []target) {
	ws, n := p.ws, len(rows)
	var in, mid source
	var last tensor.Weight // whose product is in mid
	for _, t := range targets {
		a := l.A[t.param]
		if a == nil {
			continue
		}
		if in.buf == nil {
			in, _ = room(ws.lora.wide, a.Cols())
			p.dev.Gather(in.buf, src, rows)
			p.dev.Prepare(in.act, in.buf, n, tensor.ActF32)
		}
		if a != last {
			mid, _ = room(ws.lora.ranks, a.Rows())
			p.multiply(in.act, a, mid.buf)
			p.dev.Prepare(mid.act, mid.buf, n, tensor.ActF32)
			last = a
		}
		out := ofWidth(ws.lora.outs, t.dst.Cols())
		p.multiply(mid.act, l.B[t.param], out)
		p.dev.Add(t.dst, out, rows, n, l.Scale[t.param])
	}
}

// adaptInner is the middle of an MLP without the fused epilogue: act(gate)*up in dst.
func (p *pass) adaptInner(in source, dst tensor.Buffer) {
	ws := p.ws
	var gate tensor.Buffer // nil: dst = act(dst)
	ws.products[0] = p.product(Up, dst)
	n := 1
	if !p.spec.Ungated {
		gate, n = ofWidth(ws.lora.gates, p.spec.FFN), 2
		ws.products[1] = p.product(Gate, gate)
	}
	p.dev.MatMul(in.act, ws.products[:n])
	p.adapt(in.buf, target{Up, dst}, target{Gate, gate})
	p.dev.Activate(dst, gate, p.rows, p.spec.Activation)
}

func (p *pass) multiply(a tensor.Act, w tensor.Weight, dst tensor.Buffer) {
	p.ws.products[0] = tensor.Product{W: w, Dst: dst}
	p.dev.MatMul(a, p.ws.products[:1])
}
