package qwen3

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "qwen3",
		Architectures:    []string{"Qwen3ForCausalLM"},
		ModelType:        "qwen3",
		GGUF:             "qwen3",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "self_attn.q_norm", "self_attn.k_norm"
	return n
}

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "attn_q_norm", "attn_k_norm"
	return n
}
