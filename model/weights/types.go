package weights

import (
	"fmt"
	"math"

	"whorl/tensor"
)

// layout is how a file's element type packs numbers: blockBytes hold blockElems of them.
type layout struct {
	name       string
	blockElems int
	blockBytes int
	dtype      tensor.DType // meaningful if ok
	ok         bool         // devices can load it
}

func plain(name string, size int) layout {
	return layout{name: name, blockElems: 1, blockBytes: size}
}

func known(name string, elems, size int, d tensor.DType) layout {
	return layout{name: name, blockElems: elems, blockBytes: size, dtype: d, ok: true}
}

func packed(name string, elems, size int) layout {
	return layout{name: name, blockElems: elems, blockBytes: size}
}

// safetensorsTypes are the element types of the safetensors format. Those that no device
// loads are listed so that files holding a stray one (a mask, a counter) still open.
var safetensorsTypes = map[string]layout{
	"F32": known("F32", 1, 4, tensor.F32), "F16": known("F16", 1, 2, tensor.F16),
	"BF16": known("BF16", 1, 2, tensor.BF16),
	"F64":  plain("F64", 8), "I64": plain("I64", 8), "U64": plain("U64", 8),
	"I32": plain("I32", 4), "U32": plain("U32", 4), "I16": plain("I16", 2), "U16": plain("U16", 2),
	"I8": plain("I8", 1), "U8": plain("U8", 1), "BOOL": plain("BOOL", 1),
	"F8_E4M3": plain("F8_E4M3", 1), "F8_E5M2": plain("F8_E5M2", 1), "F8_E8M0": plain("F8_E8M0", 1),
	"C64": plain("C64", 8),
}

// ggufTypes are the tensor types of GGUF by their number in the file.
var ggufTypes = map[uint32]layout{
	0: known("F32", 1, 4, tensor.F32), 1: known("F16", 1, 2, tensor.F16), 30: known("BF16", 1, 2, tensor.BF16),
	2: known("Q4_0", 32, 18, tensor.Q4_0), 3: known("Q4_1", 32, 20, tensor.Q4_1),
	8: known("Q8_0", 32, 34, tensor.Q8_0), 14: known("Q6_K", 256, 210, tensor.Q6_K),
	6: known("Q5_0", 32, 22, tensor.Q5_0), 7: packed("Q5_1", 32, 24), 9: packed("Q8_1", 32, 40),
	10: packed("Q2_K", 256, 84), 11: packed("Q3_K", 256, 110), 12: known("Q4_K", 256, 144, tensor.Q4_K),
	13: known("Q5_K", 256, 176, tensor.Q5_K), 15: packed("Q8_K", 256, 292),
	16: packed("IQ2_XXS", 256, 66), 17: packed("IQ2_XS", 256, 74), 18: packed("IQ3_XXS", 256, 98),
	19: packed("IQ1_S", 256, 50), 20: packed("IQ4_NL", 32, 18), 21: packed("IQ3_S", 256, 110),
	22: packed("IQ2_S", 256, 82), 23: packed("IQ4_XS", 256, 136), 29: packed("IQ1_M", 256, 56),
	24: plain("I8", 1), 25: plain("I16", 2), 26: plain("I32", 4), 27: plain("I64", 8), 28: plain("F64", 8),
	34: packed("TQ1_0", 256, 54), 35: packed("TQ2_0", 256, 66), 39: packed("MXFP4", 32, 17),
	40: packed("NVFP4", 64, 36), 41: packed("Q1_0", 128, 18),
}

// size gives the bytes of a tensor of this layout; the last dimension is the row. It fails
// on overflow and on rows that are no whole number of blocks.
func (l layout) size(shape []int) (int64, error) {
	elems := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension %d", d)
		}
		if d != 0 && elems > math.MaxInt64/int64(d) {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		elems *= int64(d)
	}
	if l.blockElems > 1 {
		if len(shape) == 0 || shape[len(shape)-1]%l.blockElems != 0 {
			return 0, fmt.Errorf("rows of shape %v are no whole number of %s blocks of %d", shape, l.name, l.blockElems)
		}
	}
	blocks := elems / int64(l.blockElems)
	if blocks > math.MaxInt64/int64(l.blockBytes) {
		return 0, fmt.Errorf("shape %v overflows", shape)
	}
	return blocks * int64(l.blockBytes), nil
}
