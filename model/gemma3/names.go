package gemma3

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "gemma3",
		Architectures:    []string{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
		ModelType:        "gemma3_text",
		GGUF:             "gemma3",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Prefixes = append(n.Prefixes,
		model.Prefix{Body: "language_model.model.", Head: "language_model."}, // inside a vision model, transformers 4
		model.Prefix{Body: "model.language_model."})                          // and 5
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "self_attn.q_norm", "self_attn.k_norm"
	n.Param[nn.AttnOutNorm] = "post_attention_layernorm"
	n.Param[nn.MLPNorm] = "pre_feedforward_layernorm"
	n.Param[nn.MLPOutNorm] = "post_feedforward_layernorm"
	n.GainPlusOne = true
	return n
}

// The converter to GGUF adds the one to the gains.
func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Param[nn.QNorm], n.Param[nn.KNorm] = "attn_q_norm", "attn_k_norm"
	n.Param[nn.AttnOutNorm] = "post_attention_norm"
	n.Param[nn.MLPOutNorm] = "post_ffw_norm"
	return n
}
