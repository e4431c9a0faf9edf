package mistral

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture. GGUF knows it as llama.
func Family() model.Family {
	return model.Family{
		Name:             "mistral",
		Architectures:    []string{"MistralForCausalLM"},
		ModelType:        "mistral",
		FromJSON:         fromJSON,
		SafetensorsNames: safetensors,
	}
}

var safetensors = model.Names{
	Prefixes: []model.Prefix{
		{Body: "model."}, // as the library saves MistralForCausalLM
		{},               // MistralModel alone, with the head beside it
	},
	Block: "layers.%d.",
	Param: [nn.NumParams]string{
		nn.AttnNorm: "input_layernorm",
		nn.Q:        "self_attn.q_proj",
		nn.K:        "self_attn.k_proj",
		nn.V:        "self_attn.v_proj",
		nn.O:        "self_attn.o_proj",
		nn.MLPNorm:  "post_attention_layernorm",
		nn.Gate:     "mlp.gate_proj",
		nn.Up:       "mlp.up_proj",
		nn.Down:     "mlp.down_proj",
	},
	Embed: "embed_tokens", Norm: "norm", Head: "lm_head",
}
