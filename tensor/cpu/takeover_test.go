package cpu

import (
	"slices"
	"testing"

	"whorl/tensor"
)

// Products are the same when the caller does tiles that others are busy with.
func TestTakeOverSameBits(t *testing.T) {
	const rows, in, out = 3, 128, 1000
	results := func(d *Device) []float32 {
		x, _ := d.NewBuffer(rows, in)
		y, _ := d.NewBuffer(rows, out)
		a, err := d.NewAct(rows, in)
		if err != nil {
			t.Fatal(err)
		}
		d.Upload(x, 0, fill(make([]float32, rows*in), 1, 1))
		w := testWeight(t, d, tensor.Q8_0, out, in, fill(make([]float32, out*in), 2, 0.02))
		for range 300 {
			d.Prepare(a, x, rows, tensor.Act8)
			d.MatMul(a, []tensor.Product{{W: w, Residual: y, Dst: y}}) // adding twice would show
		}
		got := make([]float32, rows*out)
		d.Download(got, y, 0)
		return got
	}
	for _, tier := range tiers() {
		one, many := open1(tier, 1), open1(tier, 4)
		many.hasty = true
		if want, got := results(one), results(many); !slices.Equal(want, got) {
			t.Errorf("%s: results differ when tiles are taken over", tier.name)
		}
		one.Close()
		many.Close()
	}
}
