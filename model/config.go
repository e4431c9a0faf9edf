package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"

	"whorl/model/nn"
	"whorl/tensor"
)

// Limits on what a configuration may claim, so that products of sizes cannot overflow and
// a hostile file cannot ask for absurd memory. All are far above published models.
const (
	maxLayers = 4096
	maxVocab  = 1 << 24
	maxWidth  = 1 << 20 // hidden, ffn, heads * head dim
)

// Config is a model's shape and maths, normalised from config.json or GGUF metadata.
type Config struct {
	// Family is the one whose graph this is: the Family that read it, or another that it
	// is a case of.
	Family string

	Vocab, Hidden, Layers   int
	Heads, KVHeads, HeadDim int
	FFN                     int
	NormEps                 float32
	Activation              tensor.Activation
	Rope                    nn.Rope
	AttnBias, MLPBias       bool // biases of all projections of attention, of the MLP
	QKVBias                 bool // biases of Q, K and V, but not of O
	QKNorm                  bool // queries and keys are normalised, head by head
	Tied                    bool // the LM head is the embedding table

	// MaxPositions is the context the model was made for. It alters no maths here.
	MaxPositions int
}

// Spec is the graph of one block.
func (c Config) Spec() nn.Spec {
	return nn.Spec{
		Hidden: c.Hidden, FFN: c.FFN, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		NormEps: c.NormEps, Activation: c.Activation, Rope: c.Rope,
		AttnBias: c.AttnBias, QKVBias: c.QKVBias, MLPBias: c.MLPBias, QKNorm: c.QKNorm,
	}
}

// NewWorkspace allocates what blocks of this model need for steps of up to maxRows rows.
func (c Config) NewWorkspace(dev tensor.Device, maxRows int) (*Workspace, error) {
	return nn.NewWorkspace(dev, c.Spec(), maxRows)
}

// KVSpec sizes a KV pool for a span of the given number of blocks.
func (c Config) KVSpec(blocks, pages int) tensor.KVSpec {
	return tensor.KVSpec{Layers: blocks, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Pages: pages}
}

// BlockParams is the number of parameters of one block.
func (c Config) BlockParams() int64 {
	var n int64
	for _, need := range c.Spec().Needs() {
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
		{"intermediate size", c.FFN, maxWidth},
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
	if c.AttnBias && c.QKVBias {
		return fmt.Errorf("config: biases of all projections of attention, and of Q, K and V only")
	}
	if math.IsNaN(float64(c.NormEps)) || c.NormEps <= 0 || c.NormEps >= 1 {
		return fmt.Errorf("config: the epsilon of the norms is %v", c.NormEps)
	}
	if c.Activation == tensor.NoActivation {
		return fmt.Errorf("config: no activation function")
	}
	if c.Rope.Dim > c.HeadDim {
		return fmt.Errorf("config: %d rotated elements in heads of %d", c.Rope.Dim, c.HeadDim)
	}
	if err := c.Rope.Validate(); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// Hash names the maths of the model: SHA-256, in hex, over canonical JSON of every field
// that alters a result. It is the same for one model read from safetensors and from GGUF.
// Fields that came later are left out where they are off, so that older hashes stay.
func (c Config) Hash() string {
	canonical := struct {
		Version    int               `json:"v"`
		Family     string            `json:"family"`
		Vocab      int               `json:"vocab"`
		Hidden     int               `json:"hidden"`
		Layers     int               `json:"layers"`
		Heads      int               `json:"heads"`
		KVHeads    int               `json:"kv_heads"`
		HeadDim    int               `json:"head_dim"`
		FFN        int               `json:"ffn"`
		NormEps    float32           `json:"norm_eps"`
		Activation tensor.Activation `json:"activation"`
		Rope       nn.Rope           `json:"rope"`
		AttnBias   bool              `json:"attn_bias"`
		MLPBias    bool              `json:"mlp_bias"`
		Tied       bool              `json:"tied"`
		QKVBias    bool              `json:"qkv_bias,omitempty"`
		QKNorm     bool              `json:"qk_norm,omitempty"`
	}{
		1, c.Family, c.Vocab, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.FFN,
		c.NormEps, c.Activation, c.Rope, c.AttnBias, c.MLPBias, c.Tied,
		c.QKVBias, c.QKNorm,
	}
	raw, err := json.Marshal(canonical)
	if err != nil {
		// Only a float that is no number can do this, and Validate refuses those.
		panic("model: config of a checkpoint that was not validated: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
