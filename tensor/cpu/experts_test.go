package cpu

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"whorl/tensor"
)

func TestChoose(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   []int32
	}{
		{[]float32{3}, []int32{0}},
		{[]float32{1, 3, 2}, []int32{1}},
		{[]float32{1, 3, 2}, []int32{1, 2}},
		{[]float32{1, 3, 2}, []int32{0, 1, 2}},
		{[]float32{5, 5, 5, 5}, []int32{0, 1}},       // ties: the first
		{[]float32{1, 2, 2, 3, 2}, []int32{1, 3}},    // and also for the last place
		{[]float32{2, 1, 2, 1, 3}, []int32{0, 2, 4}}, // in rising order
		{[]float32{-1, -inf, -2, -inf}, []int32{0, 1, 2}},
		{[]float32{0, float32(math.Copysign(0, -1)), 0}, []int32{0, 1}}, // zeros are equal
		{[]float32{nan, nan, nan}, []int32{0, 1}},                       // no matter which, but different ones
	} {
		got := make([]int32, len(c.want))
		choose(got, c.logits)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: chose %v, want %v", c.logits, got, c.want)
		}
	}
}

// Batches that need several passes have the bits of one pass, also where the scratch was
// used for another shape before.
func TestExpertsInPasses(t *testing.T) {
	const rows, hidden, ffn, experts, topK = 23, 40, 24, 6, 3
	d, err := Open(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	load := func(seed uint64, out, in int) tensor.Weight {
		var data []byte
		for _, v := range fill(make([]float32, out*in), seed, 0.2) {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		w, err := d.Load(tensor.Matrix{DType: tensor.F32, Rows: out, Cols: in, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	s := &tensor.ExpertsSpec{TopK: topK, Act: tensor.SiLU}
	for e := range uint64(experts) {
		s.Gate, s.Up, s.Down = append(s.Gate, load(3*e, ffn, hidden)), append(s.Up, load(3*e+1, ffn, hidden)), append(s.Down, load(3*e+2, hidden, ffn))
	}
	x := &buffer{rows, hidden, fill(make([]float32, rows*hidden), 91, 1)}
	logits := &buffer{rows, experts, fill(make([]float32, rows*experts), 92, 1)}
	var want []float32
	for _, rowsOfPass := range []int{rows, 1, 7, 22, 23} {
		d.experts.passFloats = rowsOfPass * topK * (2*hidden + ffn)
		dst := &buffer{rows, hidden, make([]float32, rows*hidden)}
		d.Experts(dst, x, logits, rows, s)
		if want == nil {
			want = dst.data
		} else if !slices.Equal(dst.data, want) {
			t.Errorf("passes of %d rows give other results", rowsOfPass)
		}
	}
}
