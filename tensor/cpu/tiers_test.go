package cpu

import (
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// purego tells this build by its tag (purego_test.go).
var purego = false

// A tier must not vanish unseen: a second opinion says what this build on this processor
// has to offer.
func TestTiersAreAllThere(t *testing.T) {
	want := []string{"generic"}
	if runtime.GOARCH == "amd64" && !purego && cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512DQ, cpuid.AVX512VNNI, cpuid.BMI2) {
		want = []string{"avx512", "generic"}
	}
	if got := Tiers(); !slices.Equal(got, want) {
		t.Errorf("tiers are %v, want %v", got, want)
	}
	t.Logf("tiers on %s: %v", cpuid.CPU.BrandName, Tiers())
}

func TestOpenRefuses(t *testing.T) {
	for _, o := range []Options{{Tier: "sse"}, {Threads: -1}, {Threads: 1 << 20}} {
		if d, err := Open(o); err == nil {
			d.Close()
			t.Errorf("Open(%+v) gave no error", o)
		} else {
			t.Log(err)
		}
	}
}
