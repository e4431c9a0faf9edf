package quant

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"whorl/tensor"
)

// Repacked blocks stand for the values that the reference package reads, to the bit.
func TestRepackingIsExact(t *testing.T) {
	file, err := os.Open("testdata/repack.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[string]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if f[0] == "#" {
			continue
		}
		r, ok := RepackingOf(f[0])
		if !ok {
			t.Fatalf("no repacking of %s", f[0])
		}
		src, err := hex.DecodeString(f[1])
		if err != nil {
			t.Fatal(err)
		}
		want := floats(t, f[2])
		if len(src)%r.Bytes != 0 || len(want) != len(src)/r.Bytes*r.Group {
			t.Fatalf("%s: %d values in %d bytes", r.Type, len(want), len(src))
		}
		size, err := RowBytes(r.To, len(want))
		if err != nil {
			t.Fatal(err)
		}
		m := tensor.Matrix{DType: r.To, Rows: 1, Cols: len(want), Data: make([]byte, size)}
		for i := range m.Data {
			m.Data[i] = 0xa5 // what was there before must not matter
		}
		r.Repack(m.Data, src)
		got := make([]float32, len(want))
		UnpackRow(got, m, 0)
		if i := sameBits(got, want); i >= 0 {
			t.Errorf("%s: value %d is %g, want %g", r.Type, i, got[i], want[i])
		}
		seen[r.Type]++
	}
	for _, r := range repackings {
		if seen[r.Type] < 4 {
			t.Errorf("%s: %d rows of the reference, want at least 4", r.Type, seen[r.Type])
		}
	}
	if _, ok := RepackingOf("IQ2_XXS"); ok {
		t.Error("a type without a repacking has one")
	}
}
