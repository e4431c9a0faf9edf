package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of a tokenizer.json. The largest in use (262,144 tokens) has 33 MB,
// 515,000 merges and a few thousand added tokens.
const (
	maxFile   = 256 << 20
	maxTokens = 4 << 20
	maxMerges = 16 << 20
	maxAdded  = 1 << 17
	maxToken  = 1 << 16 // bytes of one token
)

type jsonFile struct {
	AddedTokens   []jsonAdded     `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type jsonAdded struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

func (a jsonAdded) token() addedToken {
	return addedToken{id: a.ID, content: a.Content, special: a.Special, normalized: a.Normalized,
		singleWord: a.SingleWord, lstrip: a.LStrip, rstrip: a.RStrip}
}

type jsonModel struct {
	Type         string           `json:"type"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       json.RawMessage  `json:"merges"`
	UnkToken     *string          `json:"unk_token"`
	Dropout      *float64         `json:"dropout"`
	Prefix       *string          `json:"continuing_subword_prefix"`
	Suffix       *string          `json:"end_of_word_suffix"`
	FuseUnk      bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
}

// LoadJSON reads a tokenizer.json. Such a file names no begin or end token:
// BOS and EOS are what its post-processor adds, or -1.
func LoadJSON(data []byte, opts ...Option) (*Tokenizer, error) {
	t, err := loadJSON(data, opts)
	if err != nil {
		return nil, fmt.Errorf("reading tokenizer.json: %w", err)
	}
	if len(t.prefix) > 0 {
		t.bos = t.prefix[0]
	}
	if len(t.suffix) > 0 {
		t.eos = t.suffix[len(t.suffix)-1]
		t.eogs = []int32{t.eos}
	}
	if err := t.finish(); err != nil {
		return nil, fmt.Errorf("reading tokenizer.json: %w", err)
	}
	return t, nil
}

// loadJSON reads everything the file itself says; finish has to follow.
func loadJSON(data []byte, opts []Option) (*Tokenizer, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(data), maxFile)
	}
	var file jsonFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	t := newTokenizer(opts)
	var err error
	if t.norm, err = parseNormalizer(file.Normalizer, 0); err != nil {
		return nil, err
	}
	var spell bool
	if t.split, spell, err = parsePreTokenizer(file.PreTokenizer, 0); err != nil {
		return nil, err
	}
	if t.dec, err = parseDecoder(file.Decoder); err != nil {
		return nil, err
	}
	if t.model, err = parseModel(file.Model); err != nil {
		return nil, err
	}
	t.model.spell = spell
	if len(file.AddedTokens) > maxAdded {
		return nil, fmt.Errorf("%d added tokens, the limit is %d", len(file.AddedTokens), maxAdded)
	}
	for _, a := range file.AddedTokens {
		if err := t.add(a.token()); err != nil {
			return nil, err
		}
	}
	if t.prefix, t.suffix, err = parsePostProcessor(file.PostProcessor, 0); err != nil {
		return nil, err
	}
	return t, nil
}

func newTokenizer(opts []Option) *Tokenizer {
	t := &Tokenizer{bos: -1, eos: -1, unk: -1, pad: -1, now: time.Now, byContent: map[string]int32{}}
	for _, o := range opts {
		o(t)
	}
	return t
}

// parseModel reads the "model" of a tokenizer.json.
func parseModel(raw json.RawMessage) (*bpe, error) {
	var j jsonModel
	if isNull(raw) {
		return nil, fmt.Errorf("the file has no model")
	}
	// The kind first: the vocabulary of another kind has another shape.
	var kind struct {
		Type   string          `json:"type"`
		Merges json.RawMessage `json:"merges"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if kind.Type == "" && !isNull(kind.Merges) {
		kind.Type = "BPE" // files of the first years do not say
	}
	if kind.Type != "BPE" {
		return nil, fmt.Errorf("model %q is not supported (BPE is)", kind.Type)
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	switch {
	case j.Dropout != nil && *j.Dropout != 0:
		return nil, fmt.Errorf("model: dropout %v is not supported: it makes ids random", *j.Dropout)
	case j.Prefix != nil && *j.Prefix != "":
		return nil, fmt.Errorf("model: continuing_subword_prefix %q is not supported", *j.Prefix)
	case j.Suffix != nil && *j.Suffix != "":
		return nil, fmt.Errorf("model: end_of_word_suffix %q is not supported", *j.Suffix)
	case len(j.Vocab) > maxTokens:
		return nil, fmt.Errorf("model: %d tokens, the limit is %d", len(j.Vocab), maxTokens)
	}
	pairs, err := parseMerges(j.Merges)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	merges, err := rankMerges(j.Vocab, pairs)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	m := newBPE(j.Vocab, merges)
	m.fuseUnk, m.byteFallback, m.ignoreMerges = j.FuseUnk, j.ByteFallback, j.IgnoreMerges
	if j.UnkToken != nil {
		id, ok := j.Vocab[*j.UnkToken]
		if !ok {
			return nil, fmt.Errorf("model: the unknown token %q is not in the vocabulary", *j.UnkToken)
		}
		m.unk = id
	}
	return m, nil
}

// parseMerges reads ["a b", ...] or [["a", "b"], ...].
func parseMerges(raw json.RawMessage) ([][2]string, error) {
	if isNull(raw) {
		return nil, nil
	}
	var pairs [][2]string
	var lines []string
	if json.Unmarshal(raw, &lines) != nil {
		var lists [][]string
		if err := json.Unmarshal(raw, &lists); err != nil {
			return nil, fmt.Errorf("merges: neither strings nor pairs: %w", err)
		}
		pairs = make([][2]string, len(lists))
		for i, l := range lists {
			if len(l) != 2 {
				return nil, fmt.Errorf("merge %d has %d parts, not 2", i, len(l))
			}
			pairs[i] = [2]string{l[0], l[1]}
		}
		return pairs, nil
	}
	pairs = make([][2]string, 0, len(lines))
	for i, l := range lines {
		if i == 0 && strings.HasPrefix(l, "#version") {
			continue
		}
		left, right, ok := strings.Cut(l, " ")
		if !ok || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merge %d, %q, is not two tokens with a space between", i, l)
		}
		pairs = append(pairs, [2]string{left, right})
	}
	return pairs, nil
}

// rankMerges checks that no merge leaves the vocabulary. Of two equal merges
// the later counts, as in the reference.
func rankMerges(vocab map[string]int32, pairs [][2]string) (*mergeTable, error) {
	if len(pairs) > maxMerges {
		return nil, fmt.Errorf("%d merges, the limit is %d", len(pairs), maxMerges)
	}
	merges := newMergeTable(len(pairs))
	var joined []byte
	for i, p := range pairs {
		left, ok := vocab[p[0]]
		if !ok {
			return nil, fmt.Errorf("merge %d joins %q, which is not in the vocabulary", i, p[0])
		}
		right, ok := vocab[p[1]]
		if !ok {
			return nil, fmt.Errorf("merge %d joins %q, which is not in the vocabulary", i, p[1])
		}
		joined = append(append(joined[:0], p[0]...), p[1]...)
		id, ok := vocab[string(joined)]
		if !ok {
			return nil, fmt.Errorf("merge %d makes %q, which is not in the vocabulary", i, joined)
		}
		merges.put(left, right, merge{rank: int32(i), id: id}, true)
	}
	return merges, nil
}

// add makes a token an added token; one of the same content stays as it is.
func (t *Tokenizer) add(a addedToken) error {
	if a.content == "" {
		return nil
	}
	if _, ok := t.byContent[a.content]; ok {
		return nil
	}
	if id, ok := t.model.vocab[a.content]; ok && id != a.id {
		return fmt.Errorf("added token %q has id %d, but %d in the vocabulary", a.content, a.id, id)
	}
	t.byContent[a.content] = a.id
	t.added = append(t.added, a)
	return nil
}

// finish makes the tables once vocabulary and added tokens are complete.
func (t *Tokenizer) finish() error {
	if t.entries == nil { // a GGUF file lists them by id
		if err := t.fillEntries(); err != nil {
			return err
		}
	}
	var raw, normalized []addedToken
	var rawPatterns, normalizedPatterns []string
	for _, a := range t.added {
		if !a.normalized {
			raw = append(raw, a)
			rawPatterns = append(rawPatterns, a.content)
			continue
		}
		pattern := a.content
		if t.norm != nil {
			var err error
			if pattern, err = t.norm(pattern); err != nil {
				return err
			}
		}
		normalized = append(normalized, a)
		normalizedPatterns = append(normalizedPatterns, pattern)
	}
	t.raw = newMatcher(raw, rawPatterns)
	t.specials = newSpecialMatcher(t.added)
	if len(normalized) > 0 {
		t.normalized = newMatcher(normalized, normalizedPatterns)
	}
	t.eogs = slices.DeleteFunc(t.eogs, func(id int32) bool { return id < 0 })
	slices.Sort(t.eogs)
	t.eogs = slices.Compact(t.eogs)
	for _, id := range slices.Concat(t.prefix, t.suffix) {
		if _, ok := t.IDToToken(id); !ok {
			return fmt.Errorf("the begin or end token %d is not in the vocabulary", id)
		}
	}
	return t.compileTemplate()
}

// fillEntries makes the table of ids.
func (t *Tokenizer) fillEntries() error {
	count, highest := len(t.model.vocab)+len(t.added), int32(-1)
	check := func(token string, id int32) error {
		if id < 0 || int(id) >= 2*count+1<<16 {
			return fmt.Errorf("token %.40q has id %d, in a vocabulary of %d", token, id, count)
		}
		if len(token) > maxToken {
			return fmt.Errorf("token %d has %d bytes, the limit is %d", id, len(token), maxToken)
		}
		highest = max(highest, id)
		return nil
	}
	for token, id := range t.model.vocab {
		if err := check(token, id); err != nil {
			return err
		}
	}
	for _, a := range t.added {
		if err := check(a.content, a.id); err != nil {
			return err
		}
	}
	t.entries = make([]entry, highest+1)
	for token, id := range t.model.vocab {
		if err := t.put(token, id); err != nil {
			return err
		}
	}
	for _, a := range t.added {
		if err := t.put(a.content, a.id); err != nil {
			return err
		}
		t.entries[a.id].special = t.entries[a.id].special || a.special
	}
	return nil
}

// put fills the entry of a token. An id is one token only.
func (t *Tokenizer) put(token string, id int32) error {
	e := &t.entries[id]
	if e.present && e.token != token {
		return fmt.Errorf("id %d is both %.40q and %.40q", id, e.token, token)
	}
	e.token, e.present = token, true
	t.longest = max(t.longest, len(token))
	e.shown = t.dec.shown(token, false)
	e.byte = byteToken(e.shown)
	return nil
}
