package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// maxText bounds one text: 64 MiB is more than any context holds, and ids and
// work lists of a text take up to 40 times its size.
const maxText = 64 << 20

// Tokenizer maps text to ids and back. It is immutable and safe for
// concurrent use. Make one with [OpenFolder], [LoadJSON] or [FromGGUF].
type Tokenizer struct {
	entries []entry // by id
	longest int     // bytes of the longest token
	model   *bpe
	norm    normalizer // nil: none
	split   []splitter
	dec     decoder

	added      []addedToken
	raw        *matcher // tokens found in the raw text
	normalized *matcher // tokens found in the normalised text, nil for none
	specials   specialMatcher
	byContent  map[string]int32

	prefix, suffix []int32 // what EncodeOptions.Special adds
	bos, eos       int32   // -1: none
	unk, pad       int32
	eogs           []int32

	templateSource, toolSource string
	template                   *chatTemplate // nil: none
	toolTemplate               *chatTemplate // for conversations with tools, nil: the same
	now                        func() time.Time
}

// entry is what is known of one id.
type entry struct {
	token   string
	shown   string // what it adds to a text, see decoder.shown
	byte    int16  // the byte it stands for with byte fallback, or -1
	present bool   // ids may have gaps
	special bool
}

// Option changes how a Tokenizer is made.
type Option func(*Tokenizer)

// WithChatTemplate replaces the chat template that the files bring.
func WithChatTemplate(source string) Option {
	return func(t *Tokenizer) { t.templateSource = source }
}

// WithNow gives chat templates their date; the default is time.Now.
func WithNow(now func() time.Time) Option {
	return func(t *Tokenizer) { t.now = now }
}

// EncodeOptions says what may become a special token.
type EncodeOptions struct {
	// Special adds the begin and end tokens that the model expects.
	Special bool
	// ParseSpecial turns text that looks like a special token into that
	// token. Leave it off for text of a user: text is text.
	ParseSpecial bool
	// Limit, if not 0, is the most ids that are of use: a text that gives more
	// fails with [ErrTooLong], long before all of it is encoded. So does one
	// of more bytes than so many of the longest token, also where it would
	// give fewer ids because the tokenizer drops or fuses characters.
	Limit int
}

// ErrTooLong says that a text has more tokens than the limit given.
var ErrTooLong = errors.New("the text has more tokens than the limit")

// Encode returns the ids of text. Bytes that are not UTF-8 count as U+FFFD.
// It fails if the text is above 64 MiB, or if a split pattern of the
// tokenizer file takes unreasonably long.
func (t *Tokenizer) Encode(text string, opts EncodeOptions) ([]int32, error) {
	limit := limitOf(opts.Limit)
	ids := make([]int32, 0, min(limit, len(text)/3)+len(t.prefix)+len(t.suffix))
	if opts.Special {
		ids = append(ids, t.prefix...)
	}
	ids, err := t.appendText(ids, text, nil, opts.ParseSpecial, limit)
	if err != nil {
		return nil, err
	}
	if opts.Special {
		ids = append(ids, t.suffix...)
	}
	return ids, nil
}

// limitOf is a limit of ids as it is compared with.
func limitOf(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// appendText appends the ids of text, up to limit of them and hardly more. No
// special token may start at the offsets in barred.
func (t *Tokenizer) appendText(ids []int32, text string, barred []int, parseSpecial bool, limit int) ([]int32, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("encoding a text of %d bytes: the limit is %d", len(text), maxText)
	}
	if len(text)/max(1, t.longest) > limit { // unless characters are dropped or fused
		return nil, ErrTooLong
	}
	text = validText(text)
	if text == "" {
		return ids, nil
	}
	whole := piece{text: text, atStart: true, token: -1, barred: barred}
	for _, p := range t.raw.cut(nil, whole, parseSpecial) {
		if p.token >= 0 {
			ids = append(ids, p.token)
			continue
		}
		var err error
		if ids, err = t.appendPiece(ids, p, parseSpecial, limit); err != nil {
			return nil, fmt.Errorf("encoding a text of %d bytes: %w", len(text), err)
		}
	}
	if len(ids) > limit { // by tokens found in the text
		return nil, ErrTooLong
	}
	return ids, nil
}

// appendPiece encodes what lies between two tokens found in the raw text.
func (t *Tokenizer) appendPiece(ids []int32, p piece, parseSpecial bool, limit int) ([]int32, error) {
	p, err := t.normalize(p)
	if err != nil {
		return nil, err
	}
	parts := []piece{p}
	if t.normalized != nil {
		parts = t.normalized.cut(nil, p, parseSpecial)
	}
	for _, part := range parts {
		if part.token >= 0 {
			ids = append(ids, part.token)
			continue
		}
		if ids, err = t.appendWords(ids, part, t.split, make([][]piece, len(t.split)), limit); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// appendWords takes a part through the steps of pre-tokenisation that are left.
// It finishes one part before it begins the next, so that memory holds the
// parts of the first step and few of the others. room is a buffer per step.
func (t *Tokenizer) appendWords(ids []int32, w piece, steps []splitter, room [][]piece, limit int) ([]int32, error) {
	if len(steps) == 0 {
		if ids = t.model.appendWord(ids, w.text); len(ids) > limit {
			return nil, ErrTooLong
		}
		return ids, nil
	}
	var err error
	if room[0], err = steps[0](room[0][:0], w); err != nil {
		return nil, err
	}
	for _, part := range room[0] {
		if ids, err = t.appendWords(ids, part, steps[1:], room[1:], limit); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// normalize normalises the text of p. Bars move along with the characters
// they stand before: a private mark goes through the normaliser in the text.
func (t *Tokenizer) normalize(p piece) (piece, error) {
	if t.norm == nil {
		return p, nil
	}
	if len(p.barred) == 0 || t.normalized == nil {
		text, err := t.norm(p.text)
		p.text, p.barred = text, nil
		return p, err
	}
	var used markSet
	used.add(p.text)
	mark, err := used.unused()
	if err != nil {
		return p, fmt.Errorf("encoding: %w", err)
	}
	text, err := t.norm(withMarks(p.text, p.barred, mark))
	p.text, p.barred = withoutMarks(text, mark)
	return p, err
}

// Decode returns the text of ids. With skipSpecial, special tokens add
// nothing to it; ids outside the vocabulary never do. The text is valid
// UTF-8: bytes that are none show as U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var b strings.Builder
	s := t.NewStream(skipSpecial)
	for _, id := range ids {
		s.out = s.out[:0]
		s.push(id)
		b.Write(s.out)
	}
	b.WriteString(s.Flush())
	return b.String()
}

// TokenBytes are the bytes that an id adds to a text whose special tokens are skipped, nil
// for one that adds nothing. They need not be whole characters. first is for the first token
// of a text, of which some vocabularies strip a space.
func (t *Tokenizer) TokenBytes(id int32, first bool) []byte {
	if id < 0 || int(id) >= len(t.entries) || !t.entries[id].present || t.entries[id].special {
		return nil
	}
	e := &t.entries[id]
	if t.dec.byteFallback && e.byte >= 0 {
		return []byte{byte(e.byte)}
	}
	switch {
	case !first && t.dec.spaced:
		return []byte(" " + e.shown)
	case !first:
		return []byte(e.shown)
	}
	return []byte(stripEnds(t.dec.shown(e.token, true), t.dec.strip.char, t.dec.strip.left, 0))
}

// VocabSize is one more than the highest id. The embedding of a model may
// have more rows.
func (t *Tokenizer) VocabSize() int { return len(t.entries) }

// BOS returns the token that begins a text, -1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS returns the token that ends a text, -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.eos }

// EOGs returns every token that ends a generation, ascending: the end of the
// text, of a turn, of a message. The caller owns the slice.
func (t *Tokenizer) EOGs() []int32 { return slices.Clone(t.eogs) }

// IDToToken returns the token as the vocabulary spells it, which for
// byte-level vocabularies is not the text it stands for.
func (t *Tokenizer) IDToToken(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.entries) || !t.entries[id].present {
		return "", false
	}
	return t.entries[id].token, true
}

// TokenID finds a token by its spelling in the vocabulary.
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	if id, ok := t.byContent[token]; ok {
		return id, true
	}
	id, ok := t.model.vocab[token]
	return id, ok
}

// IsSpecial says whether id is a control token: one that is never shown.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.entries) && t.entries[id].special
}
