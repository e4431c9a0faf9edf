package weights

// Limits on what a header may claim. They are far above any published checkpoint, and low
// enough that a hostile header costs little memory.
const (
	// maxJSONHeader is the limit of the reference safetensors reader.
	maxJSONHeader = 100_000_000
	// maxIndex bounds model.safetensors.index.json; a 405B model's is about 100 KB.
	maxIndex = 64 << 20
	// maxShards bounds the files of one index; the largest published have about 200.
	maxShards = 4096
	// maxTensors bounds the tensors of a checkpoint; 126 layers of 9 tensors are 1,134,
	// a mixture of 256 experts over 61 layers about 48,000.
	maxTensors = 1 << 20
	// maxDims is what GGUF allows; no matrix of a language model has more.
	maxDims = 8
	// maxGGUFDims is GGML_MAX_DIMS.
	maxGGUFDims = 4
	// maxKeys bounds the metadata pairs of a GGUF file, which has about 30.
	maxKeys = 1 << 16
	// maxName bounds a metadata key (the format's own limit) and a tensor's name.
	maxName = 1<<16 - 1
	// maxArrayDepth bounds arrays of arrays, of which no known key has any.
	maxArrayDepth = 4
	// maxAlignment bounds general.alignment; 32 is the default.
	maxAlignment = 1 << 20
)
