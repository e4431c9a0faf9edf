package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is split.
type normalizer func(string) (string, error)

// maxNesting bounds Sequence components inside each other.
const maxNesting = 8

// component is what every part of a tokenizer.json has: its kind, and fields
// that depend on it.
type component struct {
	Type string `json:"type"`
}

// textPattern is {"String": "..."} or {"Regex": "..."}.
type textPattern struct {
	String *string
	Regex  *string
}

func (p textPattern) finder() (finder, error) {
	switch {
	case p.Regex != nil:
		return compile(*p.Regex)
	case p.String != nil:
		return literal(*p.String), nil
	}
	return nil, fmt.Errorf("pattern is neither String nor Regex")
}

// parseNormalizer reads the "normalizer" of a tokenizer.json, nil for none.
func parseNormalizer(raw json.RawMessage, depth int) (normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	if depth > maxNesting {
		return nil, fmt.Errorf("normalizer: nested more than %d deep", maxNesting)
	}
	var c struct {
		component
		Normalizers []json.RawMessage
		Prepend     string
		Pattern     textPattern
		Content     string
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	switch c.Type {
	case "Sequence":
		return sequenceNormalizer(c.Normalizers, depth)
	case "NFC":
		return formNormalizer(norm.NFC), nil
	case "NFD":
		return formNormalizer(norm.NFD), nil
	case "NFKC":
		return formNormalizer(norm.NFKC), nil
	case "NFKD":
		return formNormalizer(norm.NFKD), nil
	case "Lowercase":
		return func(s string) (string, error) { return lowercase(s), nil }, nil
	case "Prepend":
		return func(s string) (string, error) {
			if s == "" {
				return s, nil
			}
			return c.Prepend + s, nil
		}, nil
	case "Replace":
		find, err := c.Pattern.finder()
		if err != nil {
			return nil, fmt.Errorf("normalizer Replace: %w", err)
		}
		return func(s string) (string, error) { return replaceAll(s, find, c.Content) }, nil
	}
	return nil, fmt.Errorf("normalizer %q is not supported (Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace are)", c.Type)
}

func sequenceNormalizer(raws []json.RawMessage, depth int) (normalizer, error) {
	var steps []normalizer
	for _, raw := range raws {
		n, err := parseNormalizer(raw, depth+1)
		if err != nil {
			return nil, err
		}
		if n != nil {
			steps = append(steps, n)
		}
	}
	return func(s string) (string, error) {
		var err error
		for _, step := range steps {
			if s, err = step(s); err != nil {
				return "", err
			}
		}
		return s, nil
	}, nil
}

// formNormalizer brings text into a normal form, around the characters that
// the reference's tables do not know.
func formNormalizer(f norm.Form) normalizer {
	return func(s string) (string, error) {
		if strings.IndexFunc(s, isNewNorm) < 0 {
			return f.String(s), nil
		}
		var b strings.Builder
		for s != "" {
			cut := strings.IndexFunc(s, isNewNorm)
			if cut < 0 {
				cut = len(s)
			}
			b.WriteString(f.String(s[:cut]))
			end := cut
			for end < len(s) {
				r, n := utf8.DecodeRuneInString(s[end:])
				if !isNewNorm(r) {
					break
				}
				end += n
			}
			b.WriteString(s[cut:end])
			s = s[end:]
		}
		return b.String(), nil
	}
}

func isNewNorm(r rune) bool { return r >= 0x7FD && unicode.Is(newNorm, r) }

// lowercase maps each character by itself (no final sigma); the dotted
// capital I is the one that becomes two.
func lowercase(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if r == 'İ' {
			b.WriteString("i\u0307")
			continue
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func replaceAll(s string, find finder, with string) (string, error) {
	spans, err := find(s)
	if err != nil || len(spans) == 0 {
		return s, err
	}
	var b strings.Builder
	done := 0
	for _, span := range spans {
		b.WriteString(s[done:span[0]])
		b.WriteString(with)
		done = span[1]
	}
	b.WriteString(s[done:])
	return b.String(), nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}
