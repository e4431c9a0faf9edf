package gemma2

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "gemma2",
		Architectures:    []string{"Gemma2ForCausalLM"},
		ModelType:        "gemma2",
		GGUF:             "gemma2",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Param[nn.AttnOutNorm] = "post_attention_layernorm"
	n.Param[nn.MLPNorm] = "pre_feedforward_layernorm"
	n.Param[nn.MLPOutNorm] = "post_feedforward_layernorm"
	n.GainPlusOne = true
	return n
}

// The converter to GGUF adds the one to the gains.
func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Param[nn.AttnOutNorm] = "post_attention_norm"
	n.Param[nn.MLPOutNorm] = "post_ffw_norm"
	return n
}
