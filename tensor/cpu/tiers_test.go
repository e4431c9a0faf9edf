package cpu

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// purego tells this build by its tag (purego_test.go).
var purego = false

// A tier must not vanish unseen: a second opinion says what this build on this processor
// has to offer.
func TestTiersAreAllThere(t *testing.T) {
	var want []string
	if runtime.GOARCH == "amd64" && !purego {
		if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512DQ, cpuid.AVX512VNNI, cpuid.BMI2) {
			want = append(want, "avx512")
		}
		if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) {
			want = append(want, "avx2")
		}
	}
	want = append(want, "generic")
	if got := Tiers(); !slices.Equal(got, want) {
		t.Errorf("tiers are %v, want %v", got, want)
	}
	t.Logf("tiers on %s: %v", cpuid.CPU.BrandName, Tiers())
}

// A machine with AVX-512 would run an instruction of it in the tier for those without, and
// no other test would notice.
func TestAVX2IsNoMore(t *testing.T) {
	files, err := filepath.Glob("avx2_*_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, file := range files {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	beyond := regexp.MustCompile(`// Requires:.*(AVX512|BMI)|\b([XY](1[6-9]|2[0-9]|3[01])|[ZK][0-9]+)\b`)
	kernels := 0
	for line := range strings.Lines(string(text)) {
		if beyond.MatchString(line) {
			t.Errorf("not for AVX2, FMA and F16C: %s", line)
		}
		if strings.HasPrefix(line, "// Requires:") {
			kernels++
		}
	}
	if kernels == 0 {
		t.Error("no kernel says what it requires")
	}
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
