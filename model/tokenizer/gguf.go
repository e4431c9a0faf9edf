package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// GGUFVocab is what the metadata of a GGUF file says about its tokenizer; the
// comments name the keys, without their prefix "tokenizer.ggml.".
type GGUFVocab struct {
	Name   string    // general.name, the name of the model
	Model  string    // model: gpt2 (byte-level BPE) or llama (SentencePiece)
	Pre    string    // pre: the name of the split rule, for gpt2
	Tokens []string  // tokens
	Types  []int32   // token_type: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; may be empty
	Merges []string  // merges: "left right", best first, for gpt2
	Scores []float32 // scores, for llama

	// BOS, EOS, UNK, PAD, EOT (end of turn) and EOM (end of message) are ids
	// (bos_token_id and so on), -1 where the file has none.
	BOS, EOS, UNK, PAD, EOT, EOM int32

	// AddBOS, AddEOS and AddSpacePrefix are add_bos_token, add_eos_token and
	// add_space_prefix. nil means that the file does not say: then BOS is
	// added for llama and llama-bpe, EOS never, the space for llama.
	AddBOS, AddEOS, AddSpacePrefix *bool

	ChatTemplate string // tokenizer.chat_template, empty for none
	ToolTemplate string // tokenizer.chat_template.tool_use, for conversations with tools
}

// Token types of a GGUF file.
const (
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// endNames are control tokens that end a turn or a text whatever the file's
// ids say, as llama.cpp has it: many files name only one of several.
var endNames = []string{"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|endoftext|>",
	"<|end_of_text|>", "<end_of_turn>", "<EOT>", "_<EOT>", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}

// FromGGUF makes the tokenizer of a GGUF file. The slices are kept.
func FromGGUF(v GGUFVocab, opts ...Option) (*Tokenizer, error) {
	t := newTokenizer(opts)
	if t.templateSource == "" {
		t.templateSource, t.toolSource = v.ChatTemplate, v.ToolTemplate
	}
	err := v.check()
	if err == nil {
		switch v.Model {
		case "gpt2":
			err = t.fromByteLevel(v)
		case "llama":
			err = t.fromSentencePiece(v)
		default:
			err = fmt.Errorf("model %q is not supported (gpt2 and llama are)", v.Model)
		}
	}
	if err == nil {
		err = t.fillFromGGUF(v)
	}
	if err == nil {
		err = t.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer of the GGUF file: %w", err)
	}
	return t, nil
}

func (v *GGUFVocab) check() error {
	switch {
	case len(v.Tokens) == 0:
		return fmt.Errorf("it has no tokens")
	case len(v.Tokens) > maxTokens:
		return fmt.Errorf("%d tokens, the limit is %d", len(v.Tokens), maxTokens)
	case len(v.Types) != 0 && len(v.Types) != len(v.Tokens):
		return fmt.Errorf("%d token types for %d tokens", len(v.Types), len(v.Tokens))
	}
	for id, token := range v.Tokens {
		if len(token) > maxToken {
			return fmt.Errorf("token %d has %d bytes, the limit is %d", id, len(token), maxToken)
		}
	}
	for _, n := range []struct {
		name string
		id   int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"unknown", v.UNK}, {"padding", v.PAD}, {"eot", v.EOT}, {"eom", v.EOM}} {
		if n.id < -1 || int(n.id) >= len(v.Tokens) {
			return fmt.Errorf("%s_token_id is %d, in a vocabulary of %d", n.name, n.id, len(v.Tokens))
		}
	}
	return nil
}

func (v *GGUFVocab) kind(id int) int32 {
	if len(v.Types) == 0 {
		return 1
	}
	return v.Types[id]
}

// stripsRight says whether a token takes the white space on its right along.
// No key says so; llama.cpp knows it from the name of the model, as here.
func (v *GGUFVocab) stripsRight(token string) bool {
	name := strings.ToLower(v.Name)
	if !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return false
	}
	return token == "</s>" || token != "<|endoftext|>" && strings.HasPrefix(token, "<|")
}

// idsOf maps tokens to ids; of equal tokens the first counts.
func idsOf(tokens []string) map[string]int32 {
	m := make(map[string]int32, len(tokens))
	for id := len(tokens) - 1; id >= 0; id-- {
		m[tokens[id]] = int32(id)
	}
	return m
}

func (t *Tokenizer) fromByteLevel(v GGUFVocab) error {
	preset, err := presetOf(v.Pre)
	if err != nil {
		return err
	}
	if isTrue(v.AddSpacePrefix) {
		t.split = append(t.split, func(dst []piece, in piece) ([]piece, error) {
			if in.atStart && !strings.HasPrefix(in.text, " ") {
				in.text = " " + in.text
			}
			return append(dst, in), nil
		})
	}
	if preset.nfc {
		t.norm = formNormalizer(norm.NFC)
	}
	steps, spell, err := parsePreTokenizer([]byte(preset.split), 0)
	if err != nil {
		return err
	}
	t.split = append(t.split, steps...)
	vocab := idsOf(v.Tokens)
	pairs := make([][2]string, len(v.Merges))
	for i, m := range v.Merges {
		// The left part may begin with a space, never the right one.
		cut := strings.IndexByte(m[min(1, len(m)):], ' ') + 1
		if cut == 0 {
			return fmt.Errorf("merge %d, %q, is not two tokens with a space between", i, m)
		}
		pairs[i] = [2]string{m[:cut], m[cut+1:]}
	}
	merges, err := rankMerges(vocab, pairs)
	if err != nil {
		return err
	}
	t.model = newBPE(vocab, merges)
	t.model.spell, t.model.ignoreMerges = spell, preset.wholeWords
	t.dec = decoder{byteLevel: true, fused: true}
	t.setEnds(v, preset.bos)
	return nil
}

// fromSentencePiece makes a SentencePiece BPE model.
func (t *Tokenizer) fromSentencePiece(v GGUFVocab) error {
	if len(v.Scores) != len(v.Tokens) {
		return fmt.Errorf("%d scores for %d tokens", len(v.Scores), len(v.Tokens))
	}
	// Converters write runs of spaces as such; the model knows them escaped.
	escaped := make([]string, len(v.Tokens))
	for id, token := range v.Tokens {
		escaped[id] = strings.ReplaceAll(token, " ", "▁")
	}
	merges, err := scoredMerges(v, escaped)
	if err != nil {
		return err
	}
	t.model = newBPE(idsOf(escaped), merges)
	t.model.byteFallback, t.model.fuseUnk = true, true
	t.model.unk = v.UNK
	prefixed := v.AddSpacePrefix == nil || *v.AddSpacePrefix
	t.norm = func(s string) (string, error) {
		if prefixed && s != "" {
			s = " " + s
		}
		return strings.ReplaceAll(s, " ", "▁"), nil
	}
	t.dec = decoder{byteFallback: true, fused: true, local: []func(string, bool) string{
		func(token string, _ bool) string { return strings.ReplaceAll(token, "▁", " ") }}}
	if prefixed {
		t.dec.strip.char, t.dec.strip.left = ' ', 1
	}
	t.setEnds(v, true)
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// setEnds sets what marks the beginning and the end of a text.
func (t *Tokenizer) setEnds(v GGUFVocab, addBOS bool) {
	t.bos, t.eos, t.unk, t.pad = v.BOS, v.EOS, v.UNK, v.PAD
	if v.AddBOS != nil {
		addBOS = *v.AddBOS
	}
	if addBOS && v.BOS >= 0 {
		t.prefix = []int32{v.BOS}
	}
	if isTrue(v.AddEOS) && v.EOS >= 0 {
		t.suffix = []int32{v.EOS}
	}
	t.eogs = []int32{v.EOS, v.EOT, v.EOM} // finish drops the -1
	for id, token := range v.Tokens {
		if v.kind(id) == typeControl && slices.Contains(endNames, token) {
			t.eogs = append(t.eogs, int32(id))
		}
	}
}

// fillFromGGUF makes the table of ids and the added tokens. Control and
// unknown tokens are special; user-defined ones are cut out of any text.
func (t *Tokenizer) fillFromGGUF(v GGUFVocab) error {
	t.entries = make([]entry, len(v.Tokens))
	for id, token := range v.Tokens {
		kind := v.kind(id)
		token = validText(token)
		special := kind == typeControl || kind == typeUnknown
		if err := t.put(token, int32(id)); err != nil {
			return err
		}
		t.entries[id].special = special
		if special || kind == typeUserDefined {
			if _, taken := t.byContent[token]; !taken && token != "" {
				t.byContent[token] = int32(id)
				t.added = append(t.added, addedToken{id: int32(id), content: token, special: special, rstrip: special && v.stripsRight(token)})
			}
		}
		if t.dec.byteFallback && kind != typeByte && len(v.Types) > 0 {
			t.entries[id].byte = -1
		}
	}
	return nil
}
