package grammar

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

const (
	maxPattern = 4096    // bytes of a pattern
	maxParts   = 1 << 15 // parts and ranges of all patterns, before repetitions are written out
)

// anyRune are all characters.
var anyRune = []rune{0, 0x10FFFF}

// spelling turns characters into bytes: as they are (runeClass) or as in a JSON text (jsonClass).
type spelling func(ranges []rune) *expr

// pattern reads a regular expression. Where it has to match all of a text, search is false.
// Anchors may stand at its ends alone.
func (r *rules) pattern(source string, search bool, spell spelling) (*expr, error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("a pattern of %d bytes: want at most %d", len(source), maxPattern)
	}
	re, err := syntax.Parse(ecmaScript(source), syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %.80q cannot be used: %w", source, err)
	}
	p := patternReader{spell: spell, parts: &r.parts}
	if search {
		p.around = repeat(spell(anyRune), 0, -1)
	}
	e, err := p.edge(re, true, true)
	if err != nil {
		return nil, fmt.Errorf("the pattern %.80q cannot be used: %w", source, err)
	}
	return e, nil
}

// classesOf are what ECMAScript has and Go writes otherwise.
var classesOf = strings.NewReplacer(`\\`, `\\`,
	`\s`, `[\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]`,
	`\S`, `[^\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]`)

// ecmaScript writes an ECMAScript pattern, which JSON Schema has, as Go reads it.
func ecmaScript(s string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			switch d := s[i]; {
			case d == 'u' && i+4 < len(s) && isHex(s[i+1:i+5]):
				b.WriteString(`\x{` + s[i+1:i+5] + `}`)
				i += 4
			case d == 's' && inClass:
				whole := classesOf.Replace(`\s`)
				b.WriteString(whole[1 : len(whole)-1])
			case d == 's', d == 'S' && !inClass:
				b.WriteString(classesOf.Replace(`\` + string(d)))
			default:
				b.WriteByte('\\')
				b.WriteByte(d)
			}
			continue
		case c == '[' && inClass: // no classes of classes in ECMAScript
			b.WriteString(`\[`)
			continue
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

type patternReader struct {
	spell  spelling
	around *expr // what may stand before and behind a match; nil for nothing
	parts  *int  // of all patterns of the grammar so far
}

// edge reads a part that may be at the ends of the match.
func (p *patternReader) edge(re *syntax.Regexp, left, right bool) (*expr, error) {
	switch re.Op {
	case syntax.OpCapture:
		return p.edge(re.Sub[0], left, right)
	case syntax.OpAlternate:
		var kids []*expr
		for _, sub := range re.Sub {
			e, err := p.edge(sub, left, right)
			if err != nil {
				return nil, err
			}
			kids = append(kids, e)
		}
		return alt(kids...), nil
	case syntax.OpBeginText, syntax.OpEndText:
		return p.edge(&syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{re}}, left, right)
	case syntax.OpConcat:
		return p.concat(re.Sub, left, right)
	}
	e, err := p.inner(re)
	if err != nil {
		return nil, err
	}
	return p.open(e, left, right), nil
}

// concat reads parts in a row, with anchors at the ends where they may be.
func (p *patternReader) concat(subs []*syntax.Regexp, left, right bool) (*expr, error) {
	openLeft, openRight := left, right
	for left && len(subs) > 0 && subs[0].Op == syntax.OpBeginText {
		subs, openLeft = subs[1:], false
	}
	for right && len(subs) > 0 && subs[len(subs)-1].Op == syntax.OpEndText {
		subs, openRight = subs[:len(subs)-1], false
	}
	if len(subs) == 1 && (openLeft || openRight) {
		return p.edge(subs[0], openLeft, openRight)
	}
	var kids []*expr
	for _, sub := range subs {
		e, err := p.inner(sub)
		if err != nil {
			return nil, err
		}
		kids = append(kids, e)
	}
	return p.open(seq(kids...), openLeft, openRight), nil
}

// open lets other text stand around a match.
func (p *patternReader) open(e *expr, left, right bool) *expr {
	if p.around == nil {
		return e
	}
	if left {
		e = seq(p.around, e)
	}
	if right {
		e = seq(e, p.around)
	}
	return e
}

// inner reads a part that has no anchors.
func (p *patternReader) inner(re *syntax.Regexp) (*expr, error) {
	if *p.parts += 1 + len(re.Rune); *p.parts > maxParts {
		return nil, fmt.Errorf("patterns have more than %d parts together", maxParts)
	}
	var kids []*expr
	for _, sub := range re.Sub {
		e, err := p.inner(sub)
		if err != nil {
			return nil, err
		}
		kids = append(kids, e)
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return never, nil
	case syntax.OpEmptyMatch:
		return nothing, nil
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			kids = append(kids, p.spell(folded(r, re.Flags)))
		}
		return seq(kids...), nil
	case syntax.OpCharClass:
		return p.spell(re.Rune), nil
	case syntax.OpAnyCharNotNL:
		return p.spell(without(without(without(without(anyRune, '\n'), '\r'), 0x2028), 0x2029)), nil
	case syntax.OpAnyChar:
		return p.spell(anyRune), nil
	case syntax.OpCapture:
		return kids[0], nil
	case syntax.OpConcat:
		return seq(kids...), nil
	case syntax.OpAlternate:
		return alt(kids...), nil
	case syntax.OpStar:
		return repeat(kids[0], 0, -1), nil
	case syntax.OpPlus:
		return repeat(kids[0], 1, -1), nil
	case syntax.OpQuest:
		return maybe(kids[0]), nil
	case syntax.OpRepeat:
		return repeat(kids[0], re.Min, re.Max), nil
	case syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return nil, fmt.Errorf("an anchor (^ or $) stands in the middle of it")
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return nil, fmt.Errorf(`\b and \B are not supported`)
	}
	return nil, fmt.Errorf("%v is not supported", re.Op)
}

// folded is a character, or all that are the same but for their case.
func folded(r rune, flags syntax.Flags) []rune {
	all := []rune{r}
	if flags&syntax.FoldCase != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			all = append(all, f)
		}
	}
	slices.Sort(all)
	var out []rune
	for _, f := range all {
		out = append(out, f, f)
	}
	return out
}
