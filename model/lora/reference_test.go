package lora_test

import (
	"math"
	"path/filepath"
	"testing"

	"whorl/internal/fixture"
	"whorl/model"
	"whorl/model/lora"
	"whorl/model/nn"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

// decided and blockTolerance are those of the tests of package model, with their reasons.
const (
	decided        = 1e-3
	blockTolerance = 1e-5
)

// ref is what ../testdata/record.py writes of an adapted model.
type ref struct {
	Prompts []struct {
		IDs     []int32   `json:"ids"`
		New     []int32   `json:"new"`
		Margins []float64 `json:"margins"`
	} `json:"prompts"`
	Blocks struct {
		IDs    []int32       `json:"ids"`
		Rows   [][][]float32 `json:"rows"` // [block + 1][token][hidden]
		Logits [][]float32   `json:"logits"`
	} `json:"blocks"`
}

func readRef(t *testing.T, name string) ref {
	t.Helper()
	return fixture.JSON[ref](t, filepath.Join("testdata", name, "ref.json.gz"))
}

const (
	rigRows  = 160
	rigPages = 64
)

// rig is a whole model with adapters on the CPU device.
type rig struct {
	t      *testing.T
	ck     *model.Checkpoint
	dev    tensor.Device
	blocks []*model.Block
	head   *model.Head
	ws     *model.Workspace
	kv     tensor.KV
	loras  map[string][]*nn.LoRA // by adapter and block
	pages  int32
}

func newRig(t *testing.T, path string, o model.LoadOptions, adapters ...string) *rig {
	t.Helper()
	dev, err := cpu.Open(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	r := &rig{t: t, ck: openModel(t, path), dev: dev, loras: map[string][]*nn.LoRA{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r.ws, err = r.ck.Config.NewWorkspace(dev, rigRows)
	must(err)
	for i := range r.ck.Config.Layers {
		b, err := r.ck.LoadBlock(dev, i, o)
		must(err)
		r.blocks = append(r.blocks, b)
	}
	for _, name := range adapters {
		a, err := lora.Open(filepath.Join("testdata", name), r.ck)
		must(err)
		for i := range r.ck.Config.Layers {
			l, err := a.LoadBlock(dev, i)
			must(err)
			r.loras[name] = append(r.loras[name], l)
			if l != nil {
				must(r.ws.ReserveLoRA(dev, r.ck.Config.Block(i), l))
			}
		}
		must(a.Close()) // what was loaded lives on
	}
	r.head, err = r.ck.LoadHead(dev, o)
	must(err)
	r.kv, err = dev.NewKV(r.ck.Config.KVSpec(len(r.blocks), rigPages, tensor.F32))
	must(err)
	return r
}

// part is new ids of a sequence that an adapter ("" for none) belongs to.
type part struct {
	adapter string
	view    tensor.KVView
	pos     int
	ids     []int32
}

// sequence begins a text of up to n positions.
func (r *rig) sequence(adapter string, n int, ids []int32) *part {
	p := &part{adapter: adapter, ids: ids}
	pages := int32(n+tensor.PageTokens-1) / tensor.PageTokens
	if r.pages+pages > rigPages {
		r.pages = 0
	}
	for range pages {
		p.view.Pages = append(p.view.Pages, r.pages)
		r.pages++
	}
	return p
}

// hidden advances sequences in one ragged step and gives the output of the last block.
// each, if not nil, sees the rows after the embedding and every block.
func (r *rig) hidden(mode tensor.Activations, each func(i int, rows []float32), parts ...*part) []float32 {
	r.t.Helper()
	var b tensor.Batch
	var ids []int32
	rows := map[string][]int32{}
	for i, p := range parts {
		b.Seqs = append(b.Seqs, p.view)
		for j := range p.ids {
			rows[p.adapter] = append(rows[p.adapter], int32(len(b.Rows)))
			b.Rows = append(b.Rows, tensor.Row{Seq: int32(i), Pos: int32(p.pos + j)})
		}
		p.pos += len(p.ids)
		ids = append(ids, p.ids...)
	}
	x := make([]float32, len(ids)*r.ck.Config.Hidden)
	if err := r.head.Embed(x, ids); err != nil {
		r.t.Fatal(err)
	}
	if each != nil {
		each(0, x)
	}
	r.dev.Upload(r.ws.X, 0, x)
	for i, block := range r.blocks {
		var adapted []nn.Adapted
		for name, loras := range r.loras {
			if loras[i] != nil && len(rows[name]) > 0 {
				adapted = append(adapted, nn.Adapted{LoRA: loras[i], Rows: rows[name]})
			}
		}
		block.Forward(r.ws, &b, r.ws.X, r.kv, i, mode, adapted...)
		if each != nil {
			r.dev.Download(x, r.ws.X, 0)
			each(i+1, x)
		}
	}
	r.dev.Download(x, r.ws.X, 0)
	if err := r.dev.Sync(); err != nil {
		r.t.Fatal(err)
	}
	return x
}

func (r *rig) logits(mode tensor.Activations, hidden []float32) []float32 {
	r.t.Helper()
	n := len(hidden) / r.ck.Config.Hidden
	out := make([]float32, n*r.ck.Config.Vocab)
	if err := r.head.Logits(out, hidden, n, mode); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) greedy(p *part, n int) []int32 {
	r.t.Helper()
	var out []int32
	for range n {
		h := r.hidden(tensor.ActF32, nil, p)
		logits := r.logits(tensor.ActF32, h[len(h)-r.ck.Config.Hidden:])
		best := 0
		for i, v := range logits {
			if v > logits[best] {
				best = i
			}
		}
		out = append(out, int32(best))
		p.ids = out[len(out)-1:]
	}
	return out
}

// An adapted model is what PEFT makes of it: after every block, in its logits, and
// in the ids that it chooses.
func TestEqualsReference(t *testing.T) {
	for _, f := range adapters {
		t.Run(f.name, func(t *testing.T) {
			r, want := newRig(t, f.base, model.LoadOptions{}, f.name), readRef(t, f.name)
			h := r.hidden(tensor.ActF32, func(i int, rows []float32) {
				if diff := farthest(rows, want.Blocks.Rows[i]); !(diff <= blockTolerance) {
					t.Errorf("after block %d (0 is the embedding) rows are off by %g of their largest value", i, diff)
				}
			}, r.sequence(f.name, 16, want.Blocks.IDs))
			if diff := farthest(r.logits(tensor.ActF32, h), want.Blocks.Logits); !(diff <= blockTolerance) {
				t.Errorf("logits are off by %g of their largest value", diff)
			}
			compared, all := 0, 0
			for i, p := range want.Prompts {
				all += len(p.New)
				for j, got := range r.greedy(r.sequence(f.name, len(p.IDs)+len(p.New), p.IDs), len(p.New)) {
					if got != p.New[j] {
						if p.Margins[j] >= decided {
							t.Errorf("prompt %d: id %d is %d, the reference has %d by a margin of %g", i, j, got, p.New[j], p.Margins[j])
						}
						break
					}
					compared++
				}
			}
			if compared < all*9/10 {
				t.Errorf("only %d of %d ids were compared", compared, all)
			}
		})
	}
}

// farthest is the largest difference, as a part of the largest value of the row.
func farthest(got []float32, want [][]float32) float64 {
	worst := 0.0
	for i, row := range want {
		var top, diff float64
		for j, w := range row {
			top = max(top, math.Abs(float64(w)))
			diff = max(diff, math.Abs(float64(got[i*len(row)+j]-w)))
		}
		worst = max(worst, diff/top)
	}
	return worst
}

func someIDs(n, vocab, seed int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*7 + i*13 + seed*31) % vocab)
	}
	return ids
}

// Sequences of two adapters and of none share steps, prefills with decodes, and each row
// has the bits that it has alone. Without adapter those are the bits of a model that never
// saw one: of the fused path, on float and on quantised weights.
func TestMixedStepsKeepBits(t *testing.T) {
	for _, quant := range []string{"none", "int8", "q8_0", "q4_0"} {
		for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
			o := model.LoadOptions{Quant: quant}
			r := newRig(t, toy, o, "toy-list", "toy-regex")
			vocab, hidden := r.ck.Config.Vocab, r.ck.Config.Hidden
			kinds := []string{"", "toy-list", "toy-regex", ""}
			lengths := []int{9, 70, 5, 33} // one is longer than what goes through A and B at once
			alone := make([][]float32, len(kinds))
			for i, kind := range kinds {
				rig := r
				if kind == "" {
					rig = newRig(t, toy, o)
				}
				ids := someIDs(lengths[i]+1, vocab, i)
				p := rig.sequence(kind, len(ids), ids[:lengths[i]])
				alone[i] = append(alone[i], rig.hidden(mode, nil, p)...)
				p.ids = ids[lengths[i]:]
				alone[i] = append(alone[i], rig.hidden(mode, nil, p)...)
			}
			var parts []*part
			for i, kind := range kinds {
				parts = append(parts, r.sequence(kind, lengths[i]+1, someIDs(lengths[i], vocab, i)))
			}
			together := make([][]float32, len(kinds))
			for step := range 2 {
				rows := r.hidden(mode, nil, parts...)
				for i, p := range parts {
					n := len(p.ids) * hidden
					together[i] = append(together[i], rows[:n]...)
					rows = rows[n:]
					if step == 0 {
						p.ids = someIDs(lengths[i]+1, vocab, i)[lengths[i]:]
					}
				}
			}
			for i, kind := range kinds {
				if at := firstDifference(together[i], alone[i]); at >= 0 {
					t.Errorf("quant %s, mode %v: sequence %d (adapter %q) has other bits in a mixed step from value %d on", quant, mode, i, kind, at)
				}
			}
			changed := r.hidden(mode, nil, r.sequence("toy-list", lengths[0], someIDs(lengths[0], vocab, 0)))
			if firstDifference(changed, alone[0]) < 0 {
				t.Error("the adapter changes nothing")
			}
		}
	}
}

// A prompt in one step or id by id: the same bits.
func TestChunksKeepBits(t *testing.T) {
	r := newRig(t, toy, model.LoadOptions{Quant: "q8_0"}, "toy-regex")
	ids := someIDs(40, r.ck.Config.Vocab, 3)
	whole := r.hidden(tensor.Act8, nil, r.sequence("toy-regex", len(ids), ids))
	p := r.sequence("toy-regex", len(ids), nil)
	var single []float32
	for _, id := range ids {
		p.ids = []int32{id}
		single = append(single, r.hidden(tensor.Act8, nil, p)...)
	}
	if at := firstDifference(single, whole); at >= 0 {
		t.Errorf("other bits from value %d on", at)
	}
}

func firstDifference(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

func TestAdaptedStepAllocatesNothing(t *testing.T) {
	r := newRig(t, toy, model.LoadOptions{}, "toy-list", "toy-regex")
	batch := &tensor.Batch{
		Rows: []tensor.Row{{Seq: 0, Pos: 3}, {Seq: 1, Pos: 7}, {Seq: 1, Pos: 8}, {Seq: 2, Pos: 0}},
		Seqs: []tensor.KVView{{Pages: []int32{0}}, {Pages: []int32{1}}, {Pages: []int32{2}}},
	}
	adapted := []nn.Adapted{
		{LoRA: r.loras["toy-list"][0], Rows: []int32{0}},
		{LoRA: r.loras["toy-regex"][0], Rows: []int32{1, 2}},
	}
	step := func() { r.blocks[0].Forward(r.ws, batch, r.ws.X, r.kv, 0, tensor.Act8, adapted...) }
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("a step with adapters makes %v allocations", n)
	}
	if err := r.dev.Sync(); err != nil {
		t.Fatal(err)
	}
}
