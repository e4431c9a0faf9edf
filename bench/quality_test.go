package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"whorl/model/families"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

func TestWindows(t *testing.T) {
	begin, ids := []int32{9}, []int32{1, 2, 3, 4, 5}
	for _, c := range []struct {
		begin, ids []int32
		size       int
		want       [][]int32
	}{
		{nil, ids, 2, [][]int32{{1, 2}, {3, 4}}}, // 5 alone would predict nothing
		{begin, ids, 3, [][]int32{{9, 1, 2}, {9, 3, 4}, {9, 5}}},
		{nil, ids, 9, [][]int32{ids}},
		{nil, ids[:1], 9, nil},
		{begin, nil, 9, nil},
	} {
		got := Windows(c.begin, c.ids, c.size)
		if !slices.EqualFunc(got, c.want, func(a, b []int32) bool { return slices.Equal(a, b) }) {
			t.Errorf("%v before %v in windows of %d: %v, want %v", c.begin, c.ids, c.size, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	mean, stdErr := Compare([]float64{-1, -3, -2}, []float64{-2, -2, -2})
	if mean != 0 || math.Abs(stdErr-1/math.Sqrt(3)) > 1e-15 {
		t.Errorf("%v ±%v, want a mean of 0 and an error of 1/sqrt(3)", mean, stdErr)
	}
	if mean, stdErr := Compare([]float64{-1}, []float64{-3}); mean != 2 || stdErr != 0 {
		t.Errorf("of one id: %v ±%v", mean, stdErr)
	}
}

func TestLogProbability(t *testing.T) {
	logits := []float32{1000, 1000 + float32(math.Log(3)), -1000}
	for id, want := range []float64{math.Log(0.25), math.Log(0.75), -2000 + math.Log(0.25)} {
		if got := logProbability(logits, int32(id)); math.Abs(got-want) > 1e-4 {
			t.Errorf("id %d: %v, want %v", id, got, want)
		}
	}
}

// A window is a context of its own, whatever stood before it, and long ones go in steps.
func TestScoreOfWindows(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	c := tiny(true)
	c.MaxPositions = maxRows + 40
	m, err := Random(dev, "tiny", c, tensor.F32)
	if err != nil {
		t.Fatal(err)
	}
	score := func(w ...[]int32) []float64 {
		s, err := Score(t.Context(), dev, m, w, tensor.Mode{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	long := make([]int32, maxRows+40)
	for i := range long {
		long[i] = int32(i * i % c.Vocab)
	}
	alone, both := score(long), score(long[:50], long)
	if len(alone) != len(long)-1 || len(both) != 49+len(alone) {
		t.Fatalf("%d and %d values", len(alone), len(both))
	}
	if !slices.Equal(both[49:], alone) || !slices.Equal(both[:49], alone[:49]) {
		t.Error("what a window gives depends on others")
	}
	for _, v := range alone {
		if !(v < 0 && v > -20) {
			t.Fatalf("a logarithm of a probability is %v", v)
		}
	}
	if _, err := Score(t.Context(), dev, m, [][]int32{append(long, 1)}, tensor.Mode{}); err == nil || !strings.Contains(err.Error(), "552") {
		t.Errorf("a window longer than the context: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Score(ctx, dev, m, [][]int32{long}, tensor.Mode{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A quantised file against its own weights as floats: with float activations it is the
// same model; formats that do not fit are told and left out.
func TestMeasureQuality(t *testing.T) {
	dev, err := cpu.Open(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ck, err := families.Open("../model/testdata/quants/model.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	ids := make([]int32, 60)
	for i := range ids {
		ids[i] = int32(i * 7 % ck.Config.Vocab)
	}
	var got []Quality
	o := QualityOptions{Formats: []string{Stored, "bf16", "q8_0", "q4_k"}, Windows: Windows(nil, ids, 30), Activations: true}
	skipped, err := MeasureQuality(t.Context(), dev, ck, o, func(q Quality) { got = append(got, q) })
	if err != nil {
		t.Fatal(err)
	}
	if len(skipped) != 1 || skipped[0].Format != "q4_k" || !strings.Contains(skipped[0].Reason, "256") {
		t.Errorf("skipped %+v, want q4_k", skipped)
	}
	var names []string
	for _, q := range got {
		names = append(names, q.Format+" "+q.Activations)
		if math.Abs(q.MeanLogprob-got[0].MeanLogprob-q.Delta) > 1e-9 || math.Abs(math.Log(q.Perplexity)+q.MeanLogprob) > 1e-9 {
			t.Errorf("%+v does not fit itself and the first, %+v", q, got[0])
		}
	}
	stored := got[1].Format
	want := []string{"f32 auto", stored + " auto", stored + " f32", "bf16 auto", "q8_0 auto", "q8_0 f32"}
	if !slices.Equal(names, want) {
		t.Fatalf("%v, want %v", names, want)
	}
	if !got[1].Stored || !got[2].Stored || got[3].Stored || got[4].Stored {
		t.Error("what is stored and what was made is told wrongly")
	}
	if q := got[2]; math.Abs(q.Delta) > 1e-5 || q.DeltaStdErr > 1e-5 {
		t.Errorf("the file's weights with float activations are not themselves: %+v", q)
	}
	for i, q := range got {
		if has := i == 1 || i == 4; (q.ActivationsDelta != nil) != has || (q.ActivationsStdErr != nil) != has {
			t.Errorf("%s: %+v", names[i], q)
		}
	}
	if d := got[4].ActivationsDelta; d != nil && (*got[4].ActivationsStdErr == 0 || math.Abs(*d-(got[4].MeanLogprob-got[5].MeanLogprob)) > 1e-9) {
		t.Errorf("activations of q8_0 cost %v, between %v and %v", *d, got[4].MeanLogprob, got[5].MeanLogprob)
	}
}

// The text is a few thousand tokens of plain English.
func TestQualityText(t *testing.T) {
	if n := len(strings.Fields(QualityText)); n < 2000 || n > 5000 {
		t.Errorf("%d words", n)
	}
	for i, r := range QualityText {
		if r > '~' || r < ' ' && r != '\n' {
			t.Fatalf("%q at byte %d", r, i)
		}
	}
}
