package granite

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "granite",
		Architectures:    []string{"GraniteForCausalLM"},
		ModelType:        "granite",
		GGUF:             "granite",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names { return model.DecoderNames() }

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Interleaved = []nn.Param{nn.Q, nn.K} // the converter permutes them for ggml's rope
	return n
}
