package tokenizer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// A pattern comes from a file, and backtracking can be made to take for ever:
// one match may take matchLimit (a sane one needs microseconds), and all
// matches in a text matchLimit and byteLimit for each byte (a sane pattern
// needs under 0.5 us).
const (
	matchLimit = 2 * time.Second
	byteLimit  = 10 * time.Microsecond
)

// maxPattern is far above any pattern in use (the longest known has 400 bytes).
const maxPattern = 16 << 10

// finder returns the matches in s as ascending pairs of byte offsets.
type finder func(s string) ([][2]int, error)

// compile makes a finder for a pattern in the syntax of tokenizer.json
// (Oniguruma). A known pattern gets its hand-written scanner.
func compile(pattern string) (finder, error) {
	if scan, ok := scanners[pattern]; ok {
		return func(s string) ([][2]int, error) { return scanAll(scan, s), nil }, nil
	}
	return compileRegex(pattern, matchLimit)
}

func compileRegex(pattern string, limit time.Duration) (finder, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes, the limit is %d", len(pattern), maxPattern)
	}
	re, err := regexp2.Compile(flattenClasses(pattern), regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = limit
	return func(s string) ([][2]int, error) { return findAll(re, s) }, nil
}

func scanAll(scan func(string) int, s string) [][2]int {
	spans := make([][2]int, 0, len(s)/4+1)
	for i := 0; i < len(s); {
		n := scan(s[i:])
		spans = append(spans, [2]int{i, i + n})
		i += n
	}
	return spans
}

func findAll(re *regexp2.Regexp, s string) ([][2]int, error) {
	var spans [][2]int
	deadline := time.Now().Add(re.MatchTimeout + time.Duration(len(s))*byteLimit)
	match, err := re.FindStringMatch(s)
	// The engine counts in characters: walk the bytes along.
	runes, offset := 0, 0
	advance := func(to int) int {
		for ; runes < to && offset < len(s); runes++ {
			_, n := utf8.DecodeRuneInString(s[offset:])
			offset += n
		}
		return offset
	}
	for err == nil && match != nil {
		start := advance(match.Index)
		end := advance(match.Index + match.Length)
		if start < end {
			spans = append(spans, [2]int{start, end})
		}
		if len(spans)%64 == 63 && time.Now().After(deadline) {
			return nil, fmt.Errorf("splitting %d bytes of text with %q takes too long", len(s), re.String())
		}
		match, err = re.FindNextMatch(match)
	}
	if err != nil {
		return nil, fmt.Errorf("splitting text with %q: %w", re.String(), err)
	}
	return spans, nil
}

// flattenClasses unwraps a character class inside a character class, which
// Oniguruma reads as a union (BLOOM's pattern has one) and regexp2 does not.
// Negated inner classes and POSIX names are left as they are.
func flattenClasses(p string) string {
	var b strings.Builder
	depth := 0
	var unwrapped []bool // for each open class: was its bracket dropped?
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\' && i+1 < len(p):
			b.WriteString(p[i : i+2])
			i++
			continue
		case c == '[':
			drop := depth > 0 && i+1 < len(p) && p[i+1] != '^' && p[i+1] != ':'
			unwrapped = append(unwrapped, drop)
			depth++
			if drop {
				continue
			}
		case c == ']' && depth > 0:
			depth--
			drop := unwrapped[depth]
			unwrapped = unwrapped[:depth]
			if drop {
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// literal makes a finder for a plain string.
func literal(pattern string) finder {
	return func(s string) ([][2]int, error) {
		var spans [][2]int
		if pattern == "" {
			return nil, nil
		}
		for i := 0; ; {
			k := strings.Index(s[i:], pattern)
			if k < 0 {
				return spans, nil
			}
			spans = append(spans, [2]int{i + k, i + k + len(pattern)})
			i += k + len(pattern)
		}
	}
}

// runesWhere makes a finder of the single characters that have a property.
func runesWhere(has func(rune) bool) finder {
	return func(s string) ([][2]int, error) {
		var spans [][2]int
		for i, r := range s {
			if has(r) {
				_, n := utf8.DecodeRuneInString(s[i:])
				spans = append(spans, [2]int{i, i + n})
			}
		}
		return spans, nil
	}
}
