package tensortest

import (
	"testing"

	"whorl/tensor"
)

// chunks: the attention of a row has the same bits whatever other rows come with it: its
// neighbours of a prompt, rows of other sequences, or none.
func chunks(t *testing.T, d tensor.Device) {
	for _, a := range append(halves(), attends...) {
		whole := a.open(d)
		whole.run(1 << 20)
		alone := a
		alone.rows = make([]int, len(a.rows))
		for i := range alone.rows {
			alone.rows[i] = 1
		}
		for _, chunk := range []int{1, 3, 65, 257} {
			x := alone.open(d)
			x.run(chunk)
			for seq := range x.out {
				if k := differ(x.out[seq], whole.out[seq]); k >= 0 {
					t.Errorf("%s: output %d of position %d of sequence %d differs with chunks of %d",
						a.name(), k%(a.heads*a.dim), k/(a.heads*a.dim), seq, chunk)
				}
			}
		}
	}
}

// unseen: nothing shows of what a page held before, nor of what lies before a window.
func unseen(t *testing.T, d tensor.Device) {
	for i, a := range append(halves(), attends...) {
		if i >= 4+len(halves()) && a.variant.window == 0 {
			continue
		}
		want := a.run(d, 1<<20)
		x := a.open(d)
		for seq, v := range x.views {
			x.spoil(seq, len(v.Pages)*tensor.PageTokens)
		}
		x.begin(1 << 20)
		for seq, n := range a.lengths {
			if before := n - a.rows[seq] - a.variant.window + 1; a.variant.window > 0 && before > 0 {
				x.spoil(seq, before)
			}
		}
		if k := differ(x.finish(), want); k >= 0 {
			t.Errorf("%s: output %d sees what is none of its business", a.name(), k)
		}
	}
}

// copies: a sequence goes on alike on copies of its pages, and what another writes to the
// pages they were copied from does not reach it.
func copies(t *testing.T, d tensor.Device) {
	for _, a := range append(halves(), attends[:4]...) {
		want := a.run(d, 1<<20)
		x := a.open(d)
		pages := 0
		for _, v := range x.views {
			pages += len(v.Pages)
		}
		x.kv = must(d.NewKV(tensor.KVSpec{Layers: 3, KVHeads: a.kvHeads, HeadDim: a.dim, Pages: 2 * pagePrime(pages), DType: a.variant.cache}))
		x.begin(1 << 20)
		var dst, src []int32
		for _, v := range x.views {
			for _, p := range v.Pages {
				src, dst = append(src, p), append(dst, p+int32(pagePrime(pages)))
			}
		}
		d.CopyPages(x.kv, dst, src)
		for seq, v := range x.views {
			x.spoil(seq, len(v.Pages)*tensor.PageTokens)
		}
		for _, v := range x.views {
			for i := range v.Pages {
				v.Pages[i] += int32(pagePrime(pages))
			}
		}
		if k := differ(x.finish(), want); k >= 0 {
			t.Errorf("%s: output %d differs on copies of the pages", a.name(), k)
		}
	}
}

// windows: a window that holds everything changes no bit, and what a window holds is all
// that counts: from a split's start on, it is like a sequence that begins there.
func windows(t *testing.T, d tensor.Device) {
	a := attend{4, 2, 16, 8, []int{270}, []int{3}, variant{softcap: 2}}
	want := a.run(d, 1<<20)
	a.variant.window = 270
	if k := differ(a.run(d, 1<<20), want); k >= 0 {
		t.Errorf("output %d of %s differs without its window", k, a.name())
	}
	const n = tensor.AttendSplit // hidden by the window
	a = attend{2, 1, 16, 0, []int{n + 300}, []int{1}, variant{window: 300}}
	x := a.open(d)
	windowed := x.run(1 << 20)
	x.spec.Window, x.lengths = 0, []int{300}
	x.views[0].Pages = x.views[0].Pages[n/tensor.PageTokens:] // where the window's keys are
	x.shift = n
	if k := differ(x.finish(), windowed); k >= 0 {
		t.Errorf("output %d of %s differs from that of the window's positions alone", k, a.name())
	}
}

// caches: a BF16 cache gives the bits of an F32 one in which what is written was rounded
// before, and takes half of its memory.
func caches(t *testing.T, d tensor.Device) {
	for _, a := range halves() {
		half, full := a.open(d), a
		full.variant.cache = tensor.F32
		x := full.open(d)
		x.rounded = true
		if k := differ(half.run(64), x.run(64)); k >= 0 {
			t.Errorf("%s: output %d is not that of rounded keys and values", a.name(), k)
		}
		if h, f := half.kv.PageBytes(), x.kv.PageBytes(); 2*h != f {
			t.Errorf("%s: a page has %d bytes, of floats %d", a.name(), h, f)
		}
	}
	for _, wrong := range []tensor.DType{tensor.F16, tensor.Q8_0, 99} {
		if _, err := d.NewKV(tensor.KVSpec{Layers: 1, KVHeads: 1, HeadDim: 16, Pages: 1, DType: wrong}); err == nil {
			t.Errorf("a cache of %v was made", wrong)
		}
	}
}
