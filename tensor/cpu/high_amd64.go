//go:build amd64 && !purego

package cpu

// assembly makes the kernels of a format of those in assembly; expand may be nil.
func assembly(products quantKernels, unpack func(dst *float32, data *byte, scale *uint16, groups int), expand func(dst, data *byte, scale *uint16, groups int)) highFormat {
	f := highFormat{
		product: func(q *quantArgs) { quantRows(products, q) },
		unpack: func(dst []float32, data []byte, scale []uint16, groups int) {
			unpack(&dst[0], &data[0], &scale[0], groups)
		},
	}
	if expand != nil {
		f.expand = func(dst []panelGroup, data []byte, scale []uint16, groups int) {
			expand(bytesOf(dst), &data[0], &scale[0], groups)
		}
	}
	return f
}

var avx512High = highKernels{
	q5_0: assembly(quantKernels{
		avx512Q5_0x1, avx512Q5_0x2, avx512Q5_0x3, avx512Q5_0x4, avx512Q5_0x5, avx512Q5_0x6,
		avx512Q5_0x7, avx512Q5_0x8, avx512Q5_0x9, avx512Q5_0x10, avx512Q5_0x11, avx512Q5_0x12,
		avx512Q5_0x13, avx512Q5_0x14, avx512Q5_0x15, avx512Q5_0x16,
	}, avx512UnpackQ5_0, avx512ExpandQ5_0),
	q4_k: assembly(quantKernels{
		avx512Q4_Kx1, avx512Q4_Kx2, avx512Q4_Kx3, avx512Q4_Kx4, avx512Q4_Kx5, avx512Q4_Kx6,
		avx512Q4_Kx7, avx512Q4_Kx8, avx512Q4_Kx9, avx512Q4_Kx10, avx512Q4_Kx11, avx512Q4_Kx12,
		avx512Q4_Kx13, avx512Q4_Kx14, avx512Q4_Kx15, avx512Q4_Kx16,
	}, avx512UnpackQ4_K, avx512ExpandQ4_K),
	q5_k: assembly(quantKernels{
		avx512Q5_Kx1, avx512Q5_Kx2, avx512Q5_Kx3, avx512Q5_Kx4, avx512Q5_Kx5, avx512Q5_Kx6,
		avx512Q5_Kx7, avx512Q5_Kx8, avx512Q5_Kx9, avx512Q5_Kx10, avx512Q5_Kx11, avx512Q5_Kx12,
		avx512Q5_Kx13, avx512Q5_Kx14, avx512Q5_Kx15, avx512Q5_Kx16,
	}, avx512UnpackQ5_K, avx512ExpandQ5_K),
	q6_k: assembly(quantKernels{
		avx512Q6_Kx1, avx512Q6_Kx2, avx512Q6_Kx3, avx512Q6_Kx4, avx512Q6_Kx5, avx512Q6_Kx6,
		avx512Q6_Kx7, avx512Q6_Kx8, avx512Q6_Kx9, avx512Q6_Kx10, avx512Q6_Kx11, avx512Q6_Kx12,
		avx512Q6_Kx13, avx512Q6_Kx14, avx512Q6_Kx15, avx512Q6_Kx16,
	}, avx512UnpackQ6_K, avx512ExpandQ6_K),
}
