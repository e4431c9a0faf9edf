package cpu

import (
	"cmp"
	"runtime"
	"slices"

	"whorl/tensor"
)

// expertsPassFloats bounds the scratch of Experts: batches whose copied rows need more go in
// several passes. At 64 MiB a pass has hundreds of rows, so that reading the weights once a
// pass costs little beside the products.
const expertsPassFloats = 16 << 20

// expertsOp is the task of Experts. Rows of a pass are copied once for each expert they
// choose, to slots that lie in the order of experts, so that an expert's rows meet its
// weights as one product. All experts' products of a phase are one run of the pool.
type expertsOp struct {
	d              *Device
	passFloats     int // if not 0, takes the place of expertsPassFloats, for tests
	phase          expertsPhase
	dst, x, logits *buffer
	spec           *tensor.ExpertsSpec
	hidden, ffn    int
	row0, rows     int // of the pass

	odds   []float32 // softmax of a row, per thread: [threads][experts]
	expert []int32   // chosen, in rising order: [rows][TopK]
	weight []float32 // of the chosen: [rows][TopK]
	slot   []int32   // where the chosen expert sees the row: [rows][TopK]
	row    []int32   // [slots]
	ends   []int32   // first slot after those of each expert
	in     act       // [slots][hidden]
	mid    act       // [slots][ffn]
	out    buffer    // [slots][hidden], and expertsSlack floats
	runs   []expertRun
	active int // how many of runs have rows
}

// expertRun is an expert with rows in this pass, and its two products.
type expertRun struct {
	in, mid              act    // its slots
	midOut, out          buffer // the same memory as mid, and its slots of out
	upProduct, dnProduct [1]tensor.Product
	up, down             productOp
	first                int // first tile in the current phase
}

type expertsPhase uint8

const (
	expertsRoute   expertsPhase = iota // tile: a row
	expertsGather                      // tile: a slot
	expertsUp                          // tile: of a run's product
	expertsMid                         // tile: a slot
	expertsDown                        // tile: of a run's product
	expertsCombine                     // tile: a row
)

// expertsSlack lets the last row of out be read in whole pairs of blocks.
const expertsSlack = 2 * lanes

// Experts adds the outputs of the chosen experts.
func (d *Device) Experts(to, x, logits tensor.Buffer, n int, s *tensor.ExpertsSpec) {
	d.begin()
	defer d.end()
	op := &d.experts
	op.dst, op.x, op.logits, op.spec = to.(*buffer), x.(*buffer), logits.(*buffer), s
	in, mid := op.check(n)
	most := max(1, cmp.Or(op.passFloats, expertsPassFloats)/(s.TopK*(2*op.hidden+op.ffn)))
	for op.row0 = 0; op.row0 < n; op.row0 += op.rows {
		op.rows = min(n-op.row0, most)
		op.pass(in.under(s.Mode), mid.under(s.Mode))
	}
	op.release()
	runtime.KeepAlive(s)
}

// release forgets the operands: the scratch must not keep weights alive.
func (op *expertsOp) release() {
	op.dst, op.x, op.logits, op.spec = nil, nil, nil, nil
	for i := range op.runs {
		r := &op.runs[i]
		r.upProduct[0], r.dnProduct[0] = tensor.Product{}, tensor.Product{}
	}
}

// check panics on operands that do not fit, and tells in which forms the weights of the
// first products and of the second meet rows.
func (op *expertsOp) check(n int) (in, mid rowForm) {
	s := op.spec
	experts := len(s.Gate)
	if !(experts > 0 && len(s.Up) == experts && len(s.Down) == experts && s.TopK > 0 && s.TopK <= experts) {
		bug("%d of %d experts with %d up and %d down", s.TopK, experts, len(s.Up), len(s.Down))
	}
	op.ffn, op.hidden = s.Gate[0].Rows(), s.Gate[0].Cols()
	for e := range s.Gate {
		g, u, d := s.Gate[e].(*weight), s.Up[e].(*weight), s.Down[e].(*weight)
		if !(g.rows == op.ffn && g.cols == op.hidden && u.rows == op.ffn && u.cols == op.hidden && d.rows == op.hidden && d.cols == op.ffn) {
			bug("expert %d has %dx%d, %dx%d and %dx%d, not %dx%d", e, g.rows, g.cols, u.rows, u.cols, d.rows, d.cols, op.ffn, op.hidden)
		}
		in |= g.form | u.form
		mid |= d.form
	}
	for _, b := range [...]*buffer{op.dst, op.x} {
		if !(b.cols == op.hidden && b.rows >= n) {
			bug("experts of %d rows x %d with a buffer %dx%d", n, op.hidden, b.rows, b.cols)
		}
	}
	if !(op.logits.cols == experts && op.logits.rows >= n) {
		bug("%d rows choose of %d experts by logits %dx%d", n, experts, op.logits.rows, op.logits.cols)
	}
	return in, mid
}

// pass does the rows of one pass, which the products need in these forms.
func (op *expertsOp) pass(in, mid rowForm) {
	slots := op.rows * op.spec.TopK
	op.in.quantised, op.mid.quantised = in, mid
	op.grow(slots)
	op.rowwise(expertsRoute, op.rows)
	op.assign()
	op.rowwise(expertsGather, slots)
	op.products(expertsUp)
	if mid != 0 {
		op.rowwise(expertsMid, slots)
	}
	op.products(expertsDown)
	op.rowwise(expertsCombine, op.rows)
}

// grow makes room for a pass.
func (op *expertsOp) grow(slots int) {
	experts := len(op.spec.Gate)
	op.odds = grown(op.odds, experts*op.d.pool.Threads())
	op.expert, op.weight, op.slot, op.row = grown(op.expert, slots), grown(op.weight, slots), grown(op.slot, slots), grown(op.row, slots)
	op.ends = grown(op.ends, experts)
	op.in.grow(slots, op.hidden)
	op.mid.grow(slots, op.ffn)
	op.out = buffer{slots, op.hidden, grown(op.out.data, slots*op.hidden+expertsSlack)}
	if n := min(experts, slots); len(op.runs) < n {
		op.runs = make([]expertRun, n)
		for i := range op.runs {
			r := &op.runs[i]
			r.up = productOp{d: op.d, a: &r.in, products: r.upProduct[:], cuts: make([]cut, 0, 1)}
			r.down = productOp{d: op.d, a: &r.mid, products: r.dnProduct[:], cuts: make([]cut, 0, 1)}
		}
	}
}

// grow makes room in a for n rows, in 8 bits if it is to be quantised.
func (a *act) grow(n, cols int) {
	a.maxRows, a.cols, a.n = n, cols, n
	a.x = grown(a.x, n*cols)
	if a.quantised&inRows != 0 {
		a.int8.grow(n, cols)
	}
	if a.quantised&inGroups != 0 {
		a.eight = grown(a.eight, n*cols/group)
	}
}

// grown is s with n elements, whose values are of no matter.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// slice makes a the rows [from, to) of b.
func (a *act) slice(b *act, from, to int, mode tensor.Activations) {
	*a = act{maxRows: to - from, cols: b.cols, n: to - from, mode: mode, quantised: b.quantised, x: b.x[from*b.cols : to*b.cols]}
	if b.quantised&inRows != 0 {
		a.int8 = b.int8.slice(from, to, b.cols)
	}
	if b.quantised&inGroups != 0 {
		groups := b.cols / group
		a.eight = b.eight[from*groups : to*groups]
	}
}

// assign gives every choice a slot, in the order of experts and then of rows, and sets up
// the products of the experts that were chosen.
func (op *expertsOp) assign() {
	s := op.spec
	clear(op.ends)
	for _, e := range op.expert {
		op.ends[e]++
	}
	runs, from := 0, 0
	for e, count := range op.ends {
		op.ends[e] = int32(from)
		if count == 0 {
			continue
		}
		r, to := &op.runs[runs], from+int(count)
		r.in.slice(&op.in, from, to, s.Mode)
		r.mid.slice(&op.mid, from, to, s.Mode)
		r.midOut = buffer{to - from, op.ffn, r.mid.x}
		r.out = buffer{to - from, op.hidden, op.out.data[from*op.hidden : to*op.hidden]}
		r.upProduct[0] = tensor.Product{W: s.Up[e], Gate: s.Gate[e], Act: s.Act, Dst: &r.midOut}
		r.dnProduct[0] = tensor.Product{W: s.Down[e], Dst: &r.out}
		runs, from = runs+1, to
	}
	for i, e := range op.expert {
		op.slot[i] = op.ends[e]
		op.row[op.ends[e]] = int32(op.row0 + i/s.TopK)
		op.ends[e]++
	}
	op.active = runs
}

func (op *expertsOp) rowwise(p expertsPhase, n int) {
	op.phase = p
	op.d.rowwise(op, n)
}

// products does the first or the second products of all runs.
func (op *expertsOp) products(p expertsPhase) {
	op.phase = p
	tiles := 0
	for i := range op.active {
		r := &op.runs[i]
		r.first = tiles
		product := r.product(p)
		tiles += product.share() * product.panels
	}
	op.d.pool.Run(op, tiles)
}

func (r *expertRun) product(p expertsPhase) *productOp {
	if p == expertsUp {
		return &r.up
	}
	return &r.down
}

func (op *expertsOp) Tile(worker, i int) {
	switch op.phase {
	case expertsRoute:
		op.route(worker, i)
	case expertsGather:
		copy(op.in.x[i*op.hidden:(i+1)*op.hidden], op.x.row(int(op.row[i])))
		if op.in.quantised != 0 {
			op.quantise(&op.in, worker, i)
		}
	case expertsMid:
		op.quantise(&op.mid, worker, i)
	case expertsUp, expertsDown:
		r := op.active - 1
		for op.runs[r].first > i {
			r--
		}
		op.runs[r].product(op.phase).Tile(worker, i-op.runs[r].first)
	case expertsCombine:
		op.combine(worker, i)
	}
}

// quantise brings row i of a in 8 bits.
func (op *expertsOp) quantise(a *act, worker, i int) {
	quant := quantOp{d: op.d, a: a, forms: a.quantised}
	quant.Tile(worker, i)
}

// route chooses the experts of row i of the pass and weighs them.
func (op *expertsOp) route(worker, i int) {
	s, logits := op.spec, op.logits.row(op.row0+i)
	chosen, weight := op.expert[i*s.TopK:(i+1)*s.TopK], op.weight[i*s.TopK:(i+1)*s.TopK]
	choose(chosen, logits)
	odds := op.odds[worker*len(logits):][:len(logits)]
	copy(odds, logits)
	_, l := op.d.k.softmax(odds, 1)
	inv, sum := 1/l, float32(0)
	for k, e := range chosen {
		weight[k] = float32(odds[e] * inv)
		sum += weight[k]
	}
	if s.Renormalise {
		for k := range weight {
			weight[k] /= sum
		}
	}
}

// choose fills chosen with the indices of the greatest logits, in rising order. Of equal
// logits the first counts as greater.
func choose(chosen []int32, logits []float32) {
	n := 0 // chosen so far, the greatest first
	for e, v := range logits {
		if n == len(chosen) && !(v > logits[chosen[n-1]]) {
			continue
		}
		n = min(n+1, len(chosen))
		at := n - 1
		for ; at > 0 && v > logits[chosen[at-1]]; at-- {
			chosen[at] = chosen[at-1]
		}
		chosen[at] = int32(e)
	}
	slices.Sort(chosen)
}

// combinePiece is how many columns are added up at a time: their sums stay in the
// first-level cache. It is a multiple of two blocks.
const combinePiece = 1024

// combine adds the weighted outputs of row i's experts to dst, a piece at a time.
func (op *expertsOp) combine(worker, i int) {
	k, s := op.d.k, op.spec
	y := op.dst.row(op.row0 + i)
	acc := op.d.scratch[worker].acc[:combinePiece]
	for from := 0; from < op.hidden; from += combinePiece {
		n := min(op.hidden-from, combinePiece)
		blocks := (n + 2*lanes - 1) / (2 * lanes) * 2
		sum := acc[:blocks*lanes]
		clear(sum)
		for j := i * s.TopK; j < (i+1)*s.TopK; j++ {
			// A float product of one column: its weights are the expert's output.
			k.f32(sum, len(sum), op.out.data[int(op.slot[j])*op.hidden+from:], lanes, blocks, op.weight[j:], 1, 1, 1, nil)
		}
		sum = sum[:n]
		if s.Scale != 0 {
			k.scale(sum, sum, s.Scale)
		}
		k.add(y[from:from+n], y[from:from+n], sum)
	}
}
