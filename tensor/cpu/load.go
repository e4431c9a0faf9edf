package cpu

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// rowPad is what the number of rows is padded to: kernels take up to four blocks at once.
const rowPad = 4 * lanes

// weight is a matrix in the repacked layout (package doc).
type weight struct {
	dtype      tensor.DType
	rows, cols int
	blocks     int // of 16 rows, padding included
	layout     layout

	// One of these holds the values.
	f32  []float32
	half []uint16
	data []byte

	scale   []uint16  // of quantised layouts
	scale32 []float32 // of INT8 [blocks][16], of NF4 [blocks][groups of 64][16]
	mem     []byte    // all of it
	slab    *slab     // keeps mem alive

	forecast *forecast // of products that begin with it
}

func (w *weight) Rows() int           { return w.rows }
func (w *weight) Cols() int           { return w.cols }
func (w *weight) DType() tensor.DType { return w.dtype }
func (w *weight) Bytes() int64        { return int64(len(w.mem)) }

// memory is where values and scales lie.
func (w *weight) memory() (values, scales []byte) {
	n := len(w.mem)
	switch {
	case w.scale != nil:
		n -= 2 * len(w.scale)
	case w.scale32 != nil:
		n -= 4 * len(w.scale32)
	}
	return w.mem[:n], w.mem[n:]
}

// layout says how the values of a block lie.
type layout struct {
	kind      tensor.DType // F32, or a type with a layout of its own
	lineBytes int          // quantised: bytes of the lines of a group
	scales    int          // quantised: 16-bit words of scales of a group
	super     bool         // groups come in super-blocks
}

// layoutOf picks the layout for a format. F32 is the zero value.
func layoutOf(t tensor.DType) layout {
	switch t {
	case tensor.F16, tensor.BF16, tensor.INT8, tensor.NF4:
		return layout{kind: t}
	case tensor.Q8_0:
		return layout{kind: t, lineBytes: 512, scales: lanes}
	case tensor.Q4_0:
		return layout{kind: t, lineBytes: 256, scales: lanes}
	case tensor.Q4_1:
		return layout{kind: t, lineBytes: 256, scales: 2 * lanes}
	case tensor.Q4_K: // 2 float16 numbers a super-block, 2 bytes a group
		return layout{t, 256, lanes + 2*lanes/superGroups, true}
	case tensor.Q5_K:
		return layout{t, 320, lanes + 2*lanes/superGroups, true}
	case tensor.Q6_K: // 1 float16 number a super-block, 2 bytes a group
		return layout{t, 384, lanes + lanes/superGroups, true}
	case tensor.Q5_0:
		return layout{kind: t, lineBytes: 320, scales: lanes}
	}
	return layout{kind: tensor.F32}
}

func (l layout) quantised() bool { return l.lineBytes > 0 }

// Load repacks m, on all threads.
func (d *Device) Load(m tensor.Matrix) (tensor.Weight, error) {
	if err := quant.Check(m); err != nil {
		return nil, fmt.Errorf("cpu device: load %w", err)
	}
	w := &weight{
		dtype: m.DType, rows: m.Rows, cols: m.Cols,
		blocks: (m.Rows + rowPad - 1) / rowPad * rowPad / lanes,
		layout: layoutOf(m.DType),
	}
	d.begin()
	defer d.end()
	if err := w.allocate(d); err != nil {
		return nil, fmt.Errorf("cpu device: load %v matrix %dx%d: %w", m.DType, m.Rows, m.Cols, err)
	}
	d.pool.Run(&repackOp{w, m}, w.blocks)
	return w, nil
}

// allocate takes the memory and points the views into it.
func (w *weight) allocate(d *Device) error {
	values := w.blocks * lanes * w.cols
	var n, scales int
	switch w.layout.kind {
	case tensor.F32:
		n = 4 * values
	case tensor.F16, tensor.BF16:
		n = 2 * values
	case tensor.INT8:
		n, scales = w.blocks*lanes*paddedINT8(w.cols), 2*w.blocks*lanes
	case tensor.NF4:
		n, scales = values/2, 2*values/nf4Group
	default:
		groups := w.blocks * w.cols / group
		n, scales = groups*w.layout.lineBytes, groups*w.layout.scales
	}
	s, mem, err := d.carve(n + 2*scales)
	if err != nil {
		return err
	}
	w.slab, w.mem = s, mem
	switch base := unsafe.Pointer(unsafe.SliceData(mem)); w.layout.kind {
	case tensor.F32:
		w.f32 = unsafe.Slice((*float32)(base), values)
	case tensor.F16, tensor.BF16:
		w.half = unsafe.Slice((*uint16)(base), values)
	case tensor.INT8, tensor.NF4:
		w.data = mem[:n:n]
		w.scale32 = unsafe.Slice((*float32)(unsafe.Add(base, n)), scales/2)
	default:
		w.data = mem[:n:n]
		w.scale = unsafe.Slice((*uint16)(unsafe.Add(base, n)), scales)
	}
	return nil
}

// repackOp fills a weight; tile b is block b.
type repackOp struct {
	w *weight
	m tensor.Matrix
}

func (op *repackOp) Tile(_, b int) {
	w := op.w
	rowBytes, _ := quant.RowBytes(w.dtype, w.cols)
	for j := range min(lanes, w.rows-b*lanes) {
		row := op.m.Data[(b*lanes+j)*rowBytes:][:rowBytes]
		switch {
		case w.layout.super:
			w.repackSuper(row, b, j)
		case w.layout.kind == tensor.Q5_0:
			w.repackQ5_0(row, b, j)
		case w.layout.quantised():
			w.repackGroups(row, b, j)
		case w.layout.kind == tensor.INT8:
			w.repackINT8(row, b, j)
		case w.layout.kind == tensor.NF4:
			w.repackNF4(row, b, j)
		case w.layout.kind == tensor.F32:
			w.repackFloats(row, b, j)
		default:
			out := w.half[b*w.cols*lanes+j:]
			for i := range w.cols {
				out[i*lanes] = binary.LittleEndian.Uint16(row[2*i:])
			}
		}
	}
	runtime.KeepAlive(w)
}

// repackFloats moves a row of float32, a few columns at a time.
func (w *weight) repackFloats(row []byte, b, j int) {
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

// repackGroups moves the bytes of a quantised row: scales to the scales, and each 4 bytes
// of values to the lane's place in a line.
func (w *weight) repackGroups(row []byte, b, j int) {
	f, _ := quant.Of(w.dtype)
	l := w.layout
	groups := w.cols / group
	for g := range groups {
		src := row[g*f.Bytes:][:f.Bytes]
		scale := w.scale[(b*groups+g)*l.scales+j:]
		scale[0] = binary.LittleEndian.Uint16(src)
		head := 2
		if l.kind == tensor.Q4_1 {
			scale[lanes] = binary.LittleEndian.Uint16(src[2:])
			head = 4
		}
		out := w.data[(b*groups+g)*l.lineBytes+4*j:]
		for i, values := 0, src[head:]; i < len(values); i += 4 {
			v := binary.LittleEndian.Uint32(values[i:])
			if l.kind == tensor.Q8_0 {
				v ^= 0x80808080 // signed to unsigned by +128
			}
			binary.LittleEndian.PutUint32(out[i/4*4*lanes:], v)
		}
	}
}

// dequantise writes row r, as package quant would from the file.
func (w *weight) dequantise(dst []float32, r int) {
	if w.layout.super {
		w.dequantiseSuper(dst, r)
		return
	}
	b, j := r/lanes, r%lanes
	switch w.layout.kind {
	case tensor.INT8:
		w.dequantiseINT8(dst, b, j)
		return
	case tensor.NF4:
		w.dequantiseNF4(dst, b, j)
		return
	}
	l, groups := w.layout, w.cols/group
	for i := range dst {
		at := (b*w.cols+i)*lanes + j
		switch l.kind {
		case tensor.F32:
			dst[i] = w.f32[at]
			continue
		case tensor.F16:
			dst[i] = quant.F16ToF32(w.half[at])
			continue
		case tensor.BF16:
			dst[i] = quant.BF16ToF32(w.half[at])
			continue
		}
		g := b*groups + i/group
		lines := w.data[g*l.lineBytes:][:l.lineBytes]
		scale := w.scale[g*l.scales:][:l.scales]
		d := quant.F16ToF32(scale[j])
		switch l.kind {
		case tensor.Q8_0:
			dst[i] = float32(int(lines[i%group/4*64+4*j+i%4])-128) * d
		case tensor.Q4_0:
			dst[i] = d * float32(int(nibbleAt(lines, i%group, j))-8)
		case tensor.Q5_0:
			dst[i] = d * float32(int(fiveAt(lines, i%group, j))-16)
		case tensor.Q4_1:
			dst[i] = float32(d*float32(nibbleAt(lines, i%group, j))) + quant.F16ToF32(scale[lanes+j])
		}
	}
}
