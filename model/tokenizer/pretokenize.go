package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// splitter is one step of pre-tokenisation: it appends the parts of in.
// Parts are never empty, and they are text.
type splitter func(dst []piece, in piece) ([]piece, error)

// behavior says what a split does with what it matched.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

func (b behavior) check() error {
	switch b {
	case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous:
		return nil
	}
	return fmt.Errorf("split behavior %q is not supported", string(b))
}

// parsePreTokenizer reads the "pre_tokenizer" of a tokenizer.json into the
// steps it is made of. A ByteLevel step at the very end is not returned but
// reported by spell: the model then spells words itself, and only those that
// are not in its cache.
func parsePreTokenizer(raw json.RawMessage, depth int) (steps []splitter, spell bool, err error) {
	if isNull(raw) {
		return nil, false, nil
	}
	if depth > maxNesting {
		return nil, false, fmt.Errorf("pre_tokenizer: nested more than %d deep", maxNesting)
	}
	var c component
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, false, fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch c.Type {
	case "Sequence":
		return sequenceSteps(raw, depth)
	case "ByteLevel":
		return byteLevelSteps(raw)
	case "Metaspace":
		steps, err = metaspaceSteps(raw)
	case "Split":
		steps, err = splitSteps(raw)
	case "Digits":
		var d struct {
			IndividualDigits bool `json:"individual_digits"`
		}
		if err = json.Unmarshal(raw, &d); err == nil {
			b := contiguous
			if d.IndividualDigits {
				b = isolated
			}
			steps = []splitter{splitBy(runesWhere(isNumeric), b, false)}
		}
	case "Punctuation":
		p := struct{ Behavior behavior }{isolated}
		if err = json.Unmarshal(raw, &p); err == nil {
			err = p.Behavior.check()
		}
		steps = []splitter{splitBy(runesWhere(isPunctuation), p.Behavior, false)}
	default:
		err = fmt.Errorf("%q is not supported (Sequence, ByteLevel, Metaspace, Split, Digits, Punctuation are)", c.Type)
	}
	if err != nil {
		return nil, false, fmt.Errorf("pre_tokenizer: %w", err)
	}
	return steps, false, nil
}

func sequenceSteps(raw json.RawMessage, depth int) (steps []splitter, spell bool, err error) {
	var s struct{ Pretokenizers []json.RawMessage }
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, false, fmt.Errorf("pre_tokenizer Sequence: %w", err)
	}
	for _, sub := range s.Pretokenizers {
		more, subSpell, err := parsePreTokenizer(sub, depth+1)
		if err != nil {
			return nil, false, err
		}
		if spell { // something follows ByteLevel: it has to be done in place
			steps = append(steps, spellStep)
		}
		steps, spell = append(steps, more...), subSpell
	}
	return steps, spell, nil
}

func byteLevelSteps(raw json.RawMessage) (steps []splitter, spell bool, err error) {
	b := struct {
		AddPrefixSpace bool `json:"add_prefix_space"`
		UseRegex       bool `json:"use_regex"`
	}{true, true}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, false, fmt.Errorf("pre_tokenizer ByteLevel: %w", err)
	}
	if b.AddPrefixSpace {
		steps = append(steps, func(dst []piece, in piece) ([]piece, error) {
			if !strings.HasPrefix(in.text, " ") {
				in.text = " " + in.text
			}
			return append(dst, in), nil
		})
	}
	if b.UseRegex {
		steps = append(steps, scanStep(scanGPT2))
	}
	return steps, true, nil
}

// spellStep writes each part in the byte alphabet.
func spellStep(dst []piece, in piece) ([]piece, error) {
	in.text = string(appendSpelled(nil, in.text))
	return append(dst, in), nil
}

func metaspaceSteps(raw json.RawMessage) ([]splitter, error) {
	m := struct {
		Replacement    string
		AddPrefixSpace bool   `json:"add_prefix_space"`
		PrependScheme  string `json:"prepend_scheme"`
		Split          bool
	}{"▁", true, "always", true}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("Metaspace: %w", err)
	}
	if !m.AddPrefixSpace {
		m.PrependScheme = "never"
	}
	switch m.PrependScheme {
	case "always", "first", "never":
	default:
		return nil, fmt.Errorf("Metaspace: prepend_scheme %q is not supported", m.PrependScheme)
	}
	if utf8.RuneCountInString(m.Replacement) != 1 {
		return nil, fmt.Errorf("Metaspace: replacement %q is not one character", m.Replacement)
	}
	steps := []splitter{func(dst []piece, in piece) ([]piece, error) {
		in.text = strings.ReplaceAll(in.text, " ", m.Replacement)
		prepend := m.PrependScheme == "always" || m.PrependScheme == "first" && in.atStart
		if prepend && !strings.HasPrefix(in.text, m.Replacement) {
			in.text = m.Replacement + in.text
		}
		return append(dst, in), nil
	}}
	if m.Split {
		steps = append(steps, splitBy(literal(m.Replacement), mergedWithNext, false))
	}
	return steps, nil
}

func splitSteps(raw json.RawMessage) ([]splitter, error) {
	var s struct {
		Pattern  textPattern
		Behavior behavior
		Invert   bool
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("Split: %w", err)
	}
	if err := s.Behavior.check(); err != nil {
		return nil, err
	}
	if s.Pattern.Regex != nil && s.Behavior == isolated {
		if scan, ok := scanners[*s.Pattern.Regex]; ok {
			return []splitter{scanStep(scan)}, nil // it leaves no gaps: inverting changes nothing
		}
	}
	find, err := s.Pattern.finder()
	if err != nil {
		return nil, fmt.Errorf("Split: %w", err)
	}
	return []splitter{splitBy(find, s.Behavior, s.Invert)}, nil
}

// scanStep isolates the matches of a scanner, which leave nothing between.
func scanStep(scan func(string) int) splitter {
	return func(dst []piece, in piece) ([]piece, error) {
		for s, first := in.text, true; s != ""; first = false {
			n := scan(s)
			dst = append(dst, piece{text: s[:n], atStart: in.atStart && first, token: -1})
			s = s[n:]
		}
		return dst, nil
	}
}

// splitBy cuts at the matches of find. invert swaps matches and gaps.
func splitBy(find finder, b behavior, invert bool) splitter {
	return func(dst []piece, in piece) ([]piece, error) {
		spans, err := find(in.text)
		if err != nil {
			return nil, err
		}
		parts := tile(spans, len(in.text), invert)
		for _, p := range arrange(parts, b) {
			dst = append(dst, piece{text: in.text[p.start:p.end], atStart: in.atStart && p.start == 0, token: -1})
		}
		return dst, nil
	}
}

type part struct {
	start, end int
	match      bool
}

// tile lists matches and the gaps between them.
func tile(spans [][2]int, size int, invert bool) []part {
	parts := make([]part, 0, 2*len(spans)+1)
	done := 0
	for _, s := range spans {
		if done < s[0] {
			parts = append(parts, part{done, s[0], invert})
		}
		parts = append(parts, part{s[0], s[1], !invert})
		done = s[1]
	}
	if done < size {
		parts = append(parts, part{done, size, invert})
	}
	return parts
}

// arrange joins or drops parts as b says. It works in place.
func arrange(parts []part, b behavior) []part {
	out := parts[:0]
	switch b {
	case isolated:
		return parts
	case removed:
		for _, p := range parts {
			if !p.match {
				out = append(out, p)
			}
		}
	case contiguous:
		for i, p := range parts {
			if i > 0 && p.match == out[len(out)-1].match {
				out[len(out)-1].end = p.end
			} else {
				out = append(out, p)
			}
		}
	case mergedWithPrevious:
		previous := false
		for i, p := range parts {
			if p.match && !previous && i > 0 {
				out[len(out)-1].end = p.end
			} else {
				out = append(out, p)
			}
			previous = p.match
		}
	case mergedWithNext:
		// A match joins the part after it, unless that is a match as well.
		for i := 0; i < len(parts); i++ {
			p := parts[i]
			if p.match && i+1 < len(parts) && !parts[i+1].match {
				i++
				p.end = parts[i].end
			}
			out = append(out, p)
		}
	}
	return out
}
