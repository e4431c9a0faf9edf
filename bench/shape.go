package bench

import (
	"fmt"
	"strings"

	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

// shapes are published models, with the context they were made for.
var shapes = []struct {
	name string
	cfg  model.Config
}{
	{"135m", model.Config{Layers: 30, Vocab: 49152, Tied: true, MaxPositions: 8192, Spec: nn.Spec{Hidden: 576, Heads: 9, KVHeads: 3, HeadDim: 64, FFN: 1536}}},
	{"1.1b", model.Config{Layers: 22, Vocab: 32000, MaxPositions: 2048, Spec: nn.Spec{Hidden: 2048, Heads: 32, KVHeads: 4, HeadDim: 64, FFN: 5632}}},
	{"8b4l", model.Config{Layers: 4, Vocab: 32000, MaxPositions: 8192, Spec: nn.Spec{Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336}}},
	{"8b", model.Config{Layers: 32, Vocab: 128256, MaxPositions: 8192, Spec: nn.Spec{Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336}}},
}

// Shapes names the known shapes: SmolLM2-135M, TinyLlama-1.1B, four layers of Llama-3-8B
// with a smaller vocabulary, and the whole of it.
func Shapes() []string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

// ShapeOf is the configuration of a named shape.
func ShapeOf(name string) (model.Config, error) {
	for _, s := range shapes {
		if s.name == name {
			c := s.cfg
			c.Family, c.NormEps, c.Activation = "shape", 1e-5, tensor.SiLU
			c.Rope = nn.Rope{Kind: nn.RopeDefault, Theta: 10000, Dim: c.HeadDim}
			return c, nil
		}
	}
	return model.Config{}, fmt.Errorf("no shape %q: use one of %s", name, strings.Join(Shapes(), ", "))
}
