package falcon

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "falcon",
		Architectures:    []string{"FalconForCausalLM", "FalconModel"},
		ModelType:        "falcon",
		GGUF:             "falcon",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

var qkv = []nn.Param{nn.Q, nn.K, nn.V}

func safetensors() model.Names {
	n := model.Names{
		Prefixes: []model.Prefix{
			{Body: "transformer."},
			{}, // the model alone
		},
		Block: "h.%d.",
		Fused: []model.Fused{{Tensor: "self_attention.query_key_value", Params: qkv, ByHead: true}},
		Embed: "word_embeddings", Norm: "ln_f", Head: "lm_head",
	}
	n.Param[nn.AttnNorm], n.Param[nn.MLPNorm] = "input_layernorm", "post_attention_layernorm"
	n.Beside[nn.AttnNorm], n.Beside[nn.MLPNorm] = "ln_attn", "ln_mlp"
	n.Param[nn.O] = "self_attention.dense"
	n.Param[nn.Up], n.Param[nn.Down] = "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"
	return n
}

// gguf: the converter puts all queries before all keys before all values. The second norm of
// a block is that of attention.
func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Fused = []model.Fused{{Tensor: "attn_qkv", Params: qkv}}
	n.Beside[nn.AttnNorm], n.Beside[nn.MLPNorm] = "attn_norm_2", "attn_norm"
	return n
}
