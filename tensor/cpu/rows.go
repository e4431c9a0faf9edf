package cpu

import (
	"runtime"

	"whorl/tensor"
	"whorl/tensor/cpu/pool"
)

// serialRows is the number of rows below which row-wise ops stay on the calling thread: a
// row costs about as much as handing it over.
const serialRows = 4

// Upload copies whole rows in.
func (d *Device) Upload(to tensor.Buffer, row int, src []float32) {
	d.begin()
	defer d.end()
	b := to.(*buffer)
	if !(len(src)%b.cols == 0 && row >= 0 && row*b.cols+len(src) <= len(b.data)) {
		bug("upload %d floats to row %d of %dx%d", len(src), row, b.rows, b.cols)
	}
	copy(b.data[row*b.cols:], src)
}

// Download copies whole rows out.
func (d *Device) Download(dst []float32, from tensor.Buffer, row int) {
	d.begin()
	defer d.end()
	b := from.(*buffer)
	if !(len(dst)%b.cols == 0 && row >= 0 && row*b.cols+len(dst) <= len(b.data)) {
		bug("download %d floats from row %d of %dx%d", len(dst), row, b.rows, b.cols)
	}
	copy(dst, b.data[row*b.cols:])
}

// Embed looks rows of a table up.
func (d *Device) Embed(to tensor.Buffer, table tensor.Weight, ids []int32) {
	d.begin()
	defer d.end()
	b, w := to.(*buffer), table.(*weight)
	if !(b.cols == w.cols && b.rows >= len(ids)) {
		bug("embed %d rows of %d into %dx%d", len(ids), w.cols, b.rows, b.cols)
	}
	for i, id := range ids {
		if !(id >= 0 && int(id) < w.rows) {
			bug("embed id %d of a table of %d", id, w.rows)
		}
		w.layout.dequantise(w, b.row(i), int(id)/lanes, int(id)%lanes)
	}
	runtime.KeepAlive(w) // its memory is not the Go heap's
}

// Gather copies rows.
func (d *Device) Gather(to, from tensor.Buffer, rows []int32) {
	d.begin()
	defer d.end()
	dst, src := to.(*buffer), from.(*buffer)
	if !(dst.cols == src.cols && dst.rows >= len(rows)) {
		bug("gather %d rows of %d into %dx%d", len(rows), src.cols, dst.rows, dst.cols)
	}
	for i, r := range rows {
		if !(r >= 0 && int(r) < src.rows) {
			bug("gather row %d of %d", r, src.rows)
		}
		copy(dst.row(i), src.row(int(r)))
	}
}

// Prepare refers to rows and brings them in the 8-bit forms that products with the Act
// asked for before; quantising for the first time waits for a product that needs it.
func (d *Device) Prepare(to tensor.Act, from tensor.Buffer, n int, mode tensor.Activations) {
	d.begin()
	defer d.end()
	a, src := to.(*act), from.(*buffer)
	if !(src.cols == a.cols && n <= a.maxRows && n <= src.rows) {
		bug("prepare %d rows of %d in room for %dx%d", n, src.cols, a.maxRows, a.cols)
	}
	a.n, a.mode, a.quantised, a.x = n, mode, 0, src.data[:n*src.cols]
	d.fill(a, a.asked.under(mode))
}

// quantOp fills the rows of an Act; tile r is row r.
type quantOp struct {
	d     *Device
	a     *act
	forms rowForm
}

// fill brings all rows in the given forms.
func (d *Device) fill(a *act, forms rowForm) {
	if forms == 0 {
		return
	}
	if forms&inRows != 0 {
		a.int8.grow(a.maxRows, a.cols)
	}
	d.quant.a, d.quant.forms = a, forms
	d.rowwise(&d.quant, a.n)
	d.quant.a = nil
	a.quantised |= forms
	a.asked |= forms
}

func (op *quantOp) Tile(_, r int) {
	a := op.a
	x := a.x[r*a.cols : (r+1)*a.cols]
	if op.forms&inGroups != 0 {
		groups := a.cols / group
		op.d.k.quantise(a.eight[r*groups:(r+1)*groups], x)
	}
	if op.forms&inRows != 0 {
		one := a.int8.slice(r, r+1, a.cols)
		op.d.k.quantiseRow(&one.rows[0], one.q, one.outlier, x)
	}
}

// rowwise runs a task of n rows, on all threads if that pays.
func (d *Device) rowwise(t pool.Task, n int) {
	if n < serialRows {
		for i := range n {
			t.Tile(0, i)
		}
		return
	}
	op := &d.runs
	op.task, op.n = t, n
	op.each = min(max(n/(d.pool.Threads()*tilesPerThread), 1), maxRun)
	d.pool.Run(op, (n+op.each-1)/op.each)
	op.task = nil
}

// maxRun is the greatest number of rows that a thread takes at once: taking one costs about
// as much as a short row.
const maxRun = 8

// runsOp makes tiles of each rows of a task whose tiles are n rows.
type runsOp struct {
	task    pool.Task
	n, each int
}

func (op *runsOp) Tile(worker, i int) {
	for r := i * op.each; r < min((i+1)*op.each, op.n); r++ {
		op.task.Tile(worker, r)
	}
}

// normOp is the task of Norm; tile r is row r.
type normOp struct {
	d          *Device
	dst, src   *buffer
	kind       tensor.NormKind
	gain, bias []float32
	eps        float32
}

// Norm normalises rows in groups of the gain's length.
func (d *Device) Norm(to, from tensor.Buffer, n int, s tensor.NormSpec) {
	d.begin()
	defer d.end()
	op := &d.norm
	op.dst, op.src, op.kind, op.eps = to.(*buffer), from.(*buffer), s.Kind, s.Eps
	op.gain, op.bias = floatsOf(s.Gain), floatsOf(s.Bias)
	g := len(op.gain)
	if !(op.dst.cols == op.src.cols && n <= op.dst.rows && n <= op.src.rows) {
		bug("norm %d rows of %dx%d into %dx%d", n, op.src.rows, op.src.cols, op.dst.rows, op.dst.cols)
	}
	if !(g > 0 && op.src.cols%g == 0 && (op.bias == nil || len(op.bias) == g)) {
		bug("norm of rows of %d in groups of %d", op.src.cols, g)
	}
	if !(s.Kind == tensor.LayerNorm || op.bias == nil) {
		bug("an RMS norm has no bias")
	}
	d.rowwise(op, n)
	op.dst, op.src, op.gain, op.bias = nil, nil, nil, nil
}

func (op *normOp) Tile(_, r int) {
	k, g := op.d.k, len(op.gain)
	dst, src := op.dst.row(r), op.src.row(r)
	for i := 0; i < len(src); i += g {
		if op.kind == tensor.RMSNorm {
			k.rmsNorm(dst[i:i+g], src[i:i+g], op.gain, op.eps)
		} else {
			k.layerNorm(dst[i:i+g], src[i:i+g], op.gain, op.bias, op.eps)
		}
	}
}
