package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

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

func formNormalizer(f norm.Form) normalizer {
	return func(s string) (string, error) { return f.String(s), nil }
}

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
