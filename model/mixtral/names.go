package mixtral

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture. GGUF knows it as llama.
func Family() model.Family {
	return model.Family{
		Name:             "mixtral",
		Architectures:    []string{"MixtralForCausalLM"},
		ModelType:        "mixtral",
		FromJSON:         fromJSON,
		SafetensorsNames: safetensors(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Param[nn.Router] = "block_sparse_moe.gate"
	n.Expert[nn.Gate] = "block_sparse_moe.experts.%d.w1"
	n.Expert[nn.Up] = "block_sparse_moe.experts.%d.w3"
	n.Expert[nn.Down] = "block_sparse_moe.experts.%d.w2"
	return n
}
