package blocks_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"whorl/internal/golden"
	"whorl/model"
	"whorl/model/families"
	"whorl/model/lora"
	"whorl/server/blocks"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

// student is a tiny model that gradients go through, and an adapter of it.
type student struct{ path, adapter string }

// students are models of all families, of quantised weights, and with adapters.
var students = []student{
	{"bloom", ""}, {"cohere", ""}, {"falcon", ""}, {"gemma2", ""}, {"gemma3", ""}, {"granite", ""}, {"scaled", ""}, {"mistral", ""}, {"mixtral", ""},
	{"olmo2", ""}, {"phi3", ""}, {"qwen2", ""}, {"qwen3", ""}, {"qwen3moe", ""}, {"smollm3", ""},
	{"quants/model.gguf", ""}, {"mixed/model.gguf", ""}, {"kquants/model.gguf", ""}, {"mixtralquants/model.gguf", ""},
	{"bloom", "bloom-fused"}, {"falcon40", "falcon40-all"}, {"gemma2", "gemma2-all"}, {"mixtral", "mixtral-attention"}, {"phi3", "phi3-all"},
}

func (s student) String() string { return strings.TrimSuffix(s.path+" "+s.adapter, " ") }

// open gives a loader on a device.
func (s student) open(t *testing.T, o cpu.Options) (*blocks.Loader, *model.Checkpoint) {
	t.Helper()
	ck, err := families.Open("../../model/testdata/" + s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	dev, err := cpu.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	opt := blocks.Options{StepRows: 8}
	if s.adapter != "" {
		a, err := lora.Open("../../model/lora/testdata/"+s.adapter, ck)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		opt.Adapters = append(opt.Adapters, a)
	}
	l, err := blocks.NewLoader(ck, dev, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l, ck
}

// lesson is a request with values, and what it is about.
type lesson struct {
	blocks.Training
	in, dout []float32
}

func normal(seed uint64, n int, scale float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 5))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * scale)
	}
	return out
}

// lesson makes rows for a student of so many blocks.
func (s student) lesson(layers, hidden, prompts int, lengths ...int) lesson {
	l := newLesson(layers, hidden, prompts, lengths...)
	if s.adapter != "" {
		l.Adapter = 0
	}
	return l
}

func newLesson(layers, hidden, prompts int, lengths ...int) lesson {
	rows := 0
	for _, n := range lengths {
		rows += n
	}
	l := lesson{Training: blocks.Training{Lengths: lengths, PromptRows: prompts, Adapter: -1}}
	l.in, l.dout = normal(1, rows*hidden, 1), normal(2, rows*hidden, 1)
	if prompts > 0 {
		l.Prompts = normal(3, layers*len(lengths)*prompts*hidden, 0.5)
	}
	return l
}

// back goes through a trainer's blocks [0, layers), and gives what it put out and the gradients.
func (l lesson) back(t *testing.T, tr *blocks.Trainer, layers int) (out, din, dprompts []float32) {
	t.Helper()
	out, din, dprompts = make([]float32, len(l.in)), make([]float32, len(l.in)), make([]float32, len(l.Prompts))
	if err := tr.Forward(&l.Training, 0, layers, l.in, out, nil); err != nil {
		t.Fatal(err)
	}
	if err := tr.Backward(&l.Training, 0, layers, l.in, nil, l.dout, din, dprompts); err != nil {
		t.Fatal(err)
	}
	return out, din, dprompts
}

// loss is what dout is the gradient of.
func (l lesson) loss(t *testing.T, tr *blocks.Trainer, layers int) float64 {
	t.Helper()
	out := make([]float32, len(l.in))
	if err := tr.Forward(&l.Training, 0, layers, l.in, out, nil); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, v := range out {
		sum += float64(v) * float64(l.dout[i])
	}
	return sum
}

func trainer(t *testing.T, s *blocks.Span, longest int) *blocks.Trainer {
	t.Helper()
	tr, err := s.NewTrainer(longest)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Steps along random directions, in rows and prompts at once, change the loss as the gradients
// say, to a fiftieth of their norm: the bend of the loss and the rounding of the outputs cost as much.
func TestGradientsAgreeWithDifferences(t *testing.T) {
	for _, s := range students {
		t.Run(s.String(), func(t *testing.T) {
			l, ck := s.open(t, cpu.Options{})
			layers := ck.Config.Layers
			tr := trainer(t, load(t, l, 0, layers), 24)
			lesson := s.lesson(layers, ck.Config.Hidden, 3, 11, 24, 3)
			_, din, dprompts := lesson.back(t, tr, layers)
			step := float32(1e-3)
			switch {
			case ck.Config.Experts > 0:
				step = 1e-4 // else a row chooses another expert, which is a jump
			case s.adapter != "":
				step = 2e-4 // they are large, and bend the loss much
			}
			for seed := range uint64(3) {
				way, wayPrompts := normal(10+seed, len(din), 1), normal(20+seed, len(dprompts), 0.5)
				want, norm := 0.0, 0.0
				for i, g := range din {
					want += float64(g) * float64(way[i])
					norm += float64(g) * float64(g)
				}
				for i, g := range dprompts {
					want += float64(g) * float64(wayPrompts[i])
					norm += float64(g) * float64(g)
				}
				at := func(by float32) float64 {
					l := lesson
					l.in, l.Prompts = slices.Clone(l.in), slices.Clone(l.Prompts)
					for i, v := range way {
						l.in[i] += by * v
					}
					for i, v := range wayPrompts {
						l.Prompts[i] += by * v
					}
					return l.loss(t, tr, layers)
				}
				slope := func(step float32) float64 { return (at(step) - at(-step)) / (2 * float64(step)) }
				got := (4*slope(step/2) - slope(step)) / 3 // without the cubic part of the bend
				if off := math.Abs(got - want); !(off <= 0.02*math.Sqrt(norm)) {
					t.Errorf("direction %d: the loss changes by %v, gradients say %v (their norm is %v)", seed, got, want, math.Sqrt(norm))
				}
			}
		})
	}
}

// The bits of gradients do not depend on how blocks are shared out among spans, on threads,
// on the tier, on what else is in the batch, nor on whether the inputs were kept. The golden
// file has them from another machine.
func TestGradientBitsDependOnNothingElse(t *testing.T) {
	var all strings.Builder
	for _, s := range students {
		t.Run(s.String(), func(t *testing.T) {
			var out, din, dprompts []float32
			for i, tier := range cpu.Tiers() {
				for _, threads := range []int{1, 3} {
					l, ck := s.open(t, cpu.Options{Tier: tier, Threads: threads})
					layers, hidden := ck.Config.Layers, ck.Config.Hidden
					lesson := s.lesson(layers, hidden, 2, 9, 70, 2)
					o, d, p := lesson.back(t, trainer(t, load(t, l, 0, layers), 70), layers)
					if i == 0 && threads == 1 {
						out, din, dprompts = o, d, p
						apart(t, l, lesson, layers, 1, out, din, dprompts)
						alone(t, l, lesson, layers, hidden, out, din)
					}
					sameBits(t, fmt.Sprintf("%s with %d threads", tier, threads), [][2][]float32{{o, out}, {d, din}, {p, dprompts}})
				}
			}
			h := sha256.New()
			for _, v := range [][]float32{out, din, dprompts} {
				binary.Write(h, binary.LittleEndian, v)
			}
			fmt.Fprintf(&all, "%x %s\n", h.Sum(nil)[:8], s)
		})
	}
	golden.Check(t, "testdata/gradients.txt", all.String())
}

// A model of eight blocks has the same gradients on one server, on two and on eight.
func TestGradientsHaveTheSameBitsInEveryLayout(t *testing.T) {
	const layers, hidden = 8, 64
	for _, adapter := range []int{-1, 0} {
		l := toyLoader(t, "toy-list")
		lesson := newLesson(layers, hidden, 3, 7, 40)
		lesson.Adapter = adapter
		out, din, dprompts := lesson.back(t, trainer(t, load(t, l, 0, layers), 40), layers)
		for _, each := range []int{4, 1} {
			apart(t, l, lesson, layers, each, out, din, dprompts)
		}
	}
}

// Training and sessions share a device, and neither sees the other.
func TestTrainingBesideSessions(t *testing.T) {
	l, ck := open(t, "gemma2")
	layers, h := ck.Config.Layers, ck.Config.Hidden
	s := load(t, l, 0, layers)
	tr := trainer(t, s, 40)
	lesson := newLesson(layers, h, 2, 40, 7)
	out, din, dprompts := lesson.back(t, tr, layers)
	step := func() []float32 {
		rows := slices.Clone(lesson.in[:3*h])
		b := &tensor.Batch{Rows: []tensor.Row{{Pos: 0}, {Pos: 1}, {Pos: 2}}, Seqs: []tensor.KVView{{Pages: []int32{0}}}}
		if err := s.Step(b, nil, 0, layers, tensor.Mode{}, rows, rows); err != nil {
			t.Error(err)
		}
		return rows
	}
	want, done := step(), make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			sameBits(t, "a session beside training", [][2][]float32{{step(), want}})
		}
	}()
	for range 3 {
		o, d, p := lesson.back(t, tr, layers)
		sameBits(t, "training beside a session", [][2][]float32{{o, out}, {d, din}, {p, dprompts}})
	}
	<-done
	s.Strip(0, 1) // the trainer keeps the blocks
	o, d, p := lesson.back(t, tr, layers)
	sameBits(t, "training on blocks that the span let go of", [][2][]float32{{o, out}, {d, din}, {p, dprompts}})
}

// Neither do they depend on the pieces in which a longer sequence is walked, nor on the
// group that it is in.
func TestLongSequencesGiveTheSameBits(t *testing.T) {
	for _, s := range []student{{"pair", ""}, {"gemma2", "gemma2-all"}} {
		l, ck := s.open(t, cpu.Options{})
		layers, hidden := ck.Config.Layers, ck.Config.Hidden
		lesson := s.lesson(layers, hidden, 2, 9, 300, 2, 31)
		tr := trainer(t, load(t, l, 0, layers), 310)
		out, din, dprompts := lesson.back(t, tr, layers)
		o, d, p := lesson.back(t, trainer(t, load(t, l, 0, layers), 600), layers)
		sameBits(t, s.String()+" in one group", [][2][]float32{{o, out}, {d, din}, {p, dprompts}})
		alone(t, l, lesson, layers, hidden, out, din)
	}
}

func sameBits(t *testing.T, what string, pairs [][2][]float32) {
	t.Helper()
	for i, p := range pairs {
		for j := range p[0] {
			if math.Float32bits(p[0][j]) != math.Float32bits(p[1][j]) {
				t.Errorf("%s: value %d of result %d is %v, not %v", what, j, i, p[0][j], p[1][j])
				break
			}
		}
	}
}

// apart goes through spans of so many blocks each, with the inputs that going forward kept.
func apart(t *testing.T, l *blocks.Loader, lesson lesson, layers, each int, out, din, dprompts []float32) {
	n, table := len(lesson.in)*each, len(lesson.Prompts)/layers*each
	spans, inputs := make([]*blocks.Trainer, layers/each), make([][]float32, layers/each)
	x, d, p := slices.Clone(lesson.in), slices.Clone(lesson.dout), make([]float32, len(dprompts))
	part := func(b int) *blocks.Training {
		r := lesson.Training
		r.Prompts = lesson.Prompts[b*table:][:table]
		return &r
	}
	for b := range spans {
		from := b * each
		spans[b], inputs[b] = trainer(t, load(t, l, from, from+each), 400), make([]float32, n)
		if err := spans[b].Forward(part(b), from, from+each, x, x, inputs[b]); err != nil {
			t.Fatal(err)
		}
	}
	for b := len(spans) - 1; b >= 0; b-- {
		if err := spans[b].Backward(part(b), b*each, (b+1)*each, lesson.in, inputs[b], d, d, p[b*table:][:table]); err != nil {
			t.Fatal(err)
		}
	}
	sameBits(t, fmt.Sprintf("spans of %d blocks", each), [][2][]float32{{x, out}, {d, din}, {p, dprompts}})
}

// alone takes the second sequence without the others.
func alone(t *testing.T, l *blocks.Loader, all lesson, layers, hidden int, out, din []float32) {
	one, first := all, all.Lengths[0]*hidden
	n := all.Lengths[1] * hidden
	one.Lengths = all.Lengths[1:2]
	one.in, one.dout, one.Prompts = all.in[first:][:n], all.dout[first:][:n], nil
	size := all.PromptRows * hidden
	for b := range layers {
		one.Prompts = append(one.Prompts, all.Prompts[(b*len(all.Lengths)+1)*size:][:size]...)
	}
	o, d, _ := one.back(t, trainer(t, load(t, l, 0, layers), one.Lengths[0]), layers)
	sameBits(t, "a sequence alone", [][2][]float32{{o, out[first:]}, {d, din[first:]}})
}

// What does not fit is the caller's fault, and is said.
func TestTrainingRefuses(t *testing.T) {
	l, ck := open(t, "pair")
	h, layers := ck.Config.Hidden, ck.Config.Layers
	tr := trainer(t, load(t, l, 0, layers), 8)
	for name, spoil := range map[string]func(l *lesson, from, to *int){
		"a longer sequence":   func(l *lesson, _, _ *int) { *l = newLesson(layers, h, 0, 9) },
		"no rows":             func(l *lesson, _, _ *int) { *l = newLesson(layers, h, 0) },
		"an empty sequence":   func(l *lesson, _, _ *int) { *l = newLesson(layers, h, 0, 3, 0) },
		"a negative length":   func(l *lesson, _, _ *int) { l.Lengths = []int{6, -1} },
		"fewer rows":          func(l *lesson, _, _ *int) { l.in = l.in[:len(l.in)-1] },
		"more prompts":        func(l *lesson, _, _ *int) { l.PromptRows = 4 },
		"prompts of no rows":  func(l *lesson, _, _ *int) { l.PromptRows = 0 },
		"negative prompts":    func(l *lesson, _, _ *int) { l.PromptRows = -1 },
		"no such adapter":     func(l *lesson, _, _ *int) { l.Adapter = 0 },
		"blocks beyond":       func(_ *lesson, _, to *int) { *to = layers + 1 },
		"no blocks":           func(_ *lesson, from, to *int) { *to = *from },
		"a negative block":    func(_ *lesson, from, _ *int) { *from = -1 },
		"a session of -1":     func(l *lesson, _, _ *int) { l.Length = -1 },
		"a session too short": func(l *lesson, _, _ *int) { l.Length = 2 },
	} {
		x, from, to := newLesson(layers, h, 2, 3, 2), 0, layers
		spoil(&x, &from, &to)
		err := tr.Forward(&x.Training, from, to, x.in, make([]float32, len(x.in)), nil)
		back := tr.Backward(&x.Training, from, to, x.in, nil, x.dout, make([]float32, len(x.in)), make([]float32, len(x.Prompts)))
		if !errors.Is(err, blocks.ErrTraining) || !errors.Is(back, blocks.ErrTraining) {
			t.Errorf("%s: %v, %v", name, err, back)
		}
	}
	stop := errors.New("stop")
	x := newLesson(layers, h, 0, 3)
	x.Yield = func() error { return stop }
	if err := tr.Backward(&x.Training, 0, layers, x.in, nil, x.dout, x.dout, nil); !errors.Is(err, stop) {
		t.Errorf("a call that was to end gave %v", err)
	}
	if _, err := load(t, l, 0, 1).NewTrainer(0); err == nil {
		t.Error("a trainer for no rows was made")
	}
}

// A session with prompts, prefilled in any chunks beside others, gives the bits of Forward.
func TestSessionsWithPromptsGiveTheBitsOfForward(t *testing.T) {
	l, ck := open(t, "pair")
	layers, h := ck.Config.Layers, ck.Config.Hidden
	s := load(t, l, 0, layers)
	lesson := newLesson(layers, h, 5, 20, 9)
	want := make([]float32, len(lesson.in))
	if err := trainer(t, s, 20).Forward(&lesson.Training, 0, layers, lesson.in, want, nil); err != nil {
		t.Fatal(err)
	}
	b := &tensor.Batch{Seqs: []tensor.KVView{{Pages: []int32{3}}, {Pages: []int32{1}}, {Pages: []int32{2}}}}
	prompts := make([]*blocks.Prompts, 3) // the last sequence has none
	for i := range 2 {
		var values []float32
		for block := range layers {
			values = append(values, lesson.Prompts[(block*2+i)*5*h:][:5*h]...)
		}
		var err error
		if prompts[i], err = s.LoadPrompts(values, 0, layers, 5); err != nil {
			t.Fatal(err)
		}
	}
	step := func(seq, from, to int) { // of positions of seq, and one of another
		b.Rows = []tensor.Row{{Seq: 2, Pos: int32(from)}}
		in := slices.Clone(lesson.in[:h])
		first := lesson.Lengths[0] * seq
		for pos := from; pos < to; pos++ {
			b.Rows = append(b.Rows, tensor.Row{Seq: int32(seq), Pos: int32(pos)})
			in = append(in, lesson.in[(first+pos)*h:][:h]...)
		}
		if err := s.StepPrompted(b, nil, prompts, 0, layers, tensor.Mode{Act: tensor.ActF32}, in, in); err != nil {
			t.Fatal(err)
		}
		sameBits(t, fmt.Sprintf("positions %d to %d of sequence %d", from, to, seq), [][2][]float32{{in[h:], want[(first+from)*h:]}})
	}
	for _, cut := range [][3]int{{0, 0, 3}, {1, 0, 9}, {0, 3, 4}, {0, 4, 7}, {0, 7, 20}} {
		step(cut[0], cut[1], cut[2])
	}
	if _, err := s.LoadPrompts(make([]float32, h), 0, layers+1, 1); err == nil {
		t.Error("prompts for a block that is not loaded were taken")
	}
	if _, err := s.LoadPrompts(make([]float32, h), 0, 1, 2); err == nil {
		t.Error("too few values of prompts were taken")
	}
}
