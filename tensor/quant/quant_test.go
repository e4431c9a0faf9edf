package quant

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"whorl/tensor"
)

func floats(t *testing.T, s string) []float32 {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(b)/4)
	unpackF32(out, b)
	return out
}

func sameBits(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// The reference package packs and unpacks these blocks; we must agree to the bit, but that
// our blocks of Q8_0 may err less.
func TestGoldens(t *testing.T) {
	file, err := os.Open("testdata/goldens.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[tensor.DType]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 5 || f[0] == "#" {
			continue
		}
		d, err := tensor.ParseDType(f[1])
		if err != nil {
			t.Fatal(err)
		}
		format, _ := Of(d)
		block, err := hex.DecodeString(f[3])
		if err != nil {
			t.Fatal(err)
		}
		want := floats(t, f[4])
		got := make([]float32, len(want))
		format.Unpack(got, block)
		if i := sameBits(got, want); i >= 0 {
			t.Errorf("%v unpack: value %d is %g, want %g", d, i, got[i], want[i])
		}
		if f[0] == "pack" {
			packed := make([]byte, len(block))
			format.Pack(packed, floats(t, f[2]))
			if d == tensor.Q8_0 {
				in, ours := floats(t, f[2]), make([]float32, len(want))
				format.Unpack(ours, packed)
				if e, theirs := distance(in, ours), distance(in, want); !(e < theirs) {
					t.Errorf("%v pack: errs by %g, the reference by %g", d, e, theirs)
				}
			} else if !bytes.Equal(packed, block) {
				t.Errorf("%v pack: got %x, want %x", d, packed, block)
			}
		}
		seen[d]++
	}
	for _, f := range All() {
		// Those that quantise whole matrices have goldens of their own (matrix_test.go).
		if f.DType != tensor.F32 && f.DType != tensor.INT8 && f.DType != tensor.NF4 && seen[f.DType] < 3 {
			t.Errorf("%v: %d goldens, want at least 3", f.DType, seen[f.DType])
		}
	}
}

func TestAllIsIndexedByDType(t *testing.T) {
	for i, f := range All() {
		if int(f.DType) != i {
			t.Errorf("format %d is %v", i, f.DType)
		}
		if got, ok := Of(f.DType); !ok || got.DType != f.DType {
			t.Errorf("Of(%v) = %v, %v", f.DType, got.DType, ok)
		}
	}
	if _, ok := Of(tensor.DType(len(All()))); ok {
		t.Error("Of accepts a type beyond the last")
	}
}

func TestEveryHalf(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		exp, frac := int(h>>10&31), float64(h&0x3ff)
		want := math.Ldexp(frac, -24)
		switch {
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		case exp > 0:
			want = math.Ldexp(1024+frac, exp-25)
		}
		if h&0x8000 != 0 {
			want = -want
		}
		got := F16ToF32(h)
		if math.IsNaN(want) {
			if got == got {
				t.Fatalf("%#04x: got %g, want NaN", h, got)
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
			t.Fatalf("%#04x: got %g, want %g", h, got, want)
		}
		if back := F32ToF16(got); back != h {
			t.Fatalf("%#04x came back as %#04x", h, back)
		}
		if exp == 31 || h&0x8000 != 0 {
			continue
		}
		// Halfway to the next half must go to the even one, a hair beside it to the nearer.
		next := float64(F16ToF32(h + 1))
		if math.IsInf(next, 0) {
			next = 65536
		}
		mid := float32((want + next) / 2)
		even := h + h&1
		for _, c := range []struct {
			v    float32
			want uint16
		}{{mid, even}, {math.Nextafter32(mid, 0), h}, {math.Nextafter32(mid, 1e9), h + 1}} {
			if got := F32ToF16(c.v); got != c.want {
				t.Fatalf("F32ToF16(%g) = %#04x, want %#04x", c.v, got, c.want)
			}
		}
	}
}

func TestBF16Rounds(t *testing.T) {
	for _, c := range []struct {
		in   uint32
		want uint16
	}{
		{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
		{0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0x7f800001, 0x7fc0}, {0xffc12345, 0xffc1}, {0x80000001, 0x8000},
	} {
		if got := F32ToBF16(math.Float32frombits(c.in)); got != c.want {
			t.Errorf("%#08x: got %#04x, want %#04x", c.in, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		m    tensor.Matrix
		want string // part of the error, "" for none
	}{
		{tensor.Matrix{DType: tensor.Q4_1, Rows: 3, Cols: 64, Data: make([]byte, 120)}, ""},
		{tensor.Matrix{DType: tensor.Q4_1, Rows: 3, Cols: 64, Data: make([]byte, 119)}, "got 119 bytes, want 120"},
		{tensor.Matrix{DType: tensor.Q4_1, Rows: 3, Cols: 65, Data: make([]byte, 120)}, "no whole number of groups of 32"},
		{tensor.Matrix{DType: tensor.DType(99), Rows: 3, Cols: 64}, "dtype(99) is no known format"},
		{tensor.Matrix{DType: tensor.F32, Rows: 0, Cols: 64}, "0x64"},
		{tensor.Matrix{DType: tensor.F32, Rows: 1, Cols: -1}, "-1 columns"},
		{tensor.Matrix{DType: tensor.F32, Rows: math.MaxInt, Cols: math.MaxInt}, "columns"},
		{tensor.Matrix{DType: tensor.F32, Rows: math.MaxInt, Cols: 4096}, "f32 matrix of"},
	} {
		err := Check(c.m)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %dx%d: got %v, want %q", c.m.DType, c.m.Rows, c.m.Cols, err, c.want)
		}
	}
}

// FuzzUnpack feeds arbitrary blocks: nothing may panic, values stay inside their group's
// slice, and a packed block must unpack to itself again.
func FuzzUnpack(f *testing.F) {
	for i := range All() {
		f.Add(uint8(i), bytes.Repeat([]byte{0x5a, 0xff, 0x00, 0x7c}, 64))
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		format := All()[int(kind)%len(All())]
		blocks := min((len(data)-format.Head)/format.Bytes, 64)
		if len(data) < format.Head {
			return
		}
		dst := make([]float32, blocks*format.Group+1)
		const guard = 12345
		dst[len(dst)-1] = guard
		out := dst[:len(dst)-1]
		format.Unpack(out, data[:format.Head+blocks*format.Bytes])
		if dst[len(dst)-1] != guard {
			t.Fatal("wrote past the end")
		}
		if format.Pack == nil {
			return
		}
		packed := make([]byte, format.Head+blocks*format.Bytes)
		format.Pack(packed, out)
		if format.Finish != nil {
			format.Finish(packed)
		}
		if !format.DType.Quantised() { // plain floats come back, but for the quiet bit of a NaN
			again := make([]float32, len(out))
			format.Unpack(again, packed)
			for i := range out {
				if out[i] == out[i] && math.Float32bits(out[i]) != math.Float32bits(again[i]) {
					t.Fatalf("value %d: %g came back as %g", i, out[i], again[i])
				}
			}
		}
	})
}

func TestPackBoundsTheError(t *testing.T) {
	x := make([]float32, 256)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*i))) * float32(1+i/32)
	}
	// Half a step of each format, as a share of the group's greatest magnitude; Q4_1 spans
	// twice that magnitude in 15 steps. The rounding of the scale to float16 adds a little.
	steps := map[tensor.DType]float64{tensor.Q8_0: 0.5 / 112, tensor.Q4_0: 1.0 / 8, tensor.Q4_1: 1.0 / 15}
	for d, step := range steps {
		f, _ := Of(d)
		buf := make([]byte, len(x)/f.Group*f.Bytes)
		got := make([]float32, len(x))
		f.Pack(buf, x)
		f.Unpack(got, buf)
		for g := 0; g < len(x); g += 32 {
			amax := float64(abs(argmaxAbs(x[g : g+32])))
			for i := g; i < g+32; i++ {
				if e := math.Abs(float64(got[i] - x[i])); e > amax*(step+0.001) {
					t.Errorf("%v: value %d is off by %g of %g", d, i, e, amax)
				}
			}
		}
	}
	zero := make([]float32, 32)
	for _, d := range []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q4_1} {
		f, _ := Of(d)
		buf := make([]byte, f.Bytes)
		f.Pack(buf, zero)
		if binary.LittleEndian.Uint16(buf)&0x7fff != 0 {
			t.Errorf("%v: zeros got the scale %x", d, buf[:2])
		}
	}
}
