package smollm3

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "smollm3",
		Architectures:    []string{"SmolLM3ForCausalLM"},
		ModelType:        "smollm3",
		GGUF:             "smollm3",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names { return model.DecoderNames() }

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Ignore = []string{".attn_rot_embd"}
	n.Interleaved = []nn.Param{nn.Q, nn.K} // the converter permutes them for ggml's rope
	return n
}
