package tokenizer

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/internal/fixture"
)

// ggufOf is the vocabulary in a GGUF file of testdata.
func ggufOf(t testing.TB, name string) GGUFVocab {
	t.Helper()
	return vocabOf(readMetadata(t, bytes.NewReader(fixture.Read(t, filepath.Join("testdata", name+".gguf.gz")))))
}

// TestGGUFEqualsReference: the vocabulary in a GGUF file does what the
// tokenizer.json of the same model does.
func TestGGUFEqualsReference(t *testing.T) {
	g, texts := readMany(t)
	files, err := filepath.Glob(filepath.Join("testdata", "*.gguf.gz"))
	if err != nil || len(files) < 16 {
		t.Fatalf("%d vocabularies, %v: want 16 or more", len(files), err)
	}
	// A GGUF file cannot say that a token takes the white space beside it
	// along: texts with one that does are left out.
	strips := map[string]string{"phi4": "<|im_", "phi4mini": "<|"}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".gguf.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, err := FromGGUF(ggufOf(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var skip func(string) bool
			if token, ok := strips[name]; ok {
				skip = func(text string) bool { return strings.Contains(text, token) }
			}
			compareMany(t, tok, &g, name, texts, skip)
		})
	}
}

// TestGGUFPresets checks that each name of a pre-tokenizer compiles.
func TestGGUFPresets(t *testing.T) {
	for pre := range presets {
		v := ggufOf(t, "gpt2")
		v.Pre = pre
		tok, err := FromGGUF(v)
		if err != nil {
			t.Errorf("%s: %v", pre, err)
			continue
		}
		const text = "It's 12345 tests, über-Straße; 你好 \n\n  x"
		if got := tok.Decode(encode(t, tok, text, EncodeOptions{}), false); got != text {
			t.Errorf("%s: %q came back as %q", pre, text, got)
		}
	}
}

func TestGGUFRefuses(t *testing.T) {
	base := func() GGUFVocab {
		return GGUFVocab{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a", "b", "ab"}, Types: []int32{1, 1, 1},
			Merges: []string{"a b"}, BOS: -1, EOS: -1, UNK: -1, PAD: -1, EOT: -1, EOM: -1}
	}
	if _, err := FromGGUF(base()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func(*GGUFVocab)
		want string
	}{
		{"no tokens", func(v *GGUFVocab) { v.Tokens = nil }, "no tokens"},
		{"unknown model", func(v *GGUFVocab) { v.Model = "rwkv" }, `"rwkv"`},
		{"unknown pre-tokenizer", func(v *GGUFVocab) { v.Pre = "martian" }, `"martian"`},
		{"types", func(v *GGUFVocab) { v.Types = []int32{1} }, "token types"},
		{"merge leaves the vocabulary", func(v *GGUFVocab) { v.Merges = []string{"b a"} }, `"ba"`},
		{"merge of an unknown token", func(v *GGUFVocab) { v.Merges = []string{"x b"} }, `"x"`},
		{"merge without space", func(v *GGUFVocab) { v.Merges = []string{"ab"} }, "two tokens"},
		{"eos outside", func(v *GGUFVocab) { v.EOS = 3 }, "eos_token_id"},
		{"no scores", func(v *GGUFVocab) { v.Model = "llama" }, "scores"},
		{"template", func(v *GGUFVocab) { v.ChatTemplate = "{% if %}" }, "chat template"},
		{"template for tools", func(v *GGUFVocab) { v.ToolTemplate = "{% if %}" }, "tool_use"},
	} {
		v := base()
		c.make(&v)
		_, err := FromGGUF(v)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", c.name, err, c.want)
		}
	}
}

func TestGGUFEnds(t *testing.T) {
	v := GGUFVocab{Model: "gpt2", Pre: "llama-bpe", Tokens: []string{"a", "<s>", "</s>", "<|eot_id|>", "<|im_end|>", "<|end|>", "<think>"},
		Types: []int32{1, 3, 3, 3, 3, 1, 4}, BOS: 1, EOS: 2, UNK: -1, PAD: -1, EOT: 3, EOM: -1}
	tok, err := FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	// <|end|> is no control token in this file: it does not end anything.
	if got, want := tok.EOGs(), []int32{2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("EOGs %v, want %v", got, want)
	}
	all := EncodeOptions{Special: true, ParseSpecial: true}
	if got, want := encode(t, tok, "a<|im_end|><think>", all), []int32{1, 0, 4, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: this kind of model begins a text with BOS", got, want)
	}
	if got, want := encode(t, tok, "a<think>", EncodeOptions{}), []int32{0, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: user-defined tokens are found in any text", got, want)
	}
	no, yes := false, true
	v.AddBOS, v.AddEOS = &no, &yes
	if tok, err = FromGGUF(v); err != nil {
		t.Fatal(err)
	}
	if got, want := encode(t, tok, "a", all), []int32{0, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: the file's flags decide", got, want)
	}
	if !tok.IsSpecial(4) || tok.IsSpecial(6) || tok.IsSpecial(-1) || tok.IsSpecial(99) {
		t.Error("IsSpecial is wrong")
	}
}
