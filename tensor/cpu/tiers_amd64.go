//go:build amd64 && !purego

package cpu

import syscpu "golang.org/x/sys/cpu"

// archTiers lists the tiers in assembly that this processor can run, best first.
func archTiers() (tiers []namedTier) {
	if hasAVX512() {
		tiers = append(tiers, namedTier{"avx512", &avx512})
	}
	if hasAVX2() {
		tiers = append(tiers, namedTier{"avx2", &avx2})
	}
	return tiers
}

// hasAVX512 tells whether the processor and the system support what "avx512" is made of.
func hasAVX512() bool {
	x := &syscpu.X86
	return x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ && x.HasAVX512VNNI && x.HasBMI2
}

// hasAVX2 tells whether they support what "avx2" is made of.
func hasAVX2() bool {
	x := &syscpu.X86
	return x.HasAVX2 && x.HasFMA && x.HasF16C
}
