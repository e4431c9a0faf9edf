// Package families is the list of model families, and the way to open a model of any of
// them. It is not where families live: each has a folder beside this one.
package families

import (
	"context"

	"whorl/model"
	"whorl/model/bloom"
	"whorl/model/cohere"
	"whorl/model/falcon"
	"whorl/model/gemma2"
	"whorl/model/gemma3"
	"whorl/model/granite"
	"whorl/model/llama"
	"whorl/model/mistral"
	"whorl/model/mixtral"
	"whorl/model/olmo2"
	"whorl/model/phi3"
	"whorl/model/qwen2"
	"whorl/model/qwen3"
	"whorl/model/qwen3moe"
	"whorl/model/smollm3"
	"whorl/model/weights"
)

// All lists the families; a new one is a new line.
func All() []model.Family {
	return []model.Family{
		bloom.Family(),
		cohere.Family(),
		falcon.Family(),
		gemma2.Family(),
		gemma3.Family(),
		granite.Family(),
		llama.Family(),
		mistral.Family(),
		mixtral.Family(),
		olmo2.Family(),
		phi3.Family(),
		qwen2.Family(),
		qwen3.Family(),
		qwen3moe.Family(),
		smollm3.Family(),
	}
}

// Outline reads what is known of a model without its weights: of a folder that holds
// config.json, perhaps alone, or of a .gguf file (of a split one, any part).
func Outline(path string) (*model.Outline, error) { return model.OpenOutline(path, All()) }

// Open opens a local model: a folder with config.json and safetensors, or a .gguf file. It
// reads headers only and checks that every tensor that the configuration needs is there.
func Open(path string) (*model.Checkpoint, error) { return model.Open(path, All()) }

// OpenSource opens a model as Open does, of whose weights parts may still have to be brought.
func OpenSource(ctx context.Context, src weights.Source) (*model.Checkpoint, error) {
	return model.OpenSource(ctx, src, All())
}
