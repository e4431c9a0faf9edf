package quant

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"whorl/tensor"
)

// sample makes the values of testdata/bnb.py.
func sample(rows, cols int) []float32 {
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32((i*i*31+i*17)%2039-1019) / 4096 * float32((i/64*5+i/1024)%23+1)
	}
	return x
}

// rowsOf hands the rows of x to PackMatrix.
func rowsOf(x []float32, cols int) func(int) []float32 {
	return func(i int) []float32 { return x[i*cols : (i+1)*cols] }
}

// The reference package quantises these matrices; we agree to the bit.
func TestMatricesEqualTheLibrary(t *testing.T) {
	raw, err := os.ReadFile("testdata/matrices.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	seen := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var name, heads, codes, sum string
		var rows, cols int
		if _, err := fmt.Sscan(lines.Text(), &name, &rows, &cols, &heads, &codes, &sum); err != nil {
			t.Fatal(err)
		}
		d, err := tensor.ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := PackMatrix(d, rows, cols, rowsOf(sample(rows, cols), cols))
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(m); err != nil {
			t.Error(err)
		}
		if want := interleave(t, d, rows, heads, codes); !bytes.Equal(m.Data, want) {
			t.Errorf("%v %dx%d: other bytes than bitsandbytes", d, rows, cols)
		}
		all := make([]float32, rows*cols)
		for i := range rows {
			UnpackRow(all[i*cols:(i+1)*cols], m, i)
		}
		h := sha256.New()
		binary.Write(h, binary.LittleEndian, all)
		if got := hex.EncodeToString(h.Sum(nil)); got != sum {
			t.Errorf("%v %dx%d: other values than bitsandbytes", d, rows, cols)
		}
		seen++
	}
	if seen != 5 {
		t.Errorf("%d matrices compared, want 5", seen)
	}
}

// interleave puts bitsandbytes' separate scales and codes in our layout: a scale before
// the codes of its row or block.
func interleave(t *testing.T, d tensor.DType, rows int, heads, codes string) []byte {
	t.Helper()
	h, err := hex.DecodeString(heads)
	if err != nil {
		t.Fatal(err)
	}
	c, err := hex.DecodeString(codes)
	if err != nil {
		t.Fatal(err)
	}
	size := nf4Group / 2
	if d == tensor.INT8 {
		size = len(c) / rows
	}
	var out []byte
	for ; len(c) > 0; h, c = h[4:], c[size:] {
		out = append(append(out, h[:4]...), c[:size]...)
	}
	return out
}

func TestDynamicMap(t *testing.T) {
	if !slices.IsSorted(dynamicLevels[:]) || dynamicLevels[127] != 0 || dynamicLevels[255] != 1 {
		t.Errorf("the levels are out of order: %v", dynamicLevels)
	}
	h := sha256.New()
	binary.Write(h, binary.LittleEndian, dynamicLevels[:])
	// Of create_dynamic_map() in bitsandbytes 0.50.2.
	if got := hex.EncodeToString(h.Sum(nil)); got != "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c" {
		t.Errorf("the levels have the sum %s", got)
	}
}

func TestPackMatrixOfOddValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, d := range []tensor.DType{tensor.INT8, tensor.NF4} {
		unpacked := func(x []float32) []float32 {
			m, err := PackMatrix(d, 1, len(x), rowsOf(x, len(x)))
			if err != nil {
				t.Fatal(err)
			}
			UnpackRow(x, m, 0)
			return x
		}
		for _, v := range unpacked(make([]float32, 128)) {
			if v != 0 {
				t.Fatalf("%v: zeros became %g", d, v)
			}
		}
		for _, bad := range []float32{inf, -inf, nan} {
			x := sample(1, 128)
			x[70] = bad
			if v := unpacked(x)[70]; v-v == 0 {
				t.Errorf("%v: %g became %g", d, bad, v)
			}
		}
		tiny := make([]float32, 128)
		for i := range tiny {
			tiny[i] = float32(i%5) * 1e-44
		}
		for i, v := range unpacked(tiny) {
			if !(abs(v) <= 1e-43) {
				t.Errorf("%v: a subnormal became %g at %d", d, v, i)
			}
		}
	}
}

func TestPackMatrixRefuses(t *testing.T) {
	none := func(int) []float32 { return nil }
	for _, c := range []struct {
		d    tensor.DType
		cols int
		want string
	}{
		{tensor.NF4, 100, "no whole number of groups of 64"},
		{tensor.INT8, MaxINT8Cols + 1, "overflow"},
	} {
		if _, err := PackMatrix(c.d, 1, c.cols, none); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %d columns: %v, want %q", c.d, c.cols, err, c.want)
		}
	}
}
