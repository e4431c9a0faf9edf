package codec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"whorl/tensor"
)

func TestRoundTripKeepsBits(t *testing.T) {
	in := []float32{0, float32(math.Copysign(0, -1)), 1, -1.5, math.MaxFloat32, math.SmallestNonzeroFloat32}
	b := Append(nil, F32, in)
	if len(b) != Size(F32, len(in)) {
		t.Fatalf("%d bytes, want %d", len(b), Size(F32, len(in)))
	}
	out, err := Decode(nil, F32, b, len(in))
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		if math.Float32bits(in[i]) != math.Float32bits(out[i]) {
			t.Errorf("value %d: %x, want %x", i, math.Float32bits(out[i]), math.Float32bits(in[i]))
		}
	}
}

// What is rounded travels in half the bytes without loss.
func TestBF16(t *testing.T) {
	in := []float32{0, float32(math.Copysign(0, -1)), 1, -1.5, 1.00390625, 1.01171875, math.MaxFloat32, -3.4e38, math.SmallestNonzeroFloat32,
		float32(math.Inf(1)), float32(math.NaN()), math.Float32frombits(0xff800001), 3.1415927}
	for i := range uint32(1 << 12) {
		in = append(in, math.Float32frombits(i*0x100801+i))
	}
	rounded := slices.Clone(in)
	Round(rounded)
	b := Append(nil, BF16, rounded)
	if len(b) != Size(BF16, len(in)) || len(b) != 2*len(in) {
		t.Fatalf("%d bytes for %d values", len(b), len(in))
	}
	out, err := Decode(nil, BF16, b, len(in))
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if math.Float32bits(out[i]) != math.Float32bits(rounded[i]) {
			t.Errorf("value %d: %x, want %x", i, math.Float32bits(out[i]), math.Float32bits(rounded[i]))
		}
	}
	if Of(tensor.ResidualBF16) != BF16 || Of(tensor.ResidualF32) != F32 {
		t.Error("codecs of the modes")
	}
}

func TestRefusals(t *testing.T) {
	if _, err := Decode(nil, 9, make([]byte, 4), 1); err == nil {
		t.Error("an unknown codec was read")
	}
	if _, err := Decode(nil, F32, make([]byte, 5), 1); err == nil {
		t.Error("five bytes were read as values")
	}
	if _, err := Decode(nil, BF16, make([]byte, 3), 1); err == nil {
		t.Error("three bytes were read as values")
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	if Finite([]float32{1, nan}) || Finite([]float32{inf}) || !Finite([]float32{math.MaxFloat32}) {
		t.Error("finite values are told wrongly")
	}
}

// Rows like those of a prompt come back whole in about two thirds of the bytes, whatever their number;
// noise, single tokens and rows without noise are sent as they are.
func TestPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	normal := func(n int) []float32 {
		rows := make([]float32, n)
		for i := range rows {
			rows[i] = float32(r.NormFloat64() * (1 + 10*float64(i%7)))
		}
		Round(rows)
		return rows
	}
	for _, n := range []int{minPacked, 8 * 576, packBlock - 1, packBlock, packBlock + 1, 3*packBlock + 17} {
		in := normal(n)
		b, ok := AppendPacked([]byte("head"), in)
		if !ok || string(b[:4]) != "head" {
			t.Fatalf("%d values are not packed", n)
		}
		b = b[4:]
		if share := float64(len(b)) / float64(2*n); share > 0.75 || !Fits(BF16Packed, BF16, n, len(b)) {
			t.Errorf("%d values take %.3f of their bytes", n, share)
		}
		out, err := Decode(nil, BF16Packed, b, n)
		if err != nil || !slices.Equal(out, in) {
			t.Errorf("%d values come back as others: %v", n, err)
		}
		for _, bad := range [][]byte{b[:len(b)-1], append(slices.Clone(b), 0), b[:n], b[:n+2], nil} {
			if out, err := Decode(nil, BF16Packed, bad, n); err == nil {
				t.Errorf("%d values are read from %d bytes instead of %d", len(out), len(bad), len(b))
			}
		}
	}
	noise := make([]float32, 10_000)
	for i := range noise {
		noise[i] = math.Float32frombits(r.Uint32() & 0xffff0000)
	}
	for what, rows := range map[string][]float32{"a token": normal(576), "noise": noise, "zeros": make([]float32, 10_000), "nothing": nil} {
		if b, ok := AppendPacked(nil, rows); ok && len(b) > len(rows)*2*15/16 || ok && what == "noise" || len(b) > 0 && !ok {
			t.Errorf("%s: packed %t, %d bytes for %d values", what, ok, len(b), len(rows))
		}
	}
	for _, c := range []struct {
		codec, want uint8
		n, bytes    int
		fits        bool
	}{
		{F32, F32, 3, 12, true}, {F32, F32, 3, 11, false}, {BF16, BF16, 3, 6, true}, {BF16, F32, 3, 6, false}, {F32, BF16, 3, 12, false},
		{BF16Packed, BF16, 100, 150, true}, {BF16Packed, BF16, 100, 200, false}, {BF16Packed, BF16, 100, 100, false}, {BF16Packed, F32, 100, 150, false},
		{BF16Packed, BF16, 1 << 40, 150, false}, {9, BF16, 3, 6, false},
	} {
		if Fits(c.codec, c.want, c.n, c.bytes) != c.fits {
			t.Errorf("%+v", c)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint8(1), []byte{0, 0, 128, 63}, 1)
	f.Add(uint8(2), []byte{128, 63}, 1)
	f.Add(uint8(0), []byte{1}, 1)
	rows := make([]float32, minPacked)
	for i := range rows {
		rows[i] = float32(i%100) + 1
	}
	Round(rows)
	if b, ok := AppendPacked(nil, rows); ok {
		f.Add(BF16Packed, b, len(rows))
	}
	f.Fuzz(func(t *testing.T, codec uint8, data []byte, n int) {
		rows, err := Decode(nil, codec, data, n)
		if err == nil && (len(rows) != n || len(rows) > len(data)) {
			t.Errorf("%d values of %d bytes where %d are said to be", len(rows), len(data), n)
		}
		if err == nil && codec != BF16Packed && !slices.Equal(Append(nil, codec, rows), data) {
			t.Error("decoded values are not encoded as before")
		}
	})
}

func BenchmarkPack(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]float32, 128*8192)
	for i := range rows {
		rows[i] = float32(r.NormFloat64())
	}
	Round(rows)
	var buf []byte
	b.Run("pack", func(b *testing.B) {
		b.SetBytes(int64(2 * len(rows)))
		for b.Loop() {
			buf, _ = AppendPacked(buf[:0], rows)
		}
	})
	b.Run("unpack", func(b *testing.B) {
		b.SetBytes(int64(2 * len(rows)))
		var out []float32
		for b.Loop() {
			out, _ = Decode(out[:0], BF16Packed, buf, len(rows))
		}
	})
}
