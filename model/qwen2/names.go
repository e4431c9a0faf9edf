package qwen2

import "whorl/model"

// Family describes the architecture.
func Family() model.Family {
	return model.Family{
		Name:             "qwen2",
		Architectures:    []string{"Qwen2ForCausalLM"},
		ModelType:        "qwen2",
		GGUF:             "qwen2",
		FromJSON:         fromJSON,
		FromGGUF:         fromGGUF,
		SafetensorsNames: safetensors(),
		GGUFNames:        model.DecoderGGUFNames(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Ignore = []string{".rotary_emb.inv_freq"} // stored by old versions, recomputed by all
	return n
}
