package qwen3moe

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "qwen3moe",
		Architectures:    []string{"Qwen3MoeForCausalLM"},
		ModelType:        "qwen3_moe",
		GGUF:             "qwen3moe",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "self_attn.q_norm", "self_attn.k_norm"
	n.Param[nn.Router] = "mlp.gate"
	n.Expert[nn.Gate] = "mlp.experts.%d.gate_proj"
	n.Expert[nn.Up] = "mlp.experts.%d.up_proj"
	n.Expert[nn.Down] = "mlp.experts.%d.down_proj"
	return n
}

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "attn_q_norm", "attn_k_norm"
	n.MixtureNames()
	return n
}
