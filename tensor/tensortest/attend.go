package tensortest

import (
	"fmt"
	"math"
	"slices"

	"whorl/tensor"
	"whorl/tensor/quant"
)

// attend is an attention case: sequences of the given lengths, the last rows of each
// in one batch on top of what was written before.
type attend struct {
	heads, kvHeads, dim, rotary int
	lengths                     []int // positions of each sequence
	rows                        []int // how many of them come in the last batch
	variant                     variant
}

// variant is how a case differs from plain attention.
type variant struct {
	window  int
	softcap float32
	alibi   bool
	bf16    bool // ALiBi's terms are
	ropes   bool // every other sequence has a rotation of its own
	cache   tensor.DType
}

var attends = []attend{
	{1, 1, 16, 0, []int{1}, []int{1}, variant{}},
	{4, 2, 16, 16, []int{9}, []int{9}, variant{}},
	{9, 3, 64, 64, []int{70}, []int{3}, variant{}},
	{4, 4, 32, 16, []int{5, 130, 1}, []int{5, 1, 1}, variant{}},
	{4, 2, 40, 40, []int{270}, []int{270}, variant{}},
	{4, 1, 32, 32, []int{600, 257}, []int{1, 2}, variant{}}, // more than one split
	{2, 1, 128, 128, []int{66}, []int{2}, variant{}},
	{26, 2, 16, 16, []int{40}, []int{2}, variant{}}, // more heads share a key than a tile has rows
	{3, 1, 20, 10, []int{258}, []int{5}, variant{}}, // heads that fill no vector, rows around a split's end

	{4, 2, 16, 16, []int{9}, []int{9}, variant{window: 1}},
	{4, 2, 16, 16, []int{300}, []int{300}, variant{window: 5}},         // fewer than the rows that walk together
	{2, 2, 8, 0, []int{520, 600}, []int{20, 1}, variant{window: 256}},  // rows that begin in different splits
	{2, 1, 16, 16, []int{800, 257}, []int{1, 2}, variant{window: 300}}, // splits that nobody sees
	{4, 2, 16, 16, []int{70, 1}, []int{3, 1}, variant{softcap: 1.5}},
	{6, 3, 16, 0, []int{300, 20}, []int{5, 1}, variant{alibi: true}},
	{6, 3, 16, 0, []int{300, 20}, []int{5, 1}, variant{alibi: true, bf16: true}},
	{4, 2, 16, 8, []int{40, 50, 60}, []int{2, 1, 3}, variant{ropes: true}},
	{4, 2, 12, 8, []int{530, 10}, []int{30, 2}, variant{window: 200, softcap: 2, alibi: true, bf16: true, ropes: true}},
}

// halves are some of them with a BF16 cache.
func halves() []attend {
	var some []attend
	for _, i := range []int{0, 2, 3, 7, 8, 11, len(attends) - 1} {
		a := attends[i]
		a.variant.cache = tensor.BF16
		some = append(some, a)
	}
	return some
}

func (a attend) testCase() testCase {
	tol := 256 * 0x1p-24 // rotation, scores of up to 4 and their exp err together
	if a.rotary > 0 && a.variant.cache == tensor.BF16 {
		tol = 0x1p-10 // a rotated key beside a tie is rounded to either of two bfloat16
	}
	return testCase{
		name: a.name(), tol: tol,
		run: func(dev tensor.Device) ([]float32, float64) { return a.run(dev, 1<<20), 4 },
	}
}

func (a attend) name() string {
	s := fmt.Sprintf("attend/%dx%d/%d/%d/%v", a.heads, a.kvHeads, a.dim, a.rotary, a.lengths)
	v := a.variant
	v.cache = tensor.F32
	if v != (variant{}) {
		s += fmt.Sprintf("/window=%d/softcap=%v/alibi=%v,%v/ropes=%v", v.window, v.softcap, v.alibi, v.bf16, v.ropes)
	}
	if a.variant.cache != tensor.F32 {
		s += "/" + a.variant.cache.String()
	}
	return s
}

// spec is the attention of layer 1 on a device.
func (a attend) spec(dev tensor.Device) tensor.AttendSpec {
	s := tensor.AttendSpec{Layer: 1, Heads: a.heads, KVHeads: a.kvHeads, HeadDim: a.dim, Scale: 0.3,
		Window: a.variant.window, Softcap: a.variant.softcap}
	if a.rotary > 0 {
		s.Rope = a.rope(dev, 1)
	}
	if a.variant.alibi {
		slopes := make([]float32, a.heads)
		for i := range slopes {
			slopes[i] = 0.75 / float32(int(1)<<i)
		}
		s.Alibi = &tensor.AlibiSpec{Slopes: must(dev.LoadVector(slopes)), BF16: a.variant.bf16}
	}
	return s
}

// rope is a rotation; base tells one from another.
func (a attend) rope(dev tensor.Device, base float32) tensor.Rope {
	freq := make([]float32, a.rotary/2)
	for i := range freq {
		freq[i] = base / float32(1+i*i)
	}
	return must(dev.NewRope(tensor.RopeSpec{HeadDim: a.dim, RotaryDim: a.rotary, InvFreq: freq, Scale: 1}))
}

// run feeds the sequences in chunks of at most chunk rows, then the last batch, whose
// outputs it returns.
func (a attend) run(dev tensor.Device, chunk int) []float32 { return a.open(dev).run(chunk) }

// attention is a case under way on a device.
type attention struct {
	attend
	dev   tensor.Device
	spec  tensor.AttendSpec
	kv    tensor.KV
	views []tensor.KVView
	out   [][]float32 // of each sequence: the outputs of its positions so far
	shift uint64      // position 0 has the values of this one

	rounded bool // keys and values are rounded to bfloat16 before they are written
}

// open reserves pages for the sequences, handed out in a shuffled order.
func (a attend) open(dev tensor.Device) *attention {
	x := &attention{attend: a, dev: dev, spec: a.spec(dev), out: make([][]float32, len(a.lengths))}
	pages := 0
	for seq, n := range a.lengths {
		var v tensor.KVView
		if a.variant.ropes && seq%2 == 0 {
			v.Rope = a.rope(dev, 0.5)
		}
		for range (n + tensor.PageTokens - 1) / tensor.PageTokens {
			v.Pages = append(v.Pages, int32(pages))
			pages++
		}
		x.views = append(x.views, v)
	}
	for _, v := range x.views {
		for i, p := range v.Pages {
			v.Pages[i] = int32((int(p)*5 + 3) % pagePrime(pages))
		}
	}
	x.kv = must(dev.NewKV(tensor.KVSpec{Layers: 3, KVHeads: a.kvHeads, HeadDim: a.dim, Pages: pagePrime(pages), DType: a.variant.cache}))
	return x
}

func (x *attention) run(chunk int) []float32 {
	x.begin(chunk)
	return x.finish()
}

// begin feeds what comes before the last batch.
func (x *attention) begin(chunk int) {
	for seq, n := range x.lengths {
		end := n - x.rows[seq]
		for from := 0; from < end; from += chunk {
			x.step(rowsOf(nil, seq, from, min(from+chunk, end)))
		}
	}
}

// finish feeds the last batch.
func (x *attention) finish() []float32 {
	var last []tensor.Row
	for seq, n := range x.lengths {
		last = rowsOf(last, seq, n-x.rows[seq], n)
	}
	return x.step(last)
}

// rowsOf appends the rows of positions [from, to).
func rowsOf(rows []tensor.Row, seq, from, to int) []tensor.Row {
	for p := from; p < to; p++ {
		rows = append(rows, tensor.Row{Seq: int32(seq), Pos: int32(p)})
	}
	return rows
}

// step runs one batch; the values of a row depend only on its sequence and position.
func (x *attention) step(rows []tensor.Row) []float32 {
	n := len(rows)
	values := func(kind uint64, width int) tensor.Buffer {
		var all []float32
		for _, r := range rows {
			all = append(all, floats(kind<<40|uint64(r.Seq)<<32|(uint64(r.Pos)+x.shift), width, 1)...)
		}
		return up(x.dev, n, width, all)
	}
	width := x.heads * x.dim
	dst := must(x.dev.NewBuffer(n, width))
	q, k, v := values(1, width), values(2, x.kvHeads*x.dim), values(3, x.kvHeads*x.dim)
	b, spec := &tensor.Batch{Rows: rows, Seqs: x.views}, x.spec
	if x.rounded {
		x.dev.Attend(dst, q, k, v, x.kv, b, spec) // rotates
		k, v, spec.Rope = rounded(x.dev, k), rounded(x.dev, v), nil
		b.Seqs = slices.Clone(b.Seqs)
		for i := range b.Seqs {
			b.Seqs[i].Rope = nil
		}
	}
	x.dev.Attend(dst, q, k, v, x.kv, b, spec)
	out := down(x.dev, dst)
	for i, r := range rows {
		x.out[r.Seq] = append(x.out[r.Seq], out[i*width:(i+1)*width]...)
	}
	return out
}

// rounded is a copy of a buffer, rounded to bfloat16.
func rounded(dev tensor.Device, b tensor.Buffer) tensor.Buffer {
	values := down(dev, b)
	for i, v := range values {
		values[i] = quant.BF16ToF32(quant.F32ToBF16(v))
	}
	return up(dev, b.Rows(), b.Cols(), values)
}

// spoil writes NaN to the keys and values of positions [0, to) of a sequence.
func (x *attention) spoil(seq, to int) {
	rows := rowsOf(nil, seq, 0, to)
	nan := floats(1, to*x.heads*x.dim, float32(math.NaN()))
	values := func(heads int) tensor.Buffer { return up(x.dev, to, heads*x.dim, nan[:to*heads*x.dim]) }
	x.dev.Attend(values(x.heads), values(x.heads), values(x.kvHeads), values(x.kvHeads), x.kv,
		&tensor.Batch{Rows: rows, Seqs: x.views}, x.spec)
}

// pagePrime is a prime above n and 5: multiplying by 5 modulo it permutes the pages.
func pagePrime(n int) int {
	for p := max(n+1, 7); ; p++ {
		prime := true
		for q := 2; q*q <= p; q++ {
			prime = prime && p%q != 0
		}
		if prime {
			return p
		}
	}
}
