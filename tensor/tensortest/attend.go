package tensortest

import (
	"fmt"
	"math"

	"whorl/tensor"
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

func (a attend) testCase() testCase {
	return testCase{
		name: a.name(), tol: 256 * 0x1p-24, // rotation, scores of up to 4 and their exp err together
		run: func(dev tensor.Device) ([]float32, float64) { return a.run(dev, 1<<20), 4 },
	}
}

func (a attend) name() string {
	s := fmt.Sprintf("attend/%dx%d/%d/%d/%v", a.heads, a.kvHeads, a.dim, a.rotary, a.lengths)
	if v := a.variant; v != (variant{}) {
		s += fmt.Sprintf("/window=%d/softcap=%v/alibi=%v,%v/ropes=%v", v.window, v.softcap, v.alibi, v.bf16, v.ropes)
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
// outputs it returns. Pages are handed out in a shuffled order.
func (a attend) run(dev tensor.Device, chunk int) []float32 { return a.runIn(dev, chunk, false) }

// runIn runs in a fresh pool or in a used one, whose pages an earlier sequence left full of
// NaN: nothing of it may be seen.
func (a attend) runIn(dev tensor.Device, chunk int, used bool) []float32 {
	spec := a.spec(dev)
	pages := 0
	var views []tensor.KVView
	for seq, n := range a.lengths {
		var v tensor.KVView
		if a.variant.ropes && seq%2 == 0 {
			v.Rope = a.rope(dev, 0.5)
		}
		for range (n + tensor.PageTokens - 1) / tensor.PageTokens {
			v.Pages = append(v.Pages, int32(pages))
			pages++
		}
		views = append(views, v)
	}
	for _, v := range views {
		for i, p := range v.Pages {
			v.Pages[i] = int32((int(p)*5 + 3) % pagePrime(pages))
		}
	}
	kv := must(dev.NewKV(tensor.KVSpec{Layers: 3, KVHeads: a.kvHeads, HeadDim: a.dim, Pages: pagePrime(pages)}))
	if used {
		a.spoil(dev, kv, views)
	}
	for seq, n := range a.lengths {
		for from := 0; from < n-a.rows[seq]; from += chunk {
			b := &tensor.Batch{Seqs: views}
			for p := from; p < min(from+chunk, n-a.rows[seq]); p++ {
				b.Rows = append(b.Rows, tensor.Row{Seq: int32(seq), Pos: int32(p)})
			}
			a.step(dev, kv, b, spec)
		}
	}
	last := &tensor.Batch{Seqs: views}
	for seq, n := range a.lengths {
		for p := n - a.rows[seq]; p < n; p++ {
			last.Rows = append(last.Rows, tensor.Row{Seq: int32(seq), Pos: int32(p)})
		}
	}
	return a.step(dev, kv, last, spec)
}

// step runs one batch; the values of a row depend only on its sequence and position.
func (a attend) step(dev tensor.Device, kv tensor.KV, b *tensor.Batch, s tensor.AttendSpec) []float32 {
	n := len(b.Rows)
	rows := func(kind uint64, width int) tensor.Buffer {
		var all []float32
		for _, r := range b.Rows {
			all = append(all, floats(kind<<40|uint64(r.Seq)<<32|uint64(r.Pos), width, 1)...)
		}
		return up(dev, n, width, all)
	}
	dst := must(dev.NewBuffer(n, a.heads*a.dim))
	dev.Attend(dst, rows(1, a.heads*a.dim), rows(2, a.kvHeads*a.dim), rows(3, a.kvHeads*a.dim), kv, b, s)
	return down(dev, dst)
}

// spoil writes NaN to all positions of the layer.
func (a attend) spoil(dev tensor.Device, kv tensor.KV, views []tensor.KVView) {
	b := &tensor.Batch{Seqs: views}
	for seq, v := range views {
		for p := range len(v.Pages) * tensor.PageTokens {
			b.Rows = append(b.Rows, tensor.Row{Seq: int32(seq), Pos: int32(p)})
		}
	}
	n := len(b.Rows)
	nan := floats(1, n*a.heads*a.dim, float32(math.NaN()))
	rows := func(heads int) tensor.Buffer { return up(dev, n, heads*a.dim, nan[:n*heads*a.dim]) }
	s := tensor.AttendSpec{Layer: 1, Heads: a.heads, KVHeads: a.kvHeads, HeadDim: a.dim, Scale: 1}
	dev.Attend(rows(a.heads), rows(a.heads), rows(a.kvHeads), rows(a.kvHeads), kv, b, s)
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
