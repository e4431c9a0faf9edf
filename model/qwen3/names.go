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
		SafetensorsNames: safetensors,
		GGUFNames:        gguf,
	}
}

var safetensors = model.Names{
	Prefixes: []model.Prefix{
		{Body: "model."}, // as the library saves Qwen3ForCausalLM
		{},               // Qwen3Model alone, with the head beside it
	},
	Block: "layers.%d.",
	Param: [nn.NumParams]string{
		nn.AttnNorm: "input_layernorm",
		nn.Q:        "self_attn.q_proj",
		nn.K:        "self_attn.k_proj",
		nn.V:        "self_attn.v_proj",
		nn.QNorm:    "self_attn.q_norm",
		nn.KNorm:    "self_attn.k_norm",
		nn.O:        "self_attn.o_proj",
		nn.MLPNorm:  "post_attention_layernorm",
		nn.Gate:     "mlp.gate_proj",
		nn.Up:       "mlp.up_proj",
		nn.Down:     "mlp.down_proj",
	},
	Embed: "embed_tokens", Norm: "norm", Head: "lm_head",
}

var gguf = model.Names{
	Prefixes: []model.Prefix{{}},
	Block:    "blk.%d.",
	Param: [nn.NumParams]string{
		nn.AttnNorm: "attn_norm",
		nn.Q:        "attn_q",
		nn.K:        "attn_k",
		nn.V:        "attn_v",
		nn.QNorm:    "attn_q_norm",
		nn.KNorm:    "attn_k_norm",
		nn.O:        "attn_output",
		nn.MLPNorm:  "ffn_norm",
		nn.Gate:     "ffn_gate",
		nn.Up:       "ffn_up",
		nn.Down:     "ffn_down",
	},
	Embed: "token_embd", Norm: "output_norm", Head: "output",
}
