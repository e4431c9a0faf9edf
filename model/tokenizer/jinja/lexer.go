package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	textToken  tokenKind = iota // text outside of tags
	beginToken                  // {{ or {%
	endToken                    // }} or %}
	nameToken
	intToken
	floatToken
	stringToken // text is what the literal stands for
	operatorToken
	eofToken
)

type token struct {
	kind tokenKind
	text string
	line int
}

func (t token) op(text string) bool   { return t.kind == operatorToken && t.text == text }
func (t token) name(text string) bool { return t.kind == nameToken && t.text == text }

func (t token) String() string {
	switch t.kind {
	case eofToken:
		return "the end of the template"
	case stringToken:
		return "a string"
	case textToken:
		return "text"
	}
	return strconv.Quote(t.text)
}

// lexer walks over the source of a template, with the white-space rules of
// trim_blocks and lstrip_blocks.
type lexer struct {
	source string
	at     int
	line   int
	tokens []token
	// lineStart says that what came before ended in a line break, so that
	// indentation in front of a tag is a line's.
	lineStart bool
	trimNext  bool // the tag before ended in a minus
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.at < len(l.source) {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
	}
	return append(l.tokens, token{kind: eofToken, line: l.line}), nil
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// next reads the text up to a tag, and the tag.
func (l *lexer) next() error {
	rest := l.source[l.at:]
	open := firstTag(rest)
	if open < 0 {
		l.addText(rest)
		l.at = len(l.source)
		return nil
	}
	text, kind, body := rest[:open], rest[open+1], l.at+open+2
	sign := byte(0)
	if body < len(l.source) && (l.source[body] == '-' || l.source[body] == '+') {
		sign = l.source[body]
		body++
	}
	l.addText(l.trimBefore(text, kind, sign))
	l.line += strings.Count(text, "\n")
	l.at = body
	switch kind {
	case '#':
		return l.comment()
	case '{':
		return l.tag("{{", "}}")
	}
	if done, err := l.raw(); done || err != nil {
		return err
	}
	return l.tag("{%", "%}")
}

func firstTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// trimBefore trims the text in front of a tag: fully for {%-, and for block
// tags and comments the indentation of a line that has nothing else.
func (l *lexer) trimBefore(text string, kind, sign byte) string {
	if l.trimNext {
		text = strings.TrimLeftFunc(text, IsSpace)
	}
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, IsSpace)
	case sign != '+' && kind != '{':
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], IsSpace) == "" {
			return text[:start]
		}
	}
	return text
}

func (l *lexer) addText(text string) {
	if l.trimNext {
		text = strings.TrimLeftFunc(text, IsSpace)
		l.trimNext = false
	}
	l.lineStart = false
	if text != "" {
		l.add(textToken, text)
	}
}

func (l *lexer) comment() error {
	n := strings.Index(l.source[l.at:], "#}")
	if n < 0 {
		return fmt.Errorf("a comment is not closed")
	}
	body := l.source[l.at : l.at+n]
	l.line += strings.Count(body, "\n")
	l.at += n + 2
	sign := byte(0)
	if body != "" {
		sign = body[len(body)-1]
	}
	l.closeTag(sign, true)
	return nil
}

// closeTag applies what the end of a tag does to the text after it.
func (l *lexer) closeTag(sign byte, block bool) {
	l.trimNext = sign == '-'
	if block && sign != '-' && sign != '+' && strings.HasPrefix(l.source[l.at:], "\n") {
		l.at++
		l.line++
		l.lineStart = true
	}
}

// tag reads the inside of a tag up to its end.
func (l *lexer) tag(begin, end string) error {
	l.add(beginToken, begin)
	depth, first := 0, len(l.tokens)
	for {
		l.skipSpace()
		if l.at >= len(l.source) {
			return fmt.Errorf("a tag is not closed with %s", end)
		}
		if len(l.tokens)-first > maxTag {
			return fmt.Errorf("a tag of more than %d words and signs", maxTag)
		}
		rest := l.source[l.at:]
		if depth == 0 {
			sign := byte(0)
			if (rest[0] == '-' || rest[0] == '+' && end == "%}") && strings.HasPrefix(rest[1:], end) {
				sign = rest[0]
				rest = rest[1:]
			}
			if strings.HasPrefix(rest, end) {
				l.add(endToken, end)
				l.at = len(l.source) - len(rest) + len(end)
				l.closeTag(sign, end == "%}")
				return nil
			}
		}
		if err := l.token(); err != nil {
			return err
		}
		t := l.tokens[len(l.tokens)-1]
		if t.kind != operatorToken {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth < 0 || depth > maxNesting {
			return fmt.Errorf("brackets are closed too often, or nested more than %d deep", maxNesting)
		}
	}
}

// raw reads a raw block, if the tag begins one: all text up to {% endraw %}.
func (l *lexer) raw() (bool, error) {
	body, ok := strings.CutPrefix(strings.TrimLeftFunc(l.source[l.at:], IsSpace), "raw")
	if !ok {
		return false, nil
	}
	body = strings.TrimLeftFunc(body, IsSpace)
	trim := strings.HasPrefix(body, "-%}")
	body = strings.TrimPrefix(body, "-")
	if body, ok = strings.CutPrefix(body, "%}"); !ok {
		return false, nil
	}
	start := len(l.source) - len(body)
	if body == "" { // jinja2 does not miss the end here
		l.at = start
		return true, nil
	}
	for from := start; ; {
		n := strings.Index(l.source[from:], "{%")
		if n < 0 {
			return false, fmt.Errorf("a raw block is not closed")
		}
		open := from + n
		from = open + 2
		sign, after, ok := endRaw(l.source[from:])
		if !ok {
			continue
		}
		l.line += strings.Count(l.source[l.at:start], "\n")
		l.trimNext, l.lineStart = trim, false
		l.addText(l.trimBefore(l.source[start:open], '%', sign))
		l.line += strings.Count(l.source[start:open], "\n")
		l.at = len(l.source) - len(after)
		end := byte(0)
		if c := l.source[l.at-3]; c == '-' || c == '+' {
			end = c
		}
		l.closeTag(end, true)
		return true, nil
	}
}

// endRaw matches the inside of {%- endraw -%}: the sign it begins with, and
// what follows it.
func endRaw(s string) (sign byte, after string, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[0], s[1:]
	}
	if s, ok = strings.CutPrefix(strings.TrimLeftFunc(s, IsSpace), "endraw"); !ok {
		return 0, "", false
	}
	s = strings.TrimLeftFunc(s, IsSpace)
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	after, ok = strings.CutPrefix(s, "%}")
	return sign, after, ok
}

func (l *lexer) skipSpace() {
	for l.at < len(l.source) {
		r, n := utf8.DecodeRuneInString(l.source[l.at:])
		if !IsSpace(r) {
			return
		}
		if r == '\n' {
			l.line++
		}
		l.at += n
	}
}

var twoCharOperators = []string{"**", "//", "==", "!=", "<=", ">="}

// token reads one token of an expression.
func (l *lexer) token() error {
	rest := l.source[l.at:]
	c := rest[0]
	switch r, _ := utf8.DecodeRuneInString(rest); {
	case c == '\'' || c == '"':
		return l.stringLiteral(c)
	case c >= '0' && c <= '9':
		return l.number()
	case r == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(rest)
		}
		l.add(nameToken, rest[:n])
		l.at += n
		return nil
	}
	for _, op := range twoCharOperators {
		if strings.HasPrefix(rest, op) {
			l.add(operatorToken, op)
			l.at += 2
			return nil
		}
	}
	if !strings.ContainsRune("+-*/%~<>=()[]{},.:|", rune(c)) {
		r, _ := utf8.DecodeRuneInString(rest)
		return fmt.Errorf("unexpected character %q", r)
	}
	l.add(operatorToken, rest[:1])
	l.at++
	return nil
}

// number reads 12, 1_000, 0x1F, 1.5 or 1e-3.
func (l *lexer) number() error {
	rest := l.source[l.at:]
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_' && i+1 < len(rest) && rest[i+1] >= '0' && rest[i+1] <= '9') {
			i++
		}
		return i
	}
	if len(rest) > 2 && rest[0] == '0' && strings.ContainsRune("xXoObB", rune(rest[1])) {
		n := 2
		for n < len(rest) && (hexDigit(rest[n]) || rest[n] == '_') {
			n++
		}
		value, err := strconv.ParseInt(rest[:n], 0, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", rest[:n])
		}
		l.add(intToken, strconv.FormatInt(value, 10))
		l.at += n
		return nil
	}
	n, kind := digits(0), intToken
	dotted := l.at > 0 && l.source[l.at-1] == '.' // 1 in x.1.2 is an index
	if !dotted && n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		n, kind = digits(n+1), floatToken
	}
	if e := n; !dotted && e < len(rest) && (rest[e] == 'e' || rest[e] == 'E') {
		if e++; e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
			e++
		}
		if e < len(rest) && rest[e] >= '0' && rest[e] <= '9' {
			n, kind = digits(e), floatToken
		}
	}
	l.add(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.at += n
	return nil
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// stringLiteral reads a literal with the escapes of Python.
func (l *lexer) stringLiteral(quote byte) error {
	var b strings.Builder
	s, line := l.source, l.line
	for i := l.at + 1; i < len(s); {
		switch c := s[i]; {
		case c == quote:
			l.add(stringToken, b.String())
			l.line = line + strings.Count(s[l.at:i], "\n")
			l.at = i + 1
			return nil
		case c == '\\' && i+1 < len(s):
			n, err := unescape(&b, s[i:])
			if err != nil {
				return err
			}
			i += n
		default:
			b.WriteByte(c)
			i++
		}
	}
	return fmt.Errorf("a string is not closed")
}

var simpleEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': "\"",
	'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// unescape writes what the escape at the start of s stands for and returns
// its length. An escape that is none stays as it is.
func unescape(b *strings.Builder, s string) (int, error) {
	c := s[1]
	if plain, ok := simpleEscapes[c]; ok {
		b.WriteString(plain)
		return 2, nil
	}
	digits, base, from := 0, 16, 2
	switch {
	case c == 'x':
		digits = 2
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case c == 'N':
		return 0, fmt.Errorf(`the escape \N is not supported`)
	case c >= '0' && c <= '7':
		base, from = 8, 1
		for digits < 3 && from+digits < len(s) && s[from+digits] >= '0' && s[from+digits] <= '7' {
			digits++
		}
	default:
		b.WriteString(s[:1])
		return 1, nil
	}
	if from+digits <= len(s) {
		n, err := strconv.ParseUint(s[from:from+digits], base, 32)
		if err == nil && utf8.ValidRune(rune(n)) {
			b.WriteRune(rune(n))
			return from + digits, nil
		}
	}
	return 0, fmt.Errorf("the escape %.10q is no character", s)
}

// IsSpace tells what str.strip() and \s of Python take for white space.
func IsSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F
}
