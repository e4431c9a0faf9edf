package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decoder is the decoder chain of a tokenizer, boiled down to what a token
// adds to the text:
//
//	token -> spell, the steps that look at one token  (table, made at load)
//	      -> runs of byte tokens joined               (ByteFallback)
//	      -> lossy UTF-8                              (ByteLevel)
//	      -> ends of the whole text stripped          (Strip after Fuse)
type decoder struct {
	// local are the steps that look at one token only; first is what they
	// would do with the first token of a text, where that differs (Metaspace).
	local []func(token string, first bool) string
	// firstDiffers says that some local step cares about being first.
	firstDiffers bool

	byteFallback bool
	byteLevel    bool
	spaced       bool // no decoder at all: tokens with spaces between

	fused bool // the chain has fused its tokens: only strip may follow
	// strip takes up to left stripped characters off the start of the whole
	// text and up to right off its end.
	strip struct {
		char        rune
		left, right int
	}
}

// parseDecoder reads the "decoder" of a tokenizer.json.
func parseDecoder(raw json.RawMessage) (decoder, error) {
	if isNull(raw) {
		return decoder{spaced: true}, nil
	}
	var d decoder
	if err := d.add(raw, 0); err != nil {
		return decoder{}, fmt.Errorf("decoder: %w", err)
	}
	return d, nil
}

// add appends one decoder of the file to the chain.
func (d *decoder) add(raw json.RawMessage, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("nested more than %d deep", maxNesting)
	}
	c := struct {
		component
		Decoders       []json.RawMessage
		Pattern        textPattern
		Content        string
		Start, Stop    int
		Replacement    string
		AddPrefixSpace bool   `json:"add_prefix_space"`
		PrependScheme  string `json:"prepend_scheme"`
	}{Replacement: "▁", AddPrefixSpace: true, PrependScheme: "always"}
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	if d.fused && c.Type != "Sequence" && c.Type != "Strip" && c.Type != "Fuse" {
		return fmt.Errorf("%s after the tokens are fused is not supported", c.Type)
	}
	switch c.Type {
	case "Sequence":
		for _, sub := range c.Decoders {
			if err := d.add(sub, depth+1); err != nil {
				return err
			}
		}
	case "ByteLevel":
		if d.byteFallback {
			return fmt.Errorf("ByteLevel after ByteFallback is not supported")
		}
		d.byteLevel, d.fused = true, true
	case "Fuse":
		d.fused = true
	case "ByteFallback":
		d.byteFallback = true
	case "Strip":
		return d.addStrip(c.Content, c.Start, c.Stop)
	case "Replace":
		if c.Pattern.String == nil || *c.Pattern.String == "" {
			return fmt.Errorf("Replace of anything but a plain text is not supported")
		}
		return d.addLocal(c.Type, false, func(token string, _ bool) string {
			return strings.ReplaceAll(token, *c.Pattern.String, c.Content)
		})
	case "Metaspace":
		eats := c.AddPrefixSpace && c.PrependScheme != "never"
		return d.addLocal(c.Type, eats, func(token string, first bool) string {
			if first && eats {
				return strings.ReplaceAll(token, c.Replacement, "")
			}
			return strings.ReplaceAll(token, c.Replacement, " ")
		})
	default:
		return fmt.Errorf("%q is not supported (Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace are)", c.Type)
	}
	return nil
}

func (d *decoder) addLocal(kind string, firstDiffers bool, step func(string, bool) string) error {
	if d.byteFallback {
		return fmt.Errorf("%s after ByteFallback is not supported", kind)
	}
	d.local = append(d.local, step)
	d.firstDiffers = d.firstDiffers || firstDiffers
	return nil
}

func (d *decoder) addStrip(content string, left, right int) error {
	char, n := utf8.DecodeRuneInString(content)
	if n == 0 || n != len(content) || left < 0 || right < 0 || left > maxStrip || right > maxStrip {
		return fmt.Errorf("Strip of %d and %d times %q is not supported (one character, at most %d times)", left, right, content, maxStrip)
	}
	if d.fused {
		if d.strip.left+d.strip.right > 0 {
			return fmt.Errorf("a second Strip after Fuse is not supported")
		}
		d.strip.char, d.strip.left, d.strip.right = char, left, right
		return nil
	}
	return d.addLocal("Strip", false, func(token string, _ bool) string {
		return stripEnds(token, char, left, right)
	})
}

// maxStrip bounds what a stream holds back for a Strip of the text's end.
const maxStrip = 64

func stripEnds(s string, char rune, left, right int) string {
	for ; left > 0 && s != ""; left-- {
		r, n := utf8.DecodeRuneInString(s)
		if r != char {
			break
		}
		s = s[n:]
	}
	for ; right > 0 && s != ""; right-- {
		r, n := utf8.DecodeLastRuneInString(s)
		if r != char {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// shown is what one token adds to the text, as bytes: with ByteLevel they
// need not be whole characters.
func (d *decoder) shown(token string, first bool) string {
	for _, step := range d.local {
		token = step(token, first)
	}
	if d.byteLevel {
		return string(appendUnspelled(nil, token))
	}
	return token
}

// byteToken returns the byte that a token like <0x0A> stands for, or -1.
func byteToken(token string) int16 {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return -1
	}
	high, low := hexDigit(token[3]), hexDigit(token[4])
	if high < 0 || low < 0 {
		return -1
	}
	return high<<4 | low
}

func hexDigit(c byte) int16 {
	switch {
	case c >= '0' && c <= '9':
		return int16(c - '0')
	case c >= 'a' && c <= 'f':
		return int16(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int16(c-'A') + 10
	}
	return -1
}
