package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// GGUFVocab is what the metadata of a GGUF file says about its tokenizer; the
// comments name the keys, without their prefix "tokenizer.ggml.".
type GGUFVocab struct {
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
}

// Token types of a GGUF file.
const (
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// Split patterns that some names of pre-tokenizers stand for, beside those
// with a scanner.
const (
	digitPattern        = `\p{N}`
	threeDigits         = `[0-9][0-9][0-9]`
	defaultPunctuation  = `[\p{P}\$\+<=>\^~\|]+`
	falconPunctuation   = "[\\p{P}\\$\\+<=>\\^~\\|`]+"
	bloomPattern        = ` ?[^(\s|.,!?…。，、।۔،)]+`
	upperRun, lowerRun  = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	casedWord           = `[^\r\n\p{L}\p{N}]?` + upperRun + `*` + lowerRun + `+`
	capitalWord         = `[^\r\n\p{L}\p{N}]?` + upperRun + `+` + lowerRun + `*`
	contractionPattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	casedTail           = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern       = casedWord + `|` + capitalWord + `|\p{N}` + casedTail
	gpt4oPattern        = casedWord + contractionPattern + `|` + capitalWord + contractionPattern + `|\p{N}{1,3}` + casedTail
	nameOfDefaultPreset = "default"
)

// ggufSplits are the patterns, applied one after the other, that a name of a
// pre-tokenizer stands for, as llama.cpp has them.
var ggufSplits = map[string][]string{}

func init() {
	for _, preset := range []struct{ names, patterns []string }{
		{[]string{nameOfDefaultPreset}, []string{defaultPunctuation, gpt2Pattern, `\p{N}+`, threeDigits}},
		{[]string{"gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "trillion", "roberta-bpe"}, []string{gpt2Pattern}},
		// The digits first, each by itself: the library's own conversion of
		// a GGUF file forgets this step.
		{[]string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}, []string{digitPattern, gpt2Pattern}},
		{[]string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx", "smaug-bpe"}, []string{llama3Pattern}},
		{[]string{"qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2"}, []string{qwen2Pattern}},
		{[]string{"tekken"}, []string{tekkenPattern}},
		{[]string{"gpt-4o", "llama4", "kanana2"}, []string{gpt4oPattern}},
		{[]string{"falcon"}, []string{falconPunctuation, gpt2Pattern, threeDigits}},
		{[]string{"bloom", "poro-chat", "gpt3-finnish"}, []string{bloomPattern}},
	} {
		for _, name := range preset.names {
			ggufSplits[name] = preset.patterns
		}
	}
}

// addsBOS are the pre-tokenizers whose models expect a begin token although
// files need not say so.
var addsBOS = []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"}

// endNames are control tokens that end a turn or a text whatever the file's
// ids say, as llama.cpp has it: many files name only one of several.
var endNames = []string{"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|endoftext|>",
	"<|end_of_text|>", "<end_of_turn>", "<EOT>", "_<EOT>", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}

// FromGGUF makes the tokenizer of a GGUF file. The slices are kept.
func FromGGUF(v GGUFVocab, opts ...Option) (*Tokenizer, error) {
	t := newTokenizer(opts)
	if t.templateSource == "" {
		t.templateSource = v.ChatTemplate
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

// vocab maps the tokens to ids; of equal tokens the first counts.
func (v *GGUFVocab) vocab() map[string]int32 {
	m := make(map[string]int32, len(v.Tokens))
	for id, token := range v.Tokens {
		if _, ok := m[token]; !ok {
			m[token] = int32(id)
		}
	}
	return m
}

func (t *Tokenizer) fromByteLevel(v GGUFVocab) error {
	pre := v.Pre
	if pre == "" {
		pre = nameOfDefaultPreset
	}
	patterns, ok := ggufSplits[pre]
	if !ok {
		return fmt.Errorf("pre-tokenizer %q is not known", v.Pre)
	}
	if isTrue(v.AddSpacePrefix) {
		t.split = append(t.split, func(dst []piece, in piece) ([]piece, error) {
			if in.atStart && !strings.HasPrefix(in.text, " ") {
				in.text = " " + in.text
			}
			return append(dst, in), nil
		})
	}
	for _, p := range patterns {
		step, err := isolate(p)
		if err != nil {
			return err
		}
		t.split = append(t.split, step)
	}
	vocab := v.vocab()
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
	t.model.spell = true
	// Llama 3 keeps words that are tokens whole; the file does not say so.
	t.model.ignoreMerges = slices.Contains([]string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"}, pre)
	t.dec = decoder{byteLevel: true, fused: true}
	t.setEnds(v, slices.Contains(addsBOS, pre))
	return nil
}

// isolate makes the step that isolates the matches of a pattern.
func isolate(pattern string) (splitter, error) {
	if pattern == digitPattern {
		return splitBy(runesWhere(isNumeric), isolated, false), nil
	}
	if scan, ok := scanners[pattern]; ok {
		return scanStep(scan), nil
	}
	find, err := compileRegex(pattern, matchLimit)
	if err != nil {
		return nil, err
	}
	return splitBy(find, isolated, false), nil
}

// fromSentencePiece makes a SentencePiece BPE model.
func (t *Tokenizer) fromSentencePiece(v GGUFVocab) error {
	if len(v.Scores) != len(v.Tokens) {
		return fmt.Errorf("%d scores for %d tokens", len(v.Scores), len(v.Tokens))
	}
	vocab := v.vocab()
	t.model = newBPE(vocab, scoredMerges(v, vocab))
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

// scoredMerges makes merges of scores. SentencePiece joins the two neighbours
// whose union has the best score, so every way to cut a token in two is a
// merge, ranked by the score of the token.
func scoredMerges(v GGUFVocab, vocab map[string]int32) map[uint64]merge {
	ids := make([]int32, 0, len(v.Tokens))
	for id := range v.Tokens {
		if k := v.kind(id); k == 1 || k == typeUserDefined || k == typeUnused {
			ids = append(ids, int32(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(v.Scores[b], v.Scores[a]) })
	merges := make(map[uint64]merge, len(ids))
	rank := int32(0)
	for i, id := range ids {
		if i > 0 && v.Scores[id] != v.Scores[ids[i-1]] {
			rank++ // equal scores, equal ranks: the leftmost pair goes first
		}
		token := v.Tokens[id]
		for cut := 1; cut < len(token); cut++ {
			left, okLeft := vocab[token[:cut]]
			right, okRight := vocab[token[cut:]]
			if !okLeft || !okRight || !utf8.RuneStart(token[cut]) {
				continue
			}
			if _, taken := merges[pairOf(left, right)]; !taken {
				merges[pairOf(left, right)] = merge{rank: rank, id: vocab[token]}
			}
		}
	}
	return merges
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
				t.added = append(t.added, addedToken{id: int32(id), content: token, special: special})
			}
		}
		if t.dec.byteFallback && kind != typeByte && len(v.Types) > 0 {
			t.entries[id].byte = -1
		}
	}
	return nil
}
