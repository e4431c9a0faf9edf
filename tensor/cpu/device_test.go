package cpu_test

import (
	"fmt"
	"testing"

	"whorl/internal/golden"
	"whorl/tensor/cpu"
	"whorl/tensor/tensortest"
)

func open(t testing.TB, tier string, threads int) *cpu.Device {
	t.Helper()
	d, err := cpu.Open(cpu.Options{Tier: tier, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Every tier this machine has is forced in turn.
func TestConformance(t *testing.T) {
	for _, tier := range cpu.Tiers() {
		t.Run(tier, func(t *testing.T) { tensortest.Run(t, open(t, tier, 2)) })
	}
}

// The bits do not depend on the tier, nor on the number of threads, nor on the machine:
// the goldens were made on another one.
func TestSameBits(t *testing.T) {
	want := tensortest.Outputs(open(t, "generic", 1))
	golden.Check(t, "../tensortest/testdata/exact1.txt", tensortest.Hashes(want))
	for i, tier := range cpu.Tiers() {
		threads := []int{3}
		if i == 0 { // the one that runs unless another is asked for
			threads = []int{1, 2, 3, 4}
		}
		for _, n := range threads {
			t.Run(fmt.Sprintf("%s/%d", tier, n), func(t *testing.T) {
				tensortest.Same(t, tensortest.Outputs(open(t, tier, n)), want)
			})
		}
	}
}
