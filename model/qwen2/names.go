package qwen2

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "qwen2",
		Architectures:    []string{"Qwen2ForCausalLM"},
		ModelType:        "qwen2",
		GGUF:             "qwen2",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors,
		GGUFNames:        gguf,
	}
}

var safetensors = model.Names{
	Prefixes: []model.Prefix{
		{Body: "model."}, // as the library saves Qwen2ForCausalLM
		{},               // Qwen2Model alone, with the head beside it
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
	Ignore: []string{".rotary_emb.inv_freq"}, // stored by old versions, recomputed by all
}

var gguf = model.Names{
	Prefixes: []model.Prefix{{}},
	Block:    "blk.%d.",
	Param: [nn.NumParams]string{
		nn.AttnNorm: "attn_norm",
		nn.Q:        "attn_q",
		nn.K:        "attn_k",
		nn.V:        "attn_v",
		nn.O:        "attn_output",
		nn.MLPNorm:  "ffn_norm",
		nn.Gate:     "ffn_gate",
		nn.Up:       "ffn_up",
		nn.Down:     "ffn_down",
	},
	Embed: "token_embd", Norm: "output_norm", Head: "output",
}
