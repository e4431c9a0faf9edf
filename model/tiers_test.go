package model_test

import (
	"testing"

	"whorl/model"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

// openTiers opens the device once with each set of kernels of this machine, best first.
func openTiers(t *testing.T, threads int) map[string]tensor.Device {
	t.Helper()
	devs := map[string]tensor.Device{}
	for _, tier := range cpu.Tiers() {
		dev, err := cpu.Open(cpu.Options{Tier: tier, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		devs[tier] = dev
	}
	return devs
}

// sameOnTiers compares logits of a prompt, part of it at once and part step by step.
func sameOnTiers(t *testing.T, devs map[string]tensor.Device, path string, mode tensor.Activations, prompt []int32) {
	t.Helper()
	bulk := len(prompt) * 3 / 4
	run := func(dev tensor.Device) []float32 {
		r := newRig(t, path, dev, model.LoadOptions{})
		s := r.sequence(len(prompt))
		rows := r.hidden(mode, nil, part{s, prompt[:bulk]})
		for _, id := range prompt[bulk:] {
			rows = append(rows, r.hidden(mode, nil, part{s, []int32{id}})...)
		}
		return r.logits(mode, rows)
	}
	best := cpu.Tiers()[0]
	want := run(devs[best])
	for tier, dev := range devs {
		if tier != best && !sameBits(run(dev), want) {
			t.Errorf("%s: other logits than %s", tier, best)
		}
	}
}

// Whatever kernels compute a model, the bits are the same.
func TestTiersGiveTheSameBits(t *testing.T) {
	devs := openTiers(t, 2)
	eachBitCase(t, func(t *testing.T, path string, mode tensor.Activations) {
		sameOnTiers(t, devs, path, mode, ids(24, 4))
	})
}

// At the sizes of a real model, and with its weights, too.
func TestSmolLM2OnTiers(t *testing.T) {
	path := smollm2(t)
	devs := openTiers(t, 2)
	delete(devs, "generic") // it takes minutes; the small models have it
	if len(devs) < 2 {
		t.Skip("not proven: equal bits of the fast tiers on SmolLM2-135M (this processor has less than two)")
	}
	for _, mode := range []tensor.Activations{tensor.Act8, tensor.ActF32} {
		sameOnTiers(t, devs, path, mode, ids(tensor.AttendSplit+40, 5))
	}
}
