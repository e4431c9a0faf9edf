package tensor

import "fmt"

// DType is how the numbers of a matrix lie in memory. The block layouts of the quantised
// ones are those of GGUF and live in tensor/quant.
type DType uint8

// The data types. F32 is the zero value.
const (
	F32 DType = iota
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q6_K
	Q4_K
	INT8 // LLM.int8(): float weights are quantised to it, no file holds it
	NF4  // QLoRA's NormalFloat, likewise
	Q5_K
	Q5_0
	numDTypes
)

var dtypeNames = [numDTypes]string{"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q6_k", "q4_k", "int8", "nf4", "q5_k", "q5_0"}

// String is the name used on the command line and in records, such as "q4_1".
func (d DType) String() string {
	if d < numDTypes {
		return dtypeNames[d]
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Quantised tells block-quantised types from plain floats.
func (d DType) Quantised() bool { return d >= Q8_0 }

// ParseDType reads a name as [DType.String] writes it, or a long form ("float32",
// "bfloat16", "float16").
func ParseDType(s string) (DType, error) {
	switch s {
	case "float32":
		return F32, nil
	case "float16":
		return F16, nil
	case "bfloat16":
		return BF16, nil
	}
	for i, n := range dtypeNames {
		if n == s {
			return DType(i), nil
		}
	}
	return 0, fmt.Errorf("unknown data type %q: use one of %v", s, dtypeNames)
}

// Activations says how rows meet quantised weights; with float weights both modes are the
// same. It is a parameter of a session: every device supports both.
type Activations uint8

const (
	// Act8 quantises rows to 8 bits per group of 32 where the weights are quantised.
	Act8 Activations = iota
	// ActF32 multiplies the exactly dequantised weights by float rows: slow, the reference.
	ActF32
)

// String is the name used by the --activations flag and on the wire.
func (a Activations) String() string {
	if a == ActF32 {
		return "f32"
	}
	return "auto"
}

// ParseActivations reads "auto", "8bit" or "f32"; "" is "auto".
func ParseActivations(s string) (Activations, error) {
	switch s {
	case "", "auto", "8bit":
		return Act8, nil
	case "f32", "float32":
		return ActF32, nil
	}
	return 0, fmt.Errorf("unknown activation mode %q: use auto or f32", s)
}

// Residual says how rows are held between blocks: the residual stream. It is a parameter of a
// session, on every device the same.
type Residual uint8

const (
	// ResidualF32 leaves rows as blocks make them.
	ResidualF32 Residual = iota
	// ResidualBF16 rounds them (Device.Round) before the first block and after every block, the
	// last one included, wherever the next one is computed. Inside a block all is float32.
	ResidualBF16
)

// String is the name used by the --residual flag and on the wire.
func (r Residual) String() string {
	if r == ResidualBF16 {
		return "bf16"
	}
	return "f32"
}

// ParseResidual reads "f32" or "bf16"; "" is "f32".
func ParseResidual(s string) (Residual, error) {
	switch s {
	case "", "f32", "float32":
		return ResidualF32, nil
	case "bf16", "bfloat16":
		return ResidualBF16, nil
	}
	return 0, fmt.Errorf("unknown residual mode %q: use f32 or bf16", s)
}

// Mode is all of a session that alters how a block computes. The zero value is the default.
type Mode struct {
	Act      Activations
	Residual Residual
}

// Matrix is a weight as it lies in a file: Rows output features of Cols input features,
// row-major, each row in the block layout of DType.
type Matrix struct {
	DType      DType
	Rows, Cols int
	// Data may be a view of a memory-mapped file: devices only read it, and only
	// during Load.
	Data []byte
}
