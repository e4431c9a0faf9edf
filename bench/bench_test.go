package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"whorl/model"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}, {[]float64{1, 100, 2, 3}, 2.5}} {
		if got := Median(c.v); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.v, got, c.want)
		}
	}
}

// The machine halves its speed in the fourth round and something hits only the work of the
// fifth: the median pair still says 0.8.
func TestShareIsTheMedianOfTheRatios(t *testing.T) {
	got, err := Share([]float64{8, 8, 9, 4, 2}, []float64{10, 10, 10, 5, 10})
	if err != nil || got != 0.8 {
		t.Errorf("share %v, %v, want 0.8", got, err)
	}
	for _, c := range [][2][]float64{{nil, nil}, {{1}, {1, 2}}, {{1}, {0}}} {
		if _, err := Share(c[0], c[1]); err == nil {
			t.Errorf("a share of %v in %v", c[0], c[1])
		}
	}
}

func TestAlternateTakesTurns(t *testing.T) {
	var order strings.Builder
	slice := func(name string) Slice {
		return func() (float64, error) { order.WriteString(name); return 1, nil }
	}
	rates, err := Alternate(t.Context(), 3, time.Nanosecond, slice("a"), slice("b"))
	if err != nil || order.String() != "ababab" || len(rates) != 2 || len(rates[0]) != 3 || len(rates[1]) != 3 {
		t.Errorf("order %s, rates %v, %v", order.String(), rates, err)
	}
	broken := errors.New("broken")
	if _, err := Alternate(t.Context(), 1, 1, func() (float64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("the error of a slice is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Alternate(ctx, 1, time.Hour, slice("c")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
}

// The sizes of the shapes are those of the published files in F32, embedding
// included, less what such a file says besides.
func TestShapes(t *testing.T) {
	want := map[string]float64{"135m": 538, "1.1b": 4400, "8b4l": 4538, "8b": 32121}
	for _, name := range Shapes() {
		c, err := ShapeOf(name)
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tables := 2
		if c.Tied {
			tables = 1
		}
		bytes := int64(c.Layers)*blockBytes(c.Spec, tensor.F32) + int64(tables)*matrixBytes(tensor.F32, c.Vocab, c.Hidden) + 4*int64(c.Hidden)
		if got := math.Round(float64(bytes) / 1e6); got != want[name] {
			t.Errorf("%s: %v MB in F32, want %v", name, got, want[name])
		}
	}
	if _, err := ShapeOf("7b"); err == nil || !strings.Contains(err.Error(), "135m") {
		t.Errorf("an unknown shape: %v", err)
	}
}

// tiny is a model that costs nothing.
func tiny(tied bool) model.Config {
	c, _ := ShapeOf("135m")
	c.Layers, c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab, c.Tied = 2, 64, 4, 2, 16, 96, 160, tied
	c.MaxPositions, c.Rope.Dim = 128, 16
	return c
}

// fakeCeiling counts what it is asked.
type fakeCeiling struct {
	reads, dots int
	noDots      bool
}

func (f *fakeCeiling) Read() int64 { f.reads++; return 1000 }
func (f *fakeCeiling) Dot(tensor.DType) int64 {
	if f.dots++; f.noDots {
		return 0
	}
	return 1000
}
func (f *fakeCeiling) Loops() string { return "go" }

func TestSession(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, f := range []tensor.DType{tensor.F32, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0} {
		m, err := Random(dev, "tiny", tiny(f == tensor.F32), f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSession(dev, m, Options{Prefill: 70, Decode: 66, Batch: []int{2, 3}, Repeat: 2, Slice: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		c := &fakeCeiling{noDots: f == tensor.BF16}
		res, err := s.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if res.Format != f.String() || res.Threads != 2 || len(res.Batch) != 2 || res.Batch["3"] <= 0 || res.DecodeTokS <= 0 || res.DecodeShare <= 0 || res.PrefillTokS <= 0 {
			t.Errorf("%v: %+v", f, res)
		}
		if (res.PrefillShare == nil) != c.noDots || (res.DotGFlopS == nil) != c.noDots {
			t.Errorf("%v: share of prefill %v with a ceiling that has no dots: %v", f, res.PrefillShare, c.noDots)
		}
		if c.reads != 2 || len(res.Notes) == 0 {
			t.Errorf("%v: %d readings in 2 rounds, notes %v", f, c.reads, res.Notes)
		}
		for _, v := range s.r.logits {
			if v != v || math.IsInf(float64(v), 0) {
				t.Fatalf("%v: a logit is %v: nobody would compute that", f, v)
			}
		}
	}
}

// A step's bytes: blocks, final norm, LM head; an embedding of its own does not count.
func TestStepBytes(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, tied := range []bool{true, false} {
		m, err := Random(dev, "tiny", tiny(tied), tensor.Q8_0)
		if err != nil {
			t.Fatal(err)
		}
		weights := int64(64*64*2 + 64*32*2 + 3*64*96)
		if got, want := m.StepBytes(), 2*(weights/32*34+2*64*4)+64*4+160*64/32*34; got != want {
			t.Errorf("tied %v: %d bytes a step, want %d", tied, got, want)
		}
		if got, want := m.PrefillOps(10), 2*(2*10*float64(weights)+160*64); got != want {
			t.Errorf("tied %v: %v operations, want %v", tied, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if _, err := Random(dev, "tiny", tiny(true), tensor.DType(99)); err == nil || !strings.Contains(err.Error(), "dtype(99)") {
		t.Errorf("a format that there is not: %v", err)
	}
	odd := tiny(true)
	odd.FFN = 100
	if _, err := Random(dev, "odd", odd, tensor.Q4_0); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("rows that are no whole groups: %v", err)
	}
	good := Options{Prefill: 128, Decode: 127, Batch: []int{2}, Repeat: 1, Slice: 1}
	if err := good.Check(128); err != nil {
		t.Error(err)
	}
	for _, bad := range []func(*Options){
		func(o *Options) { o.Prefill = 129 }, func(o *Options) { o.Prefill = 0 }, func(o *Options) { o.Decode = 128 },
		func(o *Options) { o.Batch = []int{0} }, func(o *Options) { o.Batch = []int{513} }, func(o *Options) { o.Repeat = 0 }, func(o *Options) { o.Slice = 0 },
	} {
		o := good
		if bad(&o); o.Check(128) == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// Rows of INT8 begin with their magnitude, whatever the width of the matrix before.
func TestRandomRowsHaveHeads(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	r, err := newRandom(dev, tensor.INT8)
	if err != nil {
		t.Fatal(err)
	}
	for _, cols := range []int{96, 33, 64} {
		w, err := r.matrix(8, cols)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := matrixBytes(tensor.INT8, 8, cols), int64(8*(4+cols)); got != want {
			t.Errorf("%d columns: %d bytes, want %d", cols, got, want)
		}
		b, err := dev.NewBuffer(8, cols)
		if err != nil {
			t.Fatal(err)
		}
		dev.Embed(b, w, []int32{0, 1, 2, 3, 4, 5, 6, 7})
		values, square := make([]float32, 8*cols), 0.0
		dev.Download(values, b, 0)
		for _, v := range values {
			square += float64(v) * float64(v)
		}
		if spread := math.Sqrt(square / float64(len(values))); !(spread > 0.015 && spread < 0.025) {
			t.Errorf("%d columns: values spread by %g, want 0.02", cols, spread)
		}
	}
}

func TestKernels(t *testing.T) {
	old := kernelShapes
	kernelShapes = [][2]int{{64, 96}}
	defer func() { kernelShapes = old }()
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var got []Kernel
	o := KernelOptions{Formats: []tensor.DType{tensor.F32, tensor.Q4_0}, Rows: []int{1, 5}, Repeat: 1, Slice: 1, Memory: 1 << 16}
	if err := Kernels(t.Context(), dev, &fakeCeiling{}, o, func(k Kernel) { got = append(got, k) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || got[3].Format != "q4_0" || got[3].Rows != 5 || got[3].Out != 64 || got[3].In != 96 || got[3].DotShare == nil {
		t.Errorf("%+v", got)
	}
	for _, k := range got {
		// 2 operations for a weight and row: the ratio of the two rates is known.
		bytes := float64(matrixBytes(tensor.F32, 64, 96))
		if k.Format == "q4_0" {
			bytes = 64 * 96 / 32 * 18
		}
		if want := 2 * 64 * 96 * float64(k.Rows) / bytes; math.Abs(k.GFlopS/k.GBS/want-1) > 1e-9 {
			t.Errorf("%+v: %v operations a byte, want %v", k, k.GFlopS/k.GBS, want)
		}
	}
}

func TestPeakOf(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		ok   bool
	}{{"Name:\tx\nVmHWM:\t    12 kB\nVmRSS: 1 kB\n", 12 << 10, true}, {"VmHWM: x kB\n", 0, false}, {"", 0, false}} {
		if n, ok := peakOf([]byte(c.text)); n != c.n || ok != c.ok {
			t.Errorf("%q: %d, %v", c.text, n, ok)
		}
	}
}
