package mistral

import "whorl/model"

// Of transformers' MistralConfig.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 131072, KVHeads: 8}

// defaultWindow is that of a config.json that says nothing; null is no window.
const defaultWindow = 4096

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "llama", defaults)
	window := f.IntOr("sliding_window", defaultWindow)
	switch {
	case f.Null("sliding_window"):
	case window < 1:
		f.Fail("sliding_window", "is %d, want a number of positions or null", window)
	case window < c.LongestSession(): // a longer one leaves nothing out
		c.Window = window
	}
	f.Rest("mistral")
	return c, f.Err()
}
