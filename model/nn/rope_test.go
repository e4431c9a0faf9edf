package nn

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// The frequencies are those of the reference library to the bit.
func TestInvFreqEqualsReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Dim  int
		Rope struct {
			Kind       string  `json:"rope_type"`
			Theta      float32 `json:"rope_theta"`
			Factor     float32 `json:"factor"`
			Low        float32 `json:"low_freq_factor"`
			High       float32 `json:"high_freq_factor"`
			OldContext int     `json:"original_max_position_embeddings"`
		}
		InvFreq []float32 `json:"inv_freq"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, c := range cases {
		r := Rope{
			Kind: c.Rope.Kind, Theta: c.Rope.Theta, Dim: c.Dim,
			Factor: c.Rope.Factor, LowFreq: c.Rope.Low, HighFreq: c.Rope.High, OldContext: c.Rope.OldContext,
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		got := r.InvFreq()
		if len(got) != len(c.InvFreq) {
			t.Fatalf("%+v: %d frequencies, want %d", r, len(got), len(c.InvFreq))
		}
		for i, want := range c.InvFreq {
			if got[i] != want {
				t.Errorf("%+v: frequency %d is %v, want %v", r, i, got[i], want)
			}
		}
	}
}

func TestFactorsDivide(t *testing.T) {
	plain := Rope{Kind: RopeDefault, Theta: 10000, Dim: 4}
	r := Rope{Kind: RopeFactors, Theta: 10000, Dim: 4, Factors: []float32{1, 8}}
	if a, b := plain.InvFreq(), r.InvFreq(); b[0] != a[0] || b[1] != a[1]/8 {
		t.Errorf("%v became %v", a, b)
	}
}

func TestRopeValidate(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		r    Rope
		want string
	}{
		{Rope{Kind: RopeDefault, Theta: 1e4, Dim: 64}, ""},
		{Rope{Kind: "yarn", Theta: 1e4, Dim: 64}, `rope type "yarn" is not supported`},
		{Rope{Kind: RopeDefault, Theta: 1e4, Dim: 63}, "63 rotated elements"},
		{Rope{Kind: RopeDefault, Theta: 0, Dim: 64}, "theta is 0"},
		{Rope{Kind: RopeDefault, Theta: nan, Dim: 64}, "theta is NaN"},
		{Rope{Kind: RopeLinear, Theta: 1e4, Dim: 64}, "factor is 0"},
		{Rope{Kind: RopeLlama3, Theta: 1e4, Dim: 64, Factor: 8, LowFreq: 1, HighFreq: 1, OldContext: 9}, "is not above"},
		{Rope{Kind: RopeLlama3, Theta: 1e4, Dim: 64, Factor: 8, LowFreq: 1, HighFreq: 4}, "original_max_position_embeddings is 0"},
		{Rope{Kind: RopeFactors, Theta: 1e4, Dim: 4, Factors: []float32{1}}, "1 frequency factors, want 2"},
		{Rope{Kind: RopeFactors, Theta: 1e4, Dim: 4, Factors: []float32{1, nan}}, "is NaN"},
	} {
		err := tt.r.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v, want %q", tt.r, err, tt.want)
		}
	}
}
