package model

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"whorl/model/weights"
)

// besides are what a folder of safetensors may hold that loaders read beside the weights.
var besides = []string{
	configName, "generation_config.json", "model.safetensors.index.json",
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
}

// Files lists the files that the model was read from, all that a loader needs and nothing else,
// by the names that others give them: those of safetensors are their own, those of GGUF
// say nothing of what the file is called here.
func (c *Checkpoint) Files() map[string]string {
	out := map[string]string{}
	paths := c.file.Paths()
	if c.Source == weights.GGUF {
		for i, p := range paths {
			out[GGUFPart(i, len(paths))] = p
		}
		return out
	}
	for _, p := range paths {
		out[filepath.Base(p)] = p
	}
	for _, name := range besides {
		p := filepath.Join(c.TokenizerDir, name)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			out[name] = p
		}
	}
	return out
}

var weightFile = regexp.MustCompile(`^(model(-[0-9]{5}-of-[0-9]{5})?\.gguf|[A-Za-z0-9_][A-Za-z0-9._-]*\.safetensors)$`)

// FileName tells whether Files may give a file this name.
func FileName(name string) bool {
	return weightFile.MatchString(name) || slices.Contains(besides, name)
}

// GGUFPart is what others call part i of n of a GGUF file.
func GGUFPart(i, n int) string {
	if n == 1 {
		return "model.gguf"
	}
	return fmt.Sprintf("model-%05d-of-%05d.gguf", i+1, n)
}
