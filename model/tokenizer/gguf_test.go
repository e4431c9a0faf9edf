package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// ggufOf writes the vocabulary of a golden the way a GGUF file does.
func ggufOf(t testing.TB, g golden) GGUFVocab {
	t.Helper()
	var spec struct {
		Model struct {
			Vocab  map[string]int32 `json:"vocab"`
			Merges [][2]string      `json:"merges"`
		} `json:"model"`
		Added []jsonAdded `json:"added_tokens"`
	}
	if err := json.Unmarshal(g.Tokenizer, &spec); err != nil {
		t.Fatal(err)
	}
	v := GGUFVocab{Model: "gpt2", BOS: -1, EOS: -1, UNK: -1, PAD: -1, EOT: -1, EOM: -1}
	v.Tokens = make([]string, len(spec.Model.Vocab))
	v.Types = make([]int32, len(v.Tokens))
	v.Scores = make([]float32, len(v.Tokens))
	for token, id := range spec.Model.Vocab {
		v.Tokens[id], v.Types[id], v.Scores[id] = token, 1, -float32(id)
		if byteToken(token) >= 0 {
			v.Types[id] = typeByte
		}
	}
	for _, a := range spec.Added {
		v.Types[a.ID] = typeUserDefined
		if a.Special {
			v.Types[a.ID] = typeControl
		}
	}
	for _, m := range spec.Model.Merges {
		v.Merges = append(v.Merges, m[0]+" "+m[1])
	}
	return v
}

func TestGGUFEqualsReference(t *testing.T) {
	texts := readTexts(t)
	for _, c := range []struct{ golden, model, pre string }{
		{"smollm2", "gpt2", "smollm"},
		{"gpt2", "gpt2", "gpt-2"},
		{"llama3", "gpt2", "llama-bpe"},
		{"bloom", "gpt2", "bloom"},
		{"scored", "llama", "default"},
	} {
		t.Run(c.golden, func(t *testing.T) {
			var g golden
			readGolden(t, c.golden, &g)
			v := ggufOf(t, g)
			v.Model, v.Pre = c.model, c.pre
			if v.Model == "llama" {
				v.UNK, v.BOS, v.EOS = 0, 1, 2
			}
			if c.pre == "llama-bpe" {
				v.BOS = int32(slices.Index(v.Tokens, "<|begin_of_text|>"))
			}
			tok, err := FromGGUF(v)
			if err != nil {
				t.Fatal(err)
			}
			d := differences{t: t}
			for i, text := range texts {
				if got := encode(t, tok, text, EncodeOptions{}); !slices.Equal(got, g.Plain[i]) {
					d.add("Encode(%q)\n got %v\nwant %v", text, got, g.Plain[i])
				}
				got := encode(t, tok, text, EncodeOptions{Special: true, ParseSpecial: true})
				if !slices.Equal(got, g.Parsed[i]) {
					d.add("Encode(%q) with special tokens\n got %v\nwant %v", text, got, g.Parsed[i])
				}
				if got := tok.Decode(g.Parsed[i], true); got != g.Skipped[i] {
					d.add("Decode(%v)\n got %q\nwant %q", g.Parsed[i], got, g.Skipped[i])
				}
			}
			d.done(3 * len(texts))
		})
	}
}

// TestGGUFPresets checks that each name of a pre-tokenizer compiles.
func TestGGUFPresets(t *testing.T) {
	var g golden
	readGolden(t, "gpt2", &g)
	for pre := range ggufSplits {
		v := ggufOf(t, g)
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
