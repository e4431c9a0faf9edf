package cohere

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "cohere",
		Architectures:    []string{"CohereForCausalLM"},
		ModelType:        "cohere",
		GGUF:             "command-r",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

// The rows of both formats hold rotated pairs side by side.
var interleaved = []nn.Param{nn.Q, nn.K}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Interleaved = interleaved
	return n
}

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Interleaved = interleaved
	return n
}
