package qwen2

import "whorl/model"

// Of transformers' Qwen2Config.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 32768, KVHeads: 32}

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "qwen2", defaults)
	c.QKVBias = true
	c.Windows(f, 4096, 28)
	f.Only("use_mrope", "false") // of the vision models, left behind in some text models
	f.Rest("qwen2")
	return c, f.Err()
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "qwen2")
	c.QKVBias = true
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	return c, k.Err()
}
