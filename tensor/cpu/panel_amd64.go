//go:build amd64 && !purego

package cpu

import "unsafe"

// panelKernels holds the kernels of panels of bytes by rows, from 1.
type panelKernels []func(acc *float32, accStride uintptr, panel *byte, x *byte, xStride uintptr, groups, times int, out *float32, outStride uintptr, add bool)

var avx512Panels = [...]panelKernels{
	plainPanel: {
		avx512Panelx1, avx512Panelx2, avx512Panelx3,
		avx512Panelx4, avx512Panelx5, avx512Panelx6,
	},
	minimumPanel: {
		avx512PanelMinimumx1, avx512PanelMinimumx2, avx512PanelMinimumx3,
		avx512PanelMinimumx4, avx512PanelMinimumx5, avx512PanelMinimumx6,
	},
	halfPanel: {
		avx512PanelHalvesx1, avx512PanelHalvesx2, avx512PanelHalvesx3,
		avx512PanelHalvesx4, avx512PanelHalvesx5,
	},
}

func avx512BytePanel(a *panelArgs) {
	kernels := avx512Panels[a.form]
	together := equalParts(a.rows, len(kernels))
	for r := 0; r < a.rows; {
		n := min(a.rows-r, together)
		times := (a.rows - r) / n
		kernels[n-1](&a.acc[r*a.accStride], uintptr(4*a.accStride), bytesOf(a.panel), (*byte)(unsafe.Pointer(&a.x[r*a.xStride])),
			uintptr(a.xStride)*unsafe.Sizeof(quantGroup{}), len(a.panel)/2, times, &a.out[r*a.outStride], uintptr(4*a.outStride), a.add)
		r += n * times
	}
}

func bytesOf(panel []panelGroup) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(panel))) }
