package wiring

import (
	"whorl/model/tokenizer"
	"whorl/model/weights"
)

// GGUFTokenizer makes the tokenizer of a GGUF file.
func GGUFTokenizer(path string, m *weights.Metadata) (*tokenizer.Tokenizer, error) {
	t, err := tokenizer.FromGGUF(ggufVocab(m))
	if err != nil {
		return nil, Usagef("tokenizer of %s: %w", path, err)
	}
	return t, nil
}

// ggufVocab collects what the metadata of a GGUF file says about its tokenizer.
func ggufVocab(m *weights.Metadata) tokenizer.GGUFVocab {
	const prefix = "tokenizer.ggml."
	var v tokenizer.GGUFVocab
	v.Name, _ = m.String("general.name")
	v.Model, _ = m.String(prefix + "model")
	v.Pre, _ = m.String(prefix + "pre")
	v.Tokens, _ = m.Strings(prefix + "tokens")
	v.Merges, _ = m.Strings(prefix + "merges")
	v.ChatTemplate, _ = m.String("tokenizer.chat_template")
	v.ToolTemplate, _ = m.String("tokenizer.chat_template.tool_use")
	if types, ok := m.Ints(prefix + "token_type"); ok {
		v.Types = make([]int32, len(types))
		for i, t := range types {
			v.Types[i] = int32(t)
		}
	}
	if scores, ok := m.Floats(prefix + "scores"); ok {
		v.Scores = make([]float32, len(scores))
		for i, s := range scores {
			v.Scores[i] = float32(s)
		}
	}
	id := func(key string) int32 {
		if n, ok := m.Int(prefix + key); ok {
			return int32(n)
		}
		return -1
	}
	v.BOS, v.EOS, v.UNK = id("bos_token_id"), id("eos_token_id"), id("unknown_token_id")
	v.PAD, v.EOT, v.EOM = id("padding_token_id"), id("eot_token_id"), id("eom_token_id")
	yes := func(key string) *bool {
		if b, ok := m.Bool(prefix + key); ok {
			return &b
		}
		return nil
	}
	v.AddBOS, v.AddEOS, v.AddSpacePrefix = yes("add_bos_token"), yes("add_eos_token"), yes("add_space_prefix")
	return v
}
