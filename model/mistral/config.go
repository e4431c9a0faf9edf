package mistral

import "whorl/model"

// Of the library's MistralConfig.
var defaults = model.Defaults{Eps: 1e-6, Theta: 10000, MaxPositions: 131072, KVHeads: 8}

// defaultWindow is that of a config.json that says nothing; null is no window.
const defaultWindow = 4096

func fromJSON(f *model.Fields) (model.Config, error) {
	c := model.DecoderJSON(f, "llama", defaults)
	// A window as long as the context leaves nothing out.
	w := f.IntOr("sliding_window", defaultWindow)
	if w < c.MaxPositions && !f.Null("sliding_window") {
		f.Fail("sliding_window", "is %d (%d if missing), less than max_position_embeddings %d, which is not supported: no window (null) is",
			w, defaultWindow, c.MaxPositions)
	}
	f.Rest("mistral")
	return c, f.Err()
}
