package olmo2

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "olmo2",
		Architectures:    []string{"Olmo2ForCausalLM"},
		ModelType:        "olmo2",
		GGUF:             "olmo2",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "self_attn.q_norm", "self_attn.k_norm"
	n.Param[nn.AttnOutNorm] = "post_attention_layernorm"
	n.Param[nn.MLPOutNorm] = "post_feedforward_layernorm"
	return n
}

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "attn_q_norm", "attn_k_norm"
	n.Param[nn.AttnOutNorm] = "post_attention_norm"
	n.Param[nn.MLPOutNorm] = "post_ffw_norm"
	return n
}
