package tokenizer

import (
	"os"
	"path/filepath"
	"testing"

	"whorl/content"
)

// The hash of a folder is that of the files that make text into ids and back, and of nothing
// else.
func TestHashFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) content.Hash {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := HashFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := write("tokenizer_config.json", "{}"); !h.IsZero() {
		t.Errorf("a folder without a tokenizer has the hash %s", h)
	}
	seen := map[content.Hash]string{}
	for _, step := range []struct{ name, text string }{
		{"tokenizer.json", "{}"}, {"tokenizer.json", "{ }"}, {"chat_template.jinja", ""}, {"chat_template.jinja", "x"}, {"special_tokens_map.json", "x"},
	} {
		h := write(step.name, step.text)
		if before, ok := seen[h]; ok || h.IsZero() {
			t.Errorf("%s of %q changes nothing: %s, as after %s", step.name, step.text, h, before)
		}
		seen[h] = step.name
	}
	for _, other := range []string{"generation_config.json", "config.json", "README.md"} {
		if h := write(other, "{}"); seen[h] == "" {
			t.Errorf("%s changes the hash", other)
		}
	}
	if !HashGGUF(nil).IsZero() || HashGGUF([]byte("a")) == HashGGUF([]byte("b")) {
		t.Error("hashes of GGUF metadata")
	}
}
