package nn

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// ropeCase is a record of testdata/rope.json, which model/testdata/make_rope.py writes.
type ropeCase struct {
	Dim, Context, Length int
	Rope                 struct {
		Kind       string    `json:"rope_type"`
		Theta      float32   `json:"rope_theta"`
		Factor     float64   `json:"factor"`
		Low        float32   `json:"low_freq_factor"`
		High       float32   `json:"high_freq_factor"`
		OldContext int       `json:"original_max_position_embeddings"`
		Short      []float32 `json:"short_factor"`
		Long       []float32 `json:"long_factor"`
		BetaFast   float32   `json:"beta_fast"`
		BetaSlow   float32   `json:"beta_slow"`
		Truncate   *bool     `json:"truncate"`
		Magnitude  float32   `json:"attention_factor"`
		Scale      float64   `json:"mscale"`
		ScaleAll   float64   `json:"mscale_all_dim"`
	}
	Magnitude float32
	InvFreq   []float32 `json:"inv_freq"`
}

func (c ropeCase) rope() Rope {
	r := Rope{
		Kind: c.Rope.Kind, Theta: c.Rope.Theta, Dim: c.Dim, Factor: float32(c.Rope.Factor),
		LowFreq: c.Rope.Low, HighFreq: c.Rope.High, OldContext: c.Rope.OldContext, Magnitude: c.Rope.Magnitude,
	}
	switch r.Kind {
	case RopeYarn:
		r.BetaFast, r.BetaSlow = 32, 1
		if c.Rope.BetaFast != 0 {
			r.BetaFast, r.BetaSlow = c.Rope.BetaFast, c.Rope.BetaSlow
		}
		r.Untruncate = c.Rope.Truncate != nil && !*c.Rope.Truncate
		if r.Magnitude == 0 {
			r.Magnitude = YarnMagnitude(c.Rope.Factor, c.Rope.Scale, c.Rope.ScaleAll)
		}
	case RopeLong:
		r.Factors, r.Long = c.Rope.Short, c.Rope.Long
		r.Magnitude = LongMagnitude(float64(c.Context)/float64(r.OldContext), r.OldContext)
	case RopeDynamic:
		r.OldContext = c.Context
	}
	return r
}

// The frequencies are those of the reference library to the bit, but for the kinds
// where a few of its powers differ in their last place.
func TestInvFreqEqualsReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []ropeCase
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for _, c := range cases {
		r := c.rope()
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		fixed := r.At(c.Length)
		if err := fixed.Validate(); err != nil || fixed.LengthDependent() {
			t.Fatalf("%+v at %d is %+v: %v", r, c.Length, fixed, err)
		}
		got := fixed.InvFreq()
		if len(got) != len(c.InvFreq) {
			t.Fatalf("%+v: %d frequencies, want %d", r, len(got), len(c.InvFreq))
		}
		tolerance := 0.0
		if r.Kind == RopeDynamic || r.Kind == RopeYarn {
			tolerance = 4 * 0x1p-24
		}
		for i, want := range c.InvFreq {
			if math.Abs(float64(got[i]-want)) > tolerance*float64(want) {
				t.Errorf("%+v: frequency %d is %v, want %v", r, i, got[i], want)
			}
		}
		if m := fixed.Spec(c.Dim).Scale; m != c.Magnitude {
			t.Errorf("%+v: cos and sin by %v, want %v", r, m, c.Magnitude)
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
		{Rope{Kind: "spiral", Theta: 1e4, Dim: 64}, `rope type "spiral" is not supported`},
		{Rope{Kind: RopeYarn, Theta: 1e4, Dim: 64, BetaFast: 32, BetaSlow: 1, OldContext: 9}, "factor is 0"},
		{Rope{Kind: RopeYarn, Theta: 1, Dim: 64, Factor: 2, BetaFast: 32, BetaSlow: 1, OldContext: 9}, "theta is 1"},
		{Rope{Kind: RopeDynamic, Theta: 1e4, Dim: 2, Factor: 2, OldContext: 9}, "2 rotated elements"},
		{Rope{Kind: RopeLong, Theta: 1e4, Dim: 4, Factors: []float32{1, 1}, Long: []float32{1}, OldContext: 9}, "1 frequency factors"},
		{Rope{Kind: RopeDefault, Theta: 1e4, Dim: 64, Magnitude: nan}, "cos and sin is NaN"},
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
