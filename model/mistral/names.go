package mistral

import "whorl/model"

// Family describes the architecture. GGUF knows it as llama.
func Family() model.Family {
	return model.Family{
		Name:             "mistral",
		Architectures:    []string{"MistralForCausalLM"},
		ModelType:        "mistral",
		FromJSON:         fromJSON,
		SafetensorsNames: model.DecoderNames(),
	}
}
