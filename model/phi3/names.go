package phi3

import (
	"whorl/model"
	"whorl/model/nn"
)

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "phi3",
		Architectures:    []string{"Phi3ForCausalLM"},
		ModelType:        "phi3",
		GGUF:             "phi3",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func fused(qkv, gateUp string) []model.Fused {
	return []model.Fused{
		{Tensor: qkv, Params: []nn.Param{nn.Q, nn.K, nn.V}},
		{Tensor: gateUp, Params: []nn.Param{nn.Gate, nn.Up}},
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Fused = fused("self_attn.qkv_proj", "mlp.gate_up_proj")
	return n
}

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Fused = fused("attn_qkv", "ffn_up")
	return n
}
