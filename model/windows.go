package model

import "whorl/model/nn"

// What layer_types calls blocks that see everything before them, and those with a window.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// LayerTypes reads layer_types, a name for each block; without it, blocks have a window
// where slides says so.
func (f *Fields) LayerTypes(layers int, slides func(i int) bool) []string {
	kinds := f.Strings("layer_types")
	if kinds != nil && len(kinds) != layers {
		f.Fail("layer_types", "has %d entries for %d blocks", len(kinds), layers)
		return nil
	}
	for i, k := range kinds {
		if k != fullAttention && k != slidingAttention {
			f.Fail("layer_types", "gives block %d the type %q, which is not supported: only full_attention and sliding_attention are", i, k)
			return nil
		}
	}
	if kinds != nil || layers < 0 || layers > maxLayers {
		return kinds
	}
	kinds = make([]string, layers)
	for i := range kinds {
		kinds[i] = fullAttention
		if slides(i) {
			kinds[i] = slidingAttention
		}
	}
	return kinds
}

// Sliding tells the blocks that have a window.
func Sliding(kind string) bool { return kind == slidingAttention }

// EachBlock gives every block the graph of the first, changed by change.
func (c *Config) EachBlock(change func(i int, s *nn.Spec)) {
	if c.Layers < 1 || c.Layers > maxLayers {
		return // Validate refuses it
	}
	specs := make([]nn.Spec, c.Layers)
	for i := range specs {
		specs[i] = c.Spec
		change(i, &specs[i])
	}
	c.SetBlocks(specs)
}

// Windows reads the fields with which the Qwen families switch windows on: for the blocks
// from max_window_layers on, unless layer_types says which.
func (c *Config) Windows(f *Fields, window, fullBlocks int) {
	window = f.IntOr("sliding_window", window)
	if on := f.BoolOr("use_sliding_window", false); !on || f.Null("sliding_window") {
		window = 0
	}
	full := f.IntOr("max_window_layers", fullBlocks)
	kinds := f.LayerTypes(c.Layers, func(i int) bool { return window > 0 && i >= full })
	c.Slide(f, kinds, window)
}

// Slide gives the blocks of the sliding kind a window.
func (c *Config) Slide(f *Fields, kinds []string, window int) {
	if f.Err() != nil {
		return
	}
	c.EachBlock(func(i int, s *nn.Spec) {
		if !Sliding(kinds[i]) {
			return
		}
		if s.Window = window; window < 1 {
			f.Fail("layer_types", "gives block %d a window, but sliding_window is %d", i, window)
		}
	})
}
