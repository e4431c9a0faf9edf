package cpu

import (
	"testing"
	"unsafe"

	"whorl/tensor"
)

func TestWidenKernels(t *testing.T) {
	src := make([]uint16, 1<<16)
	for i := range src {
		src[i] = uint16(i)
	}
	twins(t, "widen f16", func(k *kernels, mem func(int) []float32) { k.halves[tensor.F16].widen(mem(len(src)), src) })
	twins(t, "widen bf16", func(k *kernels, mem func(int) []float32) { k.halves[tensor.BF16].widen(mem(len(src)), src) })
}

// The assembly knows these offsets (asm/panel.go).
func TestPanelGroupLayout(t *testing.T) {
	var g panelGroup
	if got := [...]uintptr{unsafe.Offsetof(g.scale), unsafe.Offsetof(g.minimum), unsafe.Sizeof(g)}; got != [...]uintptr{512, 576, 640} {
		t.Errorf("layout of a group of a panel is %v", got)
	}
}
