package smollm3

import (
	"whorl/model"
	"whorl/model/nn"
)

// Of transformers' SmolLM3Config.
var defaults = model.Defaults{Eps: 1e-6, Theta: 2000000, MaxPositions: 32768, KVHeads: 4, Tied: true}

// defaultInterval: every fourth block does not rotate.
const defaultInterval = 4

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "smollm3", defaults)
	c.AttnBias = f.BoolOr("attention_bias", false)
	c.MLPBias = f.BoolOr("mlp_bias", false)
	rotates := rotating(f, c.Layers)
	window := f.IntOr("sliding_window", 0)
	if on := f.BoolOr("use_sliding_window", false); !on {
		window = 0
	}
	kinds := f.LayerTypes(c.Layers, func(i int) bool { return window > 0 && !rotates(i) })
	f.Skip("max_window_layers", "pretraining_tp") // the published file has the latter, which transformers does not read
	f.Rest("smollm3")
	c.Slide(f, kinds, window)
	if f.Err() != nil {
		return c, f.Err()
	}
	c.EachBlock(func(i int, s *nn.Spec) {
		if *s = c.Block(i); !rotates(i) {
			s.Rope = nn.Rope{Kind: nn.RopeNone}
		}
	})
	return c, f.Err()
}

// rotating reads which blocks rotate: no_rope_layers has a 1 for those that do.
func rotating(f *model.Fields, layers int) func(i int) bool {
	list := f.Floats("no_rope_layers")
	interval := f.IntOr("no_rope_layer_interval", defaultInterval)
	if list != nil && len(list) != layers {
		f.Fail("no_rope_layers", "has %d entries for %d blocks", len(list), layers)
	}
	if list == nil && interval < 1 {
		f.Fail("no_rope_layer_interval", "is %d, want a number of blocks", interval)
	}
	return func(i int) bool {
		if list != nil {
			return i < len(list) && list[i] != 0
		}
		return (i+1)%max(interval, 1) != 0
	}
}

func fromGGUF(k *model.Keys) (model.Config, error) {
	c := model.DecoderGGUF(k, "smollm3")
	c.AttnBias = k.TensorShape("blk.0.attn_q.bias") != nil
	c.MLPBias = k.TensorShape("blk.0.ffn_down.bias") != nil
	k.NoExperts()
	k.NoWindow()
	k.Rest()
	c.EachBlock(func(i int, s *nn.Spec) {
		if (i+1)%defaultInterval == 0 { // no key says it
			s.Rope = nn.Rope{Kind: nn.RopeNone}
		}
	})
	return c, k.Err()
}
