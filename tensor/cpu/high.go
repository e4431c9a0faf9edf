package cpu

import "whorl/tensor"

// highFormat are the kernels of one of the formats of generic_kquant.go. Groups are whole
// super-blocks where the format has them.
type highFormat struct {
	// product continues quantised products.
	product func(q *quantArgs)
	// unpack dequantises groups of one block: dst is [groups*32][16].
	unpack func(dst []float32, data []byte, scale []uint16, groups int)
	// expand brings groups of one block in the form of a panel (kernels.expander).
	expand func(dst []panelGroup, data []byte, scale []uint16, groups int)
}

// highKernels are those of a tier.
type highKernels struct {
	q5_0, q4_k, q5_k, q6_k highFormat
}

// of gives the kernels of a format, nil for those that are elsewhere.
func (k *highKernels) of(t tensor.DType) *highFormat {
	switch t {
	case tensor.Q5_0:
		return &k.q5_0
	case tensor.Q4_K:
		return &k.q4_k
	case tensor.Q5_K:
		return &k.q5_k
	case tensor.Q6_K:
		return &k.q6_k
	}
	return nil
}

var genericHigh = highKernels{
	q5_0: highFormat{genericQ5_0, genericUnpackQ5_0, genericExpandQ5_0},
	q4_k: highFormat{genericQ4_K, genericUnpackQ4_K, genericExpandQ4_K},
	q5_k: highFormat{genericQ5_K, genericUnpackQ5_K, genericExpandQ5_K},
	q6_k: highFormat{genericQ6_K, genericUnpackQ6_K, genericExpandQ6_K},
}
