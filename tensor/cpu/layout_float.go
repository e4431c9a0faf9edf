package cpu

import (
	"encoding/binary"

	"whorl/tensor/quant"
)

// floatLayout holds float32 values, whatever the file has.
type floatLayout struct{}

func (floatLayout) size(cols int) (values, scales int) { return 4 * lanes * cols, 0 }

// repack moves a row a few columns at a time.
func (floatLayout) repack(w *weight, row []byte, b, j int) {
	f, _ := quant.Of(w.dtype)
	var chunk [256]float32 // a multiple of every format's group
	out := w.f32[b*w.cols*lanes+j:]
	for c := 0; c < w.cols; c += len(chunk) {
		n := min(len(chunk), w.cols-c)
		f.Unpack(chunk[:n], row[c/f.Group*f.Bytes:])
		for i, v := range chunk[:n] {
			out[(c+i)*lanes] = v
		}
	}
}

func (floatLayout) dequantise(w *weight, dst []float32, b, j int) {
	for i := range dst {
		dst[i] = w.f32[(b*w.cols+i)*lanes+j]
	}
}

func (floatLayout) columns(_ *kernels, w *weight, dst []float32, b, c, n int) {
	copy(dst[:n*lanes], w.f32[(b*w.cols+c)*lanes:])
}

func (floatLayout) multiply(op *productOp, _ *scratch, acc []float32, w *weight, p piece) {
	multiplyDirect(op, op.d.k.f32, acc, w, w.f32, p)
}

// halfLayout holds 16-bit floats.
type halfLayout struct{ widen func(uint16) float32 }

func (halfLayout) size(cols int) (values, scales int) { return 2 * lanes * cols, 0 }

func (halfLayout) repack(w *weight, row []byte, b, j int) {
	out := w.half[b*w.cols*lanes+j:]
	for i := range w.cols {
		out[i*lanes] = binary.LittleEndian.Uint16(row[2*i:])
	}
}

func (l halfLayout) dequantise(w *weight, dst []float32, b, j int) {
	for i := range dst {
		dst[i] = l.widen(w.half[(b*w.cols+i)*lanes+j])
	}
}

func (halfLayout) multiply(op *productOp, s *scratch, acc []float32, w *weight, p piece) {
	k := &op.d.k.halves[w.dtype]
	if p.rows <= op.fewRows(w) {
		multiplyDirect(op, k.product, acc, w, w.half, p)
		return
	}
	op.multiplyFloats(&s.panels, acc, w, p)
}

func (halfLayout) columns(k *kernels, w *weight, dst []float32, b, c, n int) {
	k.halves[w.dtype].widen(dst[:n*lanes], w.half[(b*w.cols+c)*lanes:])
}

// multiplyDirect continues float products on weights as they lie.
func multiplyDirect[T float32 | uint16](op *productOp, kernel floatKernel[T], acc []float32, w *weight, values []T, p piece) {
	a, block := op.a, w.cols*lanes
	for b, n := 0, together(p.rows, maxTileRows, p.nb); b < p.nb; b += n {
		kernel(acc[b*lanes:], p.nb*lanes, values[(p.b0+b)*block:], block, min(n, p.nb-b), a.x[p.r0*a.cols:], a.cols, p.rows, w.cols, nil)
	}
}

// multiplyFloats continues float products by way of panels.
func (op *productOp) multiplyFloats(ps *panels, acc []float32, w *weight, p piece) {
	a, stride := op.a, p.nb*lanes
	step := equalParts((w.cols+group-1)/group, floatCols/group) * group
	for c := 0; c < w.cols; c += step {
		n := min(step, w.cols-c)
		apart := (n + 3) &^ 3 * lanes
		for b := 0; b < p.nb; b += 2 {
			for i := range 2 {
				w.layout.columns(op.d.k, w, ps.floats[i*apart:(i+1)*apart], p.b0+b+i, c, n)
			}
			op.d.k.f32(acc[b*lanes:], stride, ps.floats, apart, 2, a.x[p.r0*a.cols+c:], a.cols, p.rows, n, nil)
		}
	}
}
