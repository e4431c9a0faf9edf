package llama

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "llama",
		Architectures:    []string{"LlamaForCausalLM"},
		ModelType:        "llama",
		GGUF:             "llama",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors,
		GGUFNames:        gguf,
	}
}

var safetensors = model.Names{
	Prefixes: []model.Prefix{
		{Body: "model."}, // as the library saves LlamaForCausalLM
		{},               // LlamaModel alone, with the head beside it
		{Body: "language_model.model.", Head: "language_model."}, // inside a vision model, transformers 4
		{Body: "model.language_model."},                          // and 5
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
	Ignore:      []string{".attn_rot_embd"},
	Interleaved: []nn.Param{nn.Q, nn.K}, // the converter permutes them for ggml's rope
}
