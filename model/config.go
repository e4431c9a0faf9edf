package model

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"

	"whorl/content"
	"whorl/model/nn"
	"whorl/tensor"
)

// Limits on what a configuration may claim, so that products of sizes cannot overflow and
// a hostile file cannot ask for absurd memory. All are far above published models.
const (
	maxLayers = 4096
	maxVocab  = 1 << 24
	maxWidth  = 1 << 20 // hidden, ffn, heads * head dim
	maxMLPs   = 1 << 24 // ffn * experts
)

// Config is a model's shape and maths, normalised from config.json or GGUF metadata.
type Config struct {
	// Family is the one whose graph this is: the Family that read it, or another that it
	// is a case of.
	Family string

	// Spec is the graph of the blocks. Where blocks differ, Kinds has an entry for each:
	// 0 for Spec, i for Others[i-1]. Widths of rows and heads are the same in all.
	nn.Spec
	Others []nn.Spec
	Kinds  []uint8

	Vocab, Layers int
	Tied          bool // the LM head is the embedding table

	EmbedScale   float32 // multiplies embeddings; 0: none
	EmbedNorm    bool    // embeddings are normalised, as blocks normalise
	LogitScale   float32 // multiplies logits; 0: none
	LogitSoftcap float32 // caps them, after that; 0: none

	// MaxPositions is the context the model was made for. It alters no maths here.
	MaxPositions int
}

// Block is the graph of block i.
func (c Config) Block(i int) nn.Spec {
	if i < len(c.Kinds) && c.Kinds[i] > 0 {
		return c.Others[c.Kinds[i]-1]
	}
	return c.Spec
}

// SetBlocks gives every block its graph: the first is Config.Spec from then on.
func (c *Config) SetBlocks(specs []nn.Spec) {
	c.Others, c.Kinds = nil, nil
	if len(specs) == 0 {
		return
	}
	c.Spec = specs[0]
	kinds := make([]uint8, len(specs))
	for i, s := range specs {
		if reflect.DeepEqual(s, c.Spec) {
			continue
		}
		k := slices.IndexFunc(c.Others, func(o nn.Spec) bool { return reflect.DeepEqual(o, s) })
		if k < 0 {
			if len(c.Others) == maxKinds {
				return // Validate refuses it: Kinds is missing
			}
			k = len(c.Others)
			c.Others = append(c.Others, s)
		}
		kinds[i] = uint8(k + 1)
	}
	if len(c.Others) > 0 {
		c.Kinds = kinds
	}
}

// maxKinds bounds the kinds of blocks of a model beyond the first.
const maxKinds = 64

// specs are the distinct graphs of the model's blocks.
func (c Config) specs() []nn.Spec { return append([]nn.Spec{c.Spec}, c.Others...) }

// LongestSession is how many positions a session may have: the context, and where the
// rotation stretches with the length, its factor times that.
func (c Config) LongestSession() int {
	for _, s := range c.specs() {
		if s.Rope.Kind == nn.RopeDynamic && s.Rope.Factor > 1 {
			return int(min(float32(c.MaxPositions)*s.Rope.Factor, math.MaxInt32/2))
		}
	}
	return c.MaxPositions
}

// NewWorkspace allocates what blocks of this model need for steps of up to maxRows rows.
func (c Config) NewWorkspace(dev tensor.Device, maxRows int) (*Workspace, error) {
	return nn.NewWorkspace(dev, maxRows, c.specs()...)
}

// KVSpec sizes a KV pool of a type for a span of the given number of blocks.
func (c Config) KVSpec(blocks, pages int, d tensor.DType) tensor.KVSpec {
	return tensor.KVSpec{Layers: blocks, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Pages: pages, DType: d}
}

// BlockParams is the number of parameters of block i.
func (c Config) BlockParams(i int) int64 {
	var n int64
	for _, need := range c.Block(i).Needs() {
		n += need.Values()
	}
	return n
}

// Validate checks that the sizes fit each other and the limits of this program.
func (c Config) Validate() error {
	for _, f := range []struct {
		name     string
		v, limit int
	}{
		{"vocabulary size", c.Vocab, maxVocab},
		{"hidden size", c.Hidden, maxWidth},
		{"number of blocks", c.Layers, maxLayers},
		{"number of attention heads", c.Heads, maxWidth},
		{"number of key/value heads", c.KVHeads, maxWidth},
		{"head dimension", c.HeadDim, maxWidth},
		{"context limit", c.MaxPositions, math.MaxInt32},
	} {
		if f.v < 1 || f.v > f.limit {
			return fmt.Errorf("config: the %s is %d, want 1 to %d", f.name, f.v, f.limit)
		}
	}
	if c.Heads*c.HeadDim > maxWidth {
		return fmt.Errorf("config: %d heads of %d elements are over the limit of %d", c.Heads, c.HeadDim, maxWidth)
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("config: %d attention heads are no multiple of %d key/value heads", c.Heads, c.KVHeads)
	}
	for _, v := range []float32{c.EmbedScale, c.LogitScale, c.LogitSoftcap} {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) || v < 0 {
			return fmt.Errorf("config: a factor of embeddings or logits is %v", v)
		}
	}
	if (len(c.Kinds) != 0 || len(c.Others) != 0) && len(c.Kinds) != c.Layers || len(c.Others) > maxKinds {
		return fmt.Errorf("config: %d kinds of blocks for %d blocks", len(c.Others)+1, c.Layers)
	}
	for _, s := range c.specs() {
		if err := c.validateSpec(s); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	return c.validateRopes()
}

// validateRopes refuses what SessionRope cannot tell apart: a session has one rotation in
// the place of all that blocks have.
func (c Config) validateRopes() error {
	first := c.Rope
	for _, s := range c.Others {
		switch {
		case s.Rope.Kind == nn.RopeNone:
		case first.Kind == nn.RopeNone:
			first = s.Rope
		case !s.Rope.Equal(first) && (s.Rope.LengthDependent() || first.LengthDependent()):
			return fmt.Errorf("config: blocks rotate by %s and by %s, of which one depends on the length of a session, which is not supported", first.Kind, s.Rope.Kind)
		}
	}
	return nil
}

func (c Config) validateSpec(s nn.Spec) error {
	if s.Hidden != c.Hidden || s.Heads != c.Heads || s.KVHeads != c.KVHeads || s.HeadDim != c.HeadDim {
		return fmt.Errorf("blocks of different widths")
	}
	if s.FFN < 1 || s.FFN > maxWidth {
		return fmt.Errorf("the intermediate size is %d, want 1 to %d", s.FFN, maxWidth)
	}
	if s.Experts > maxMLPs/s.FFN {
		return fmt.Errorf("%d experts of %d are over the limit of %d", s.Experts, s.FFN, maxMLPs)
	}
	if math.IsNaN(float64(s.NormEps)) || s.NormEps <= 0 || s.NormEps >= 1 {
		return fmt.Errorf("the epsilon of the norms is %v", s.NormEps)
	}
	if s.Activation == tensor.NoActivation {
		return fmt.Errorf("no activation function")
	}
	if s.Rope.Kind != nn.RopeNone && s.Rope.Dim > s.HeadDim {
		return fmt.Errorf("%d rotated elements in heads of %d", s.Rope.Dim, s.HeadDim)
	}
	if err := s.Rope.Validate(); err != nil {
		return err
	}
	return s.Validate()
}

var configDomain = content.NewDomain("whorl model config")

// Hash names the maths of the model, in hex: the hash of the JSON of every field that alters
// a result. It is the same for one model read from safetensors and from GGUF. Fields that
// come later are left out where they are off, so that older hashes stay.
func (c Config) Hash() string {
	kinds := make([]int, len(c.Kinds)) // as numbers: JSON makes text of bytes
	for i, k := range c.Kinds {
		kinds[i] = int(k)
	}
	raw, err := json.Marshal(struct {
		Family       string    `json:"family"`
		Vocab        int       `json:"vocab"`
		Layers       int       `json:"layers"`
		Tied         bool      `json:"tied,omitempty"`
		Spec         nn.Spec   `json:"spec"`
		Others       []nn.Spec `json:"others,omitempty"`
		Kinds        []int     `json:"kinds,omitempty"`
		EmbedScale   float32   `json:"embed_scale,omitempty"`
		EmbedNorm    bool      `json:"embed_norm,omitempty"`
		LogitScale   float32   `json:"logit_scale,omitempty"`
		LogitSoftcap float32   `json:"logit_softcap,omitempty"`
	}{c.Family, c.Vocab, c.Layers, c.Tied, c.Spec, c.Others, kinds, c.EmbedScale, c.EmbedNorm, c.LogitScale, c.LogitSoftcap})
	if err != nil {
		// Only a float that is no number can do this, and Validate refuses those.
		panic("model: config of a checkpoint that was not validated: " + err.Error())
	}
	return configDomain.Of(raw).String()
}
