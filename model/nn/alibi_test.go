package nn

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"whorl/tensor/quant"
)

// Slopes are the reference's to the last bit or the one beside it, and after the rounding of
// Falcon the same.
func TestAlibiSlopes(t *testing.T) {
	raw, err := os.ReadFile("testdata/alibi.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []struct {
		Heads int       `json:"heads"`
		F32   []float32 `json:"f32"`
		BF16  []float32 `json:"bf16"`
	}
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	for _, want := range table {
		got := AlibiSlopes(want.Heads)
		if len(got) != want.Heads || len(want.F32) != want.Heads {
			t.Fatalf("%d heads: %d slopes, want %d", want.Heads, len(got), len(want.F32))
		}
		for i, s := range got {
			if d := int64(math.Float32bits(s)) - int64(math.Float32bits(want.F32[i])); d < -1 || d > 1 {
				t.Errorf("head %d of %d: slope %g, want %g", i, want.Heads, s, want.F32[i])
			}
			if r := quant.BF16ToF32(quant.F32ToBF16(s)); r != want.BF16[i] {
				t.Errorf("head %d of %d: %g in bfloat16, want %g", i, want.Heads, r, want.BF16[i])
			}
		}
	}
	if s, err := (Spec{Heads: 8}).alibi(nil); s != nil || err != nil {
		t.Errorf("a block without ALiBi: %v, %v", s, err)
	}
}
