package codec

import (
	"math"
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
	out, err := Decode(nil, F32, b)
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
	out, err := Decode(nil, BF16, b)
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
	if _, err := Decode(nil, 9, make([]byte, 4)); err == nil {
		t.Error("an unknown codec was read")
	}
	if _, err := Decode(nil, F32, make([]byte, 5)); err == nil {
		t.Error("five bytes were read as values")
	}
	if _, err := Decode(nil, BF16, make([]byte, 3)); err == nil {
		t.Error("three bytes were read as values")
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	if Finite([]float32{1, nan}) || Finite([]float32{inf}) || !Finite([]float32{math.MaxFloat32}) {
		t.Error("finite values are told wrongly")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint8(1), []byte{0, 0, 128, 63})
	f.Add(uint8(2), []byte{128, 63})
	f.Add(uint8(0), []byte{1})
	f.Fuzz(func(t *testing.T, codec uint8, data []byte) {
		if rows, err := Decode(nil, codec, data); err == nil && len(Append(nil, codec, rows)) != len(data) {
			t.Error("decoded values do not encode to the same length")
		}
	})
}
