package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestINT8Kernels(t *testing.T) {
	for rows := 1; rows <= 26; rows++ {
		for _, cols := range []int{16, 48, 400} {
			const blocks = 4
			r := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
			data := make([]byte, blocks*cols*lanes)
			for i := range data {
				data[i] = byte(1 + r.IntN(255))
			}
			scale := fill(make([]float32, blocks*lanes), 1, 0.2)
			q, row := make([]int8, rows*cols), make([]int8Row, rows)
			outlier := make([]int32, cols)
			x := fill(make([]float32, rows*cols), 2, 2.5) // some beyond the floor
			for i := range rows {
				generic.quantiseRow(&row[i], q[i*cols:(i+1)*cols], outlier, x[i*cols:(i+1)*cols])
			}
			const stride = blocks*lanes + 3
			name := fmt.Sprintf("int8, %d rows, %d columns", rows, cols)
			twins(t, name, func(k *kernels, mem func(int) []float32) {
				k.int8(&int8Args{acc: mem((rows-1)*stride + blocks*lanes), accStride: stride, data: data, scale: scale, blocks: blocks, q: q, rows: row, cols: cols})
			})
			twins(t, "unpack "+name, func(k *kernels, mem func(int) []float32) {
				k.unpackINT8(mem(cols*lanes), data, scale[:lanes], cols)
			})
			picked := []int32{0, 1, 2, 3, 7, int32(cols) - 2, int32(cols) - 1}
			twins(t, "outliers of "+name, func(k *kernels, mem func(int) []float32) {
				k.int8Outliers(fill(mem(lanes), 3, 1), data, scale[:lanes], x[:cols], picked)
			})
		}
	}
}

// The greatest sums fit: rows of 127 and weights of -127 and 127 in the widest row.
func TestINT8SumsAreExact(t *testing.T) {
	const cols = 1 << 17
	data, q := make([]byte, 2*cols*lanes), make([]int8, cols)
	for i := range data {
		data[i] = byte(1 + i%2*254) // -127 in even columns, 127 in odd ones
	}
	for i := range q {
		q[i] = 127
		if i%2 == 0 {
			q[i] = -127
		}
	}
	row := []int8Row{{amax: 127}}
	scale := make([]float32, 2*lanes)
	for i := range scale {
		scale[i] = 127
	}
	for _, tier := range append(archTiers(), namedTier{"generic", &generic}) {
		acc := make([]float32, 2*lanes)
		tier.k.int8(&int8Args{acc: acc, accStride: len(acc), data: data, scale: scale, blocks: 2, q: q, rows: row, cols: cols})
		for j, v := range acc {
			if math.Abs(float64(v)/(127*127*cols)-1) > 1e-6 {
				t.Fatalf("%s: lane %d is %g, want %d", tier.name, j, v, 127*127*cols)
			}
		}
	}
}

func TestQuantiseRowKernels(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	below, above := math.Nextafter32(6, 0), math.Nextafter32(6, 7)
	inputs := [][]float32{{0}, {6}, {nan}, {inf, nan, 1}, {-inf, 5, -6, 6, 5.999, below, -below, above}, {1e-36, -7e-37}, {7e-37, 1e-40, 9}}
	for n := 1; n <= 67; n++ {
		inputs = append(inputs, fill(make([]float32, n), uint64(n), 3), fill(make([]float32, n), uint64(n), 0.01), fill(make([]float32, n), uint64(n), 100))
	}
	ties := make([]float32, 40) // x*unit lands on halves
	for i := range ties {
		ties[i] = (float32(i-20) + 0.5) / 32
	}
	inputs = append(inputs, append(ties, 127.0/32))
	for _, x := range inputs {
		twins(t, fmt.Sprintf("row of %d", len(x)), func(k *kernels, mem func(int) []float32) {
			// Guards of the byte and index arrays are copied to guarded memory too.
			q, outlier := make([]int8, paddedINT8(len(x))+2), make([]int32, len(x)+2)
			for i := range q {
				q[i] = 99
			}
			outlier[0], outlier[len(x)+1] = -1, -1
			var row int8Row
			k.quantiseRow(&row, q[1:len(q)-1], outlier[1:len(x)+1], x)
			out := mem(len(q) + 5)
			for i, v := range q {
				out[i] = float32(v)
			}
			sum := int32(0)
			for _, c := range outlier[1 : 1+row.outliers] {
				sum = sum*31 + c
			}
			copy(out[len(q):], []float32{row.amax, float32(row.off), float32(row.outliers), float32(sum), float32(outlier[0] + outlier[len(x)+1])})
		})
	}
}

// The assembly knows these offsets (asm/int8.go).
func TestINT8RowLayout(t *testing.T) {
	var r int8Row
	if got := [...]uintptr{unsafe.Offsetof(r.amax), unsafe.Offsetof(r.off), unsafe.Offsetof(r.outliers), unsafe.Sizeof(r)}; got != [...]uintptr{0, 4, 8, 16} {
		t.Errorf("layout of a row is %v", got)
	}
}
