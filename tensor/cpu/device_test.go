package cpu_test

import (
	"fmt"
	"testing"

	"whorl/tensor"
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

// The bits do not depend on the tier, nor on the number of threads.
func TestSameBits(t *testing.T) {
	want := open(t, "generic", 1)
	for _, tier := range cpu.Tiers() {
		for threads := 1; threads <= 4; threads++ {
			t.Run(fmt.Sprintf("%s/%d", tier, threads), func(t *testing.T) {
				tensortest.Same(t, open(t, tier, threads), want)
			})
		}
	}
}

var _ tensor.Device = (*cpu.Device)(nil)
