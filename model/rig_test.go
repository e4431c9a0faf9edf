package model_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"whorl/model"
	"whorl/model/families"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

// ref is what testdata/record.py writes.
type ref struct {
	Prompts []prompt `json:"prompts"`
	Blocks  struct {
		IDs    []int32       `json:"ids"`
		Rows   [][][]float32 `json:"rows"` // [block + 1][token][hidden]
		Logits [][]float32   `json:"logits"`
	} `json:"blocks"`
	Scores []struct {
		IDs      []int32    `json:"ids"`
		Logprobs []*float64 `json:"logprobs"`
	} `json:"scores"`
}

type prompt struct {
	IDs     []int32   `json:"ids"`
	New     []int32   `json:"new"`
	Margins []float64 `json:"margins"`
}

// rig is a whole model on the CPU device, with room for one sequence or several.
type rig struct {
	t      testing.TB
	ck     *model.Checkpoint
	dev    tensor.Device
	blocks []*model.Block
	head   *model.Head
	ws     *model.Workspace
	kv     tensor.KV
	pages  int32 // of kv that sequences have
}

const (
	rigRows  = 320 // of one step; the longest prompt has 304
	rigPages = 80
)

func openDevice(t testing.TB, threads int) tensor.Device {
	t.Helper()
	dev, err := cpu.Open(cpu.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func open(t testing.TB, path string) *model.Checkpoint {
	t.Helper()
	ck, err := families.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck
}

func newRig(t testing.TB, path string, dev tensor.Device, o model.LoadOptions) *rig {
	t.Helper()
	r := &rig{t: t, ck: open(t, path), dev: dev}
	var err error
	for i := range r.ck.Config.Layers {
		b, err := r.ck.LoadBlock(dev, i, o)
		if err != nil {
			t.Fatal(err)
		}
		r.blocks = append(r.blocks, b)
	}
	if r.head, err = r.ck.LoadHead(dev, o); err != nil {
		t.Fatal(err)
	}
	if r.ws, err = r.ck.Config.NewWorkspace(dev, rigRows); err != nil {
		t.Fatal(err)
	}
	r.cache(tensor.F32)
	return r
}

// cache makes a new KV pool of a type.
func (r *rig) cache(d tensor.DType) {
	r.t.Helper()
	kv, err := r.dev.NewKV(r.ck.Config.KVSpec(len(r.blocks), rigPages, d))
	if err != nil {
		r.t.Fatal(err)
	}
	r.kv = kv
}

// sequence is what the tests' generation loop keeps of one text.
type sequence struct {
	view tensor.KVView
	pos  int
}

// sequence reserves pages for n positions. Once the pool is used up it begins anew: tests
// hold few sequences at a time.
func (r *rig) sequence(n int) *sequence {
	pages := int32(n+tensor.PageTokens-1) / tensor.PageTokens
	if r.pages+pages > rigPages {
		r.pages = 0
	}
	s := &sequence{}
	rope, err := r.ck.SessionRope(r.dev, n)
	if err != nil {
		r.t.Fatal(err)
	}
	s.view.Rope = rope
	for range pages {
		s.view.Pages = append(s.view.Pages, r.pages)
		r.pages++
	}
	return s
}

// part is some new ids of a sequence.
type part struct {
	s   *sequence
	ids []int32
}

// hidden advances sequences in one ragged step and gives the output of the last block,
// [rows][hidden]. each, if not nil, sees the rows after the embedding and every block.
func (r *rig) hidden(mode tensor.Activations, each func(i int, rows []float32), parts ...part) []float32 {
	r.t.Helper()
	var b tensor.Batch
	var ids []int32
	for i, p := range parts {
		b.Seqs = append(b.Seqs, p.s.view)
		for j := range p.ids {
			b.Rows = append(b.Rows, tensor.Row{Seq: int32(i), Pos: int32(p.s.pos + j)})
		}
		p.s.pos += len(p.ids)
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
		block.Forward(r.ws, &b, r.ws.X, r.kv, i, mode)
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

// last cuts the last row.
func last(rows []float32, width int) []float32 { return rows[len(rows)-width:] }

// greedy appends ids to a prompt, computed in one prefill and single steps.
func (r *rig) greedy(mode tensor.Activations, ids []int32, n int) []int32 {
	r.t.Helper()
	return r.greedyAll(mode, [][]int32{ids}, n)[0]
}

// greedyAll appends n ids to each prompt: prefills share steps as far as rows allow, and
// then every step decodes a token of each. TestBatchesGiveTheSameBits proves that sharing
// changes nothing.
func (r *rig) greedyAll(mode tensor.Activations, prompts [][]int32, n int) [][]int32 {
	r.t.Helper()
	var parts []part
	for _, ids := range prompts {
		parts = append(parts, part{r.sequence(len(ids) + n), ids})
	}
	out := make([][]int32, len(prompts))
	for range n {
		for i, id := range r.nextAll(mode, parts) {
			out[i] = append(out[i], id)
			parts[i].ids = []int32{id}
		}
	}
	return out
}

// nextAll advances each part and gives the best next id of each.
func (r *rig) nextAll(mode tensor.Activations, parts []part) []int32 {
	r.t.Helper()
	var out []int32
	for len(parts) > 0 {
		n, rows := 0, 0
		for n < len(parts) && rows+len(parts[n].ids) <= rigRows {
			rows += len(parts[n].ids)
			n++
		}
		hidden, width := r.hidden(mode, nil, parts[:n]...), r.ck.Config.Hidden
		var ends []float32
		for _, p := range parts[:n] {
			ends = append(ends, last(hidden[:len(p.ids)*width], width)...)
			hidden = hidden[len(p.ids)*width:]
		}
		logits, vocab := r.logits(mode, ends), r.ck.Config.Vocab
		for i := range n {
			out = append(out, argmax(logits[i*vocab:][:vocab]))
		}
		parts = parts[n:]
	}
	return out
}

func argmax(v []float32) int32 {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return int32(best)
}

// score gives the natural logarithm of p(id i | ids before i) for i from 1 on.
func (r *rig) score(mode tensor.Activations, ids []int32) []float64 {
	r.t.Helper()
	logits := r.logits(mode, r.hidden(mode, nil, part{r.sequence(len(ids)), ids}))
	vocab := r.ck.Config.Vocab
	var out []float64
	for i, id := range ids[1:] {
		row := logits[i*vocab:][:vocab]
		top := float64(row[argmax(row)])
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(float64(v) - top)
		}
		out = append(out, float64(row[id])-top-math.Log(sum))
	}
	return out
}

func sameBits(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// copyModel copies a fixture so that a test may change it.
func copyModel(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
