package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a tokenizer.json that a test may change before it is loaded.
func small() map[string]any {
	return map[string]any{
		"added_tokens":   []any{map[string]any{"id": 3, "content": "<s>", "special": true}},
		"normalizer":     nil,
		"pre_tokenizer":  map[string]any{"type": "ByteLevel", "add_prefix_space": false},
		"post_processor": nil,
		"decoder":        map[string]any{"type": "ByteLevel"},
		"model": map[string]any{
			"type": "BPE", "vocab": map[string]any{"a": 0, "b": 1, "ab": 2}, "merges": []any{"a b"},
		},
	}
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLoadJSON(t *testing.T) {
	tok, err := LoadJSON(asJSON(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	if tok.VocabSize() != 4 || tok.BOS() != -1 || tok.EOS() != -1 || len(tok.EOGs()) != 0 {
		t.Errorf("size %d, BOS %d, EOS %d, EOGs %v", tok.VocabSize(), tok.BOS(), tok.EOS(), tok.EOGs())
	}
	if s, ok := tok.IDToToken(2); s != "ab" || !ok {
		t.Errorf("IDToToken(2) = %q, %v", s, ok)
	}
	if _, ok := tok.IDToToken(4); ok {
		t.Error("there is no token 4")
	}
	for token, want := range map[string]int32{"ab": 2, "<s>": 3} {
		if id, ok := tok.TokenID(token); id != want || !ok {
			t.Errorf("TokenID(%q) = %d, %v", token, id, ok)
		}
	}
	if _, ok := tok.TokenID("x"); ok {
		t.Error("there is no token x")
	}
	// Characters that the vocabulary lacks vanish; ids it lacks add nothing.
	if got := encode(t, tok, "abxa", EncodeOptions{}); !slices.Equal(got, []int32{2, 0}) {
		t.Errorf("got %v", got)
	}
	if got := tok.Decode([]int32{2, -5, 99, 3, 0}, true); got != "aba" {
		t.Errorf("got %q", got)
	}
}

func TestLoadJSONOldForms(t *testing.T) {
	spec := small()
	model := spec["model"].(map[string]any)
	delete(model, "type")
	model["merges"] = []any{"#version: 0.2", "a b"}
	tok, err := LoadJSON(asJSON(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	model["merges"] = []any{[]any{"a", "b"}}
	pairs, err := LoadJSON(asJSON(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range []*Tokenizer{tok, pairs} {
		if got := encode(t, tok, "ab", EncodeOptions{}); !slices.Equal(got, []int32{2}) {
			t.Errorf("got %v, want one token", got)
		}
	}
}

func TestLoadJSONRefuses(t *testing.T) {
	type object = map[string]any
	set := func(key string, value any) func(object) { return func(s object) { s[key] = value } }
	model := func(key string, value any) func(object) {
		return func(s object) { s["model"].(object)[key] = value }
	}
	deep := any(object{"type": "NFC"})
	for range maxNesting + 2 {
		deep = object{"type": "Sequence", "normalizers": []any{deep}}
	}
	for _, c := range []struct {
		name   string
		change func(object)
		want   string
	}{
		{"no model", set("model", nil), "no model"},
		{"model", model("type", "Unigram"), `"Unigram"`},
		{"normalizer", set("normalizer", object{"type": "Precompiled"}), `"Precompiled"`},
		{"pre-tokenizer", set("pre_tokenizer", object{"type": "BertPreTokenizer"}), `"BertPreTokenizer"`},
		{"decoder", set("decoder", object{"type": "WordPiece"}), `"WordPiece"`},
		{"post-processor", set("post_processor", object{"type": "BertProcessing"}), `"BertProcessing"`},
		{"nesting", set("normalizer", deep), "nested more than"},
		{"pattern", set("pre_tokenizer", object{"type": "Split", "pattern": object{"Regex": "(["}, "behavior": "Isolated"}), "pattern"},
		{"no pattern", set("pre_tokenizer", object{"type": "Split", "pattern": object{}, "behavior": "Isolated"}), "neither"},
		{"behavior", set("pre_tokenizer", object{"type": "Split", "pattern": object{"String": "x"}, "behavior": "Shaken"}), `"Shaken"`},
		{"prepend scheme", set("pre_tokenizer", object{"type": "Metaspace", "prepend_scheme": "last"}), `"last"`},
		{"decoder after fuse", set("decoder", object{"type": "Sequence", "decoders": []any{object{"type": "Fuse"}, object{"type": "ByteFallback"}}}), "after the tokens are fused"},
		{"strip", set("decoder", object{"type": "Strip", "content": "ab", "start": 1, "stop": 0}), "Strip"},
		{"merge leaves the vocabulary", model("merges", []any{"b a"}), `"ba"`},
		{"merge of an unknown token", model("merges", []any{"a x"}), `"x"`},
		{"merge of three", model("merges", []any{"a b a"}), "two tokens"},
		{"merge of one", model("merges", []any{[]any{"a"}}), "1 parts"},
		{"unknown token", model("unk_token", "<unk>"), `"<unk>"`},
		{"dropout", model("dropout", 0.1), "dropout"},
		{"prefix", model("continuing_subword_prefix", "##"), `"##"`},
		{"suffix", model("end_of_word_suffix", "</w>"), `"</w>"`},
		{"huge id", model("vocab", object{"a": 0, "b": 1, "ab": 1 << 30}), "id 1073741824"},
		{"negative id", model("vocab", object{"a": 0, "b": 1, "ab": -2}), "id -2"},
		{"same id", model("vocab", object{"a": 0, "b": 1, "ab": 1}), "id 1 is both"},
		{"id of an added token", set("added_tokens", []any{object{"id": 2, "content": "<s>"}}), "id 2 is both"},
		{"added token elsewhere", set("added_tokens", []any{object{"id": 7, "content": "ab"}}), `"ab" has id 7`},
		{"template token", set("post_processor", object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "<s>"}}, object{"Sequence": object{"id": "A"}}}}), "does not define"},
		{"template id", set("post_processor", object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "<s>"}}, object{"Sequence": object{"id": "A"}}},
			"special_tokens": object{"<s>": object{"ids": []any{77}}}}), "77"},
		{"template without text", set("post_processor", object{"type": "TemplateProcessing", "single": []any{}}), "0 texts"},
		{"vocab", model("vocab", []any{}), "vocab"},
	} {
		spec := small()
		c.change(spec)
		_, err := LoadJSON(asJSON(t, spec))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %s", c.name, err, c.want)
		}
	}
}

// folder writes files into a new folder.
func folder(t testing.TB, files map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		data, ok := content.(string)
		if !ok {
			data = string(asJSON(t, content))
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenFolder(t *testing.T) {
	type object = map[string]any
	vocabulary := small()
	vocabulary["model"].(object)["vocab"] = object{"a": 0, "b": 1, "ab": 2, "</s>": 4, "<pad>": 5}
	user := []Message{{Role: "user", Content: "ab"}}
	for _, c := range []struct {
		name             string
		files            object
		bos, eos         int32
		eogs             []int32
		ids              []int32 // of "ab", with special tokens
		chat, tools      string
		special, regular []int32
	}{
		{name: "nothing else", bos: -1, eos: -1, ids: []int32{2}, special: []int32{3}, regular: []int32{4}},
		{
			name: "configured",
			files: object{
				"tokenizer_config.json": object{"bos_token": "<s>", "eos_token": object{"content": "</s>", "lstrip": false}, "pad_token": nil,
					"add_bos_token": true, "add_eos_token": true, "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"},
				"generation_config.json": object{"eos_token_id": []any{4, 5}},
			},
			bos: 3, eos: 4, eogs: []int32{4, 5}, ids: []int32{3, 2, 4}, chat: "<s>ab</s>", special: []int32{3, 4}, regular: []int32{5},
		},
		{
			name: "older files",
			files: object{
				"special_tokens_map.json": object{"bos_token": object{"content": "<s>"}, "eos_token": "</s>", "additional_special_tokens": []any{"<pad>", "<new>"}},
				"config.json":             object{"eos_token_id": 5},
			},
			bos: 3, eos: 4, eogs: []int32{4, 5}, ids: []int32{2}, special: []int32{4, 5, 6},
		},
		{
			name:  "only config.json",
			files: object{"config.json": object{"bos_token_id": 3, "eos_token_id": 4}},
			bos:   3, eos: 4, eogs: []int32{4}, ids: []int32{2},
		},
		{
			name: "template file",
			files: object{
				"tokenizer_config.json": object{"eos_token": "</s>", "chat_template": "no", "added_tokens_decoder": object{"6": object{"content": "<x>", "special": true}}},
				"chat_template.jinja":   "[{{ messages[0].content }}]\n",
			},
			bos: -1, eos: 4, eogs: []int32{4}, ids: []int32{2}, chat: "[ab]", special: []int32{6},
		},
		{
			name: "named templates",
			files: object{"tokenizer_config.json": object{"chat_template": []any{
				object{"name": "tool_use", "template": "tools {{ tools | length }}"}, object{"name": "default", "template": "<{{ messages[0].content }}>"}}}},
			bos: -1, eos: -1, ids: []int32{2}, chat: "<ab>", tools: "tools 1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := object{"tokenizer.json": vocabulary}
			for name, content := range c.files {
				files[name] = content
			}
			tok, err := OpenFolder(folder(t, files))
			if err != nil {
				t.Fatal(err)
			}
			if tok.BOS() != c.bos || tok.EOS() != c.eos || !slices.Equal(tok.EOGs(), c.eogs) {
				t.Errorf("BOS %d, EOS %d, EOGs %v; want %d, %d, %v", tok.BOS(), tok.EOS(), tok.EOGs(), c.bos, c.eos, c.eogs)
			}
			if got := encode(t, tok, "ab", EncodeOptions{Special: true}); !slices.Equal(got, c.ids) {
				t.Errorf("ids %v, want %v", got, c.ids)
			}
			chat, err := tok.Chat(user, false)
			if chat != c.chat || (c.chat == "") != errors.Is(err, ErrNoTemplate) {
				t.Errorf("chat %q, %v; want %q", chat, err, c.chat)
			}
			if c.tools != "" {
				if chat, err = tok.Chat(user, false, WithTools(json.RawMessage(`[{}]`))); err != nil || chat != c.tools {
					t.Errorf("chat with tools %q, %v; want %q", chat, err, c.tools)
				}
			}
			for _, id := range c.special {
				if !tok.IsSpecial(id) {
					t.Errorf("%d is not special", id)
				}
			}
			for _, id := range c.regular {
				if tok.IsSpecial(id) {
					t.Errorf("%d is special", id)
				}
			}
		})
	}
}

func TestOpenFolderRefuses(t *testing.T) {
	type object = map[string]any
	if _, err := OpenFolder(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no tokenizer.json") {
		t.Errorf("an empty folder: %v", err)
	}
	for name, c := range map[string]struct {
		files object
		want  string
	}{
		"broken":     {object{"tokenizer.json": "{"}, "tokenizer.json"},
		"config":     {object{"tokenizer.json": small(), "tokenizer_config.json": "["}, "tokenizer_config.json"},
		"added":      {object{"tokenizer.json": small(), "tokenizer_config.json": object{"added_tokens_decoder": object{"x": object{"content": "y"}}}}, "not a number"},
		"generation": {object{"tokenizer.json": small(), "generation_config.json": object{"eos_token_id": "x"}}, "eos_token_id"},
		"template":   {object{"tokenizer.json": small(), "chat_template.jinja": "{{"}, "chat template"},
	} {
		_, err := OpenFolder(folder(t, c.files))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", name, err, c.want)
		}
	}
}
