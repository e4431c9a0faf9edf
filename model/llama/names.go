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
		SafetensorsNames: safetensors(),
		GGUFNames:        gguf(),
	}
}

func safetensors() model.Names {
	n := model.DecoderNames()
	n.Prefixes = append(n.Prefixes,
		model.Prefix{Body: "language_model.model.", Head: "language_model."}, // inside a vision model, transformers 4
		model.Prefix{Body: "model.language_model."})                          // and 5
	n.Ignore = []string{".rotary_emb.inv_freq"} // stored by old versions, recomputed by all
	// A GGUF file with experts is what transformers calls Mixtral: names for adapters and digests.
	n.Param[nn.Router] = "block_sparse_moe.gate"
	n.Expert[nn.Gate] = "block_sparse_moe.experts.%d.w1"
	n.Expert[nn.Up] = "block_sparse_moe.experts.%d.w3"
	n.Expert[nn.Down] = "block_sparse_moe.experts.%d.w2"
	return n
}

func gguf() model.Names {
	n := model.DecoderGGUFNames()
	n.Ignore = []string{".attn_rot_embd"}
	n.MixtureNames()
	n.Interleaved = []nn.Param{nn.Q, nn.K} // the converter permutes them for ggml's rope
	return n
}
