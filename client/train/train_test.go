package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"whorl/client"
	"whorl/tensor"
)

// The fake model: a row of two columns per id; blocks add up what is before a row, and the head has
// three ids. It is small enough to differentiate by hand, in float32 as it is.
const (
	fakeHidden = 2
	fakeVocab  = 3
	fakeBlocks = 2
)

type fakeHead struct{}

func (fakeHead) Embed(dst []float32, ids []int32) error {
	for i, id := range ids {
		dst[2*i], dst[2*i+1] = float32(id)-1, float32(id*id)/4
	}
	return nil
}

var fakeLM = [fakeVocab][fakeHidden]float32{{1, -0.5}, {0.25, 1}, {-1, 0.5}}

func (fakeHead) Logits(dst, rows []float32, n int, mode tensor.Activations) error {
	if mode != tensor.ActF32 {
		return errors.New("logits must be those of exact rows")
	}
	for i := range n {
		for v, w := range fakeLM {
			dst[i*fakeVocab+v] = w[0]*rows[2*i] + w[1]*rows[2*i+1]
		}
	}
	return nil
}

func (fakeHead) Backward(dst, rows, dlogits []float32) error {
	clear(dst)
	for i := range len(rows) / 2 {
		for v, w := range fakeLM {
			for c := range w {
				dst[2*i+c] += w[c] * dlogits[i*fakeVocab+v]
			}
		}
	}
	return nil
}

func (fakeHead) Normed(dst, rows []float32) error {
	for i, v := range rows {
		dst[i] = v / 2
	}
	return nil
}

func (fakeHead) NormedBackward(dst, rows, d []float32) error { return fakeHead{}.Normed(dst, d) }

type fakeSwarm struct {
	batches int
	fail    int // the batch that fails; 0: none
}

type fakeForwarded struct {
	b    *client.Batch
	rows []float32
}

// Each block makes of a row a quarter of the sum of its sequence so far, and half of itself.
func (s *fakeSwarm) Forward(_ context.Context, b *client.Batch) (Forwarded, error) {
	if s.batches++; s.batches == s.fail {
		return nil, errors.New("nobody is there")
	}
	f := &fakeForwarded{b, slices.Clone(b.Rows)}
	for block := range fakeBlocks {
		at := 0
		for i, n := range b.Lengths {
			rows := f.rows[2*at : 2*(at+n)]
			at += n
			for j := range b.Prompt * 2 {
				rows[j] += b.Prompts[block*b.Prompt*2+j]
			}
			var sum [2]float32
			for j := range n {
				for c := range 2 {
					sum[c] += rows[2*j+c]
					rows[2*j+c] = rows[2*j+c]/2 + sum[c]/4
				}
			}
			_ = i
		}
	}
	return f, nil
}

func (f *fakeForwarded) Rows() []float32 { return f.rows }

func (f *fakeForwarded) Backward(_ context.Context, grads []float32) (rows, prompts []float32, err error) {
	rows = slices.Clone(grads)
	table := f.b.Prompt * 2
	prompts = make([]float32, fakeBlocks*len(f.b.Lengths)*table)
	for block := fakeBlocks - 1; block >= 0; block-- {
		at := 0
		for i, n := range f.b.Lengths {
			g := rows[2*at : 2*(at+n)]
			at += n
			var sum [2]float32
			for j := n - 1; j >= 0; j-- {
				for c := range 2 {
					sum[c] += g[2*j+c]
					g[2*j+c] = g[2*j+c]/2 + sum[c]/4
				}
			}
			copy(prompts[(block*len(f.b.Lengths)+i)*table:], g[:table])
		}
	}
	return rows, prompts, nil
}

var someExamples = []Example{
	{IDs: []int32{0, 1, 2, 1}}, {IDs: []int32{2, 2}, Label: 1}, {IDs: []int32{1, 0, 0}, From: 2}, {IDs: []int32{0, 2, 1, 0, 1}, Label: 1}, {IDs: []int32{2, 0, 1}},
}

func options(task Task, deep bool) Options {
	o := Options{Task: task, Tokens: 2, Deep: deep, Epochs: 3, Rate: 0.05, Batch: 2, Accumulate: 1, Warmup: 1, Schedule: Linear, Decay: 0.01, Clip: 1, Seed: 7}
	if task == Classify {
		o.Labels = []string{"no", "yes"}
	}
	return o
}

func trainer(t *testing.T, o Options, s *fakeSwarm) *Trainer {
	t.Helper()
	blocks := 0
	if o.Deep {
		blocks = fakeBlocks
	}
	tables, err := NewTables(o.Tokens, fakeHidden, blocks, len(o.Labels), fakeVocab, o.Seed, fakeHead{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(o, fakeHead{}, s, fakeVocab, tables, someExamples)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Gradients of all tables are those of the loss, by finite differences.
func TestGradients(t *testing.T) {
	for _, task := range []Task{Causal, Classify} {
		r := trainer(t, options(task, true), &fakeSwarm{})
		if _, err := r.run(t.Context(), someExamples, true); err != nil {
			t.Fatal(err)
		}
		names, grads := r.grads.parameters()
		_, params := r.tables.parameters()
		for i, p := range params {
			for j := range p {
				at := func(d float32) float64 {
					was := p[j]
					defer func() { p[j] = was }()
					p[j] += d
					sum, _ := r.run(t.Context(), someExamples, false)
					return sum.Loss
				}
				const d = 1.0 / 64
				if want := (at(d) - at(-d)) / (2 * d); math.Abs(want-float64(grads[i][j])) > 2e-3*max(1, math.Abs(want)) {
					t.Errorf("%s: gradient %d of %s is %v, differences say %v", task, j, names[i], grads[i][j], want)
				}
			}
		}
	}
}

// The tables do not depend on how a step is cut into batches, nor on where it was interrupted.
func TestSameBits(t *testing.T) {
	for _, task := range []Task{Causal, Classify} {
		for _, deep := range []bool{false, true} {
			o := options(task, deep)
			o.Batch, o.Accumulate = 4, 1
			want, sums := "", ""
			for name, cut := range map[string]func(*Options) (stop int){
				"whole":       func(*Options) int { return 0 },
				"by twos":     func(o *Options) int { o.Batch, o.Accumulate = 2, 2; return 0 },
				"by ones":     func(o *Options) int { o.Batch, o.Accumulate = 1, 4; return 0 },
				"interrupted": func(*Options) int { return 3 },
				"at once":     func(*Options) int { return -1 },
			} {
				o := o
				stop := cut(&o)
				r := trainer(t, o, &fakeSwarm{})
				run := Run{Model: "m", Data: "d", Options: o}
				for r.Done() < r.Steps() {
					if stop != 0 && r.Done() == max(stop, 0) {
						saved := r.Checkpoint(run)
						again := trainer(t, o, &fakeSwarm{fail: 2})
						if stop > 0 { // it had gone on elsewhere, and one step had failed
							again.Step(t.Context())
							if _, err := again.Step(t.Context()); err == nil {
								t.Fatal("a step without servers")
							}
						}
						if err := again.Resume(saved, run); err != nil {
							t.Fatal(err)
						}
						r, stop = again, 0
						r.blocks = &fakeSwarm{}
					}
					if _, err := r.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				got := r.Tables().Hash()
				if want == "" {
					want = got
				}
				if o.Accumulate == 1 { // what is added up is added in the same order
					if sums == "" {
						sums = fmt.Sprint(r.Epochs())
					}
					if got := fmt.Sprint(r.Epochs()); got != sums || len(r.Epochs()) != o.Epochs {
						t.Errorf("%s, deep %v, %s: epochs %s, want %s", task, deep, name, got, sums)
					}
				}
				if got != want {
					t.Errorf("%s, deep %v, %s: tables %.12s, want %.12s", task, deep, name, got, want)
				}
			}
		}
	}
}

// A failed step changes nothing.
func TestFailedStep(t *testing.T) {
	s := &fakeSwarm{fail: 2}
	r := trainer(t, options(Causal, true), s)
	r.opt.Accumulate = 2
	before := r.Tables().Hash()
	if _, err := r.Step(t.Context()); err == nil || r.Tables().Hash() != before || r.Done() != 0 {
		t.Errorf("after %v: %d steps", err, r.Done())
	}
	if _, err := r.Step(t.Context()); err != nil || r.Done() != 1 {
		t.Error(err)
	}
}

// Numbers that are none end the training before they reach a table or a checkpoint.
func TestDiverged(t *testing.T) {
	r := trainer(t, options(Causal, true), &fakeSwarm{})
	if _, err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := Run{Options: r.opt}
	before := r.Checkpoint(run)
	good := r.blocks
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		r.blocks = spoilt{good, bad}
		if _, err := r.Step(t.Context()); !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "step 2") || !bytes.Equal(r.Checkpoint(run), before) {
			t.Errorf("gradients of %v: %v", bad, err)
		}
	}
	r.blocks = good
	if _, err := r.Step(t.Context()); err != nil || r.Done() != 2 {
		t.Errorf("afterwards: %d steps, %v", r.Done(), err)
	}
}

// spoilt gives one number in place of all gradients by rows.
type spoilt struct {
	Blocks
	by float32
}

type spoiltForwarded struct {
	Forwarded
	by float32
}

func (s spoilt) Forward(ctx context.Context, b *client.Batch) (Forwarded, error) {
	f, err := s.Blocks.Forward(ctx, b)
	return spoiltForwarded{f, s.by}, err
}

func (f spoiltForwarded) Backward(ctx context.Context, grads []float32) (rows, prompts []float32, err error) {
	rows, prompts, err = f.Forwarded.Backward(ctx, grads)
	for i := range rows {
		rows[i] = f.by
	}
	return rows, prompts, err
}

// Numbers that nobody means are refused before anything is multiplied.
func TestOptions(t *testing.T) {
	good := options(Causal, false)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for name, change := range map[string]func(*Options){
		"rate": func(o *Options) { o.Rate = nan }, "rate of 0": func(o *Options) { o.Rate = 0 }, "infinite rate": func(o *Options) { o.Rate = math.Inf(1) },
		"decay": func(o *Options) { o.Decay = nan }, "clip": func(o *Options) { o.Clip = nan }, "batches that overflow": func(o *Options) { o.Batch, o.Accumulate = 1<<32, 1<<32 },
		"epochs that overflow": func(o *Options) { o.Epochs = math.MaxInt }, "warm-up": func(o *Options) { o.Warmup = -1 }, "endless warm-up": func(o *Options) { o.Warmup = math.MaxInt },
		"batch": func(o *Options) { o.Batch = 0 }, "tokens": func(o *Options) { o.Tokens = 1 << 20 },
	} {
		o := good
		change(&o)
		if o.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A loss goes down, and what a checkpoint of another run holds is refused by name.
func TestLearns(t *testing.T) {
	o := options(Classify, true)
	o.Epochs, o.Rate, o.Decay = 200, 0.1, 0
	r := trainer(t, o, &fakeSwarm{})
	first, err := r.Evaluate(t.Context(), someExamples, nil)
	if err != nil {
		t.Fatal(err)
	}
	for r.Done() < r.Steps() {
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last, _ := r.Evaluate(t.Context(), someExamples, nil)
	if last.Right < 4 || last.Mean() > 0.6*first.Mean() {
		t.Errorf("loss %.3f, then %.3f with %d of %d right", first.Mean(), last.Mean(), last.Right, last.Examples)
	}
	run := Run{Model: "m", Data: "d", Options: o}
	saved := r.Checkpoint(run)
	for want, change := range map[string]func(*Run){
		"model other": func(r *Run) { r.Model = "other" }, "other examples": func(r *Run) { r.Data = "e" },
		"the adapter": func(r *Run) { r.Adapter = "a@b" }, "batch 9 instead of 2": func(r *Run) { r.Options.Batch = 9 }, "seed 8 instead of 7": func(r *Run) { r.Options.Seed = 8 },
	} {
		other := run
		change(&other)
		if err := trainer(t, o, nil).Resume(saved, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// AdamW after torch's formula, computed with float64 here.
func TestAdamW(t *testing.T) {
	o := NewOptimizer(0.1)
	p, m, v := []float32{1, -2, 0.5}, make([]float64, 3), make([]float64, 3)
	want := []float64{1, -2, 0.5}
	for n := 1; n <= 50; n++ {
		g := make([]float32, 3)
		rate := 0.01 / float64(n)
		for i := range g {
			g[i] = float32(math.Sin(float64(n*(i+1)))) * float32(math.Pow(10, float64(i-1)))
			want[i] *= 1 - rate*0.1
			m[i] = 0.9*m[i] + 0.1*float64(g[i])
			v[i] = 0.999*v[i] + 0.001*float64(g[i])*float64(g[i])
			want[i] -= rate * (m[i] / (1 - math.Pow(0.9, float64(n)))) / (math.Sqrt(v[i]/(1-math.Pow(0.999, float64(n)))) + 1e-8)
		}
		o.Step([][]float32{p[:1], p[1:]}, [][]float32{g[:1], g[1:]}, rate)
	}
	for i := range p {
		if math.Abs(float64(p[i])-want[i]) > 2e-6*math.Abs(want[i]) {
			t.Errorf("value %d is %v, want %v", i, p[i], want[i])
		}
	}
}

func TestClip(t *testing.T) {
	g := [][]float32{{3}, {0, 4}}
	if n := Clip(g, 0); n != 5 || g[0][0] != 3 {
		t.Errorf("norm %v, %v", n, g)
	}
	if n := Clip(g, 1); n != 5 || math.Abs(float64(g[0][0])-0.6) > 1e-7 || math.Abs(float64(g[1][1])-0.8) > 1e-7 {
		t.Errorf("norm %v, %v", n, g)
	}
}

func TestSchedules(t *testing.T) {
	for s, want := range map[Schedule]string{
		Linear:   "0.33 0.67 1.00 0.83 0.67 0.50 0.33 0.17",
		Cosine:   "0.33 0.67 1.00 0.93 0.75 0.50 0.25 0.07",
		Constant: "0.33 0.67 1.00 1.00 1.00 1.00 1.00 1.00",
	} {
		var got []string
		for i := range 8 {
			got = append(got, fmt.Sprintf("%.2f", s.Rate(1, i, 2, 8)))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", s, text, want)
		}
	}
	for i := range 1000 {
		x := float64(i) / 999
		if got, want := cosine(x), (1+math.Cos(math.Pi*x))/2; math.Abs(got-want) > 2e-6 {
			t.Fatalf("cosine(%v) is %v, want %v", x, got, want)
		}
	}
}

// The order of an epoch is a permutation, another one each time, and hangs on the seed alone.
func TestOrder(t *testing.T) {
	if got, want := fmt.Sprint(Order(8, 7, 0), Order(8, 7, 1), Order(8, 8, 0)), "[7 1 3 2 5 0 6 4] [7 4 1 2 0 3 5 6] [4 5 1 2 0 3 7 6]"; got != want {
		t.Errorf("orders %s, want %s", got, want)
	}
	seen := make([]bool, 1000)
	for _, i := range Order(1000, 1, 9) {
		seen[i] = true
	}
	if slices.Contains(seen, false) {
		t.Error("an epoch leaves examples out")
	}
}
