// Package families is the list of model families, and the way to open a model of any of
// them. It is not where families live: each has a folder beside this one.
package families

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"

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

// hubName is owner/name[@revision], as model hubs write it.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?$`)

// Open opens a local model: a folder with config.json and safetensors, or a .gguf file. It
// reads headers only and checks that every tensor that the configuration needs is there.
func Open(path string) (*model.Checkpoint, error) {
	c, err := model.Open(path, All())
	if errors.Is(err, fs.ErrNotExist) && hubName.MatchString(path) {
		return nil, fmt.Errorf("open model: no such file or folder %s; if it is the name of a model on a hub, downloads are not supported yet: fetch it and give the local path", path)
	}
	return c, err
}
