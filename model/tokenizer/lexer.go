package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The jinja library takes a template as it comes: it has no limit on loops,
// recursion or sizes, and it gets white space between tags wrong where two
// tags meet. So a template is read here first, with the white-space rules of
// the reference (trim_blocks and lstrip_blocks on, one trailing newline
// dropped), and written again by guard.go: text becomes string literals, and
// every loop, macro, output and assignment reports to the budget of a render.

// chunkKind says what a chunk of a template is.
type chunkKind uint8

const (
	textChunk chunkKind = iota
	outputChunk
	statementChunk
)

// chunk is a text or the inside of a tag.
type chunk struct {
	kind   chunkKind
	text   string  // of a textChunk
	tokens []token // of the others
	line   int
}

type tokenKind uint8

const (
	nameToken tokenKind = iota
	numberToken
	stringToken // text is what the literal stands for
	operatorToken
)

type token struct {
	kind tokenKind
	text string
}

func (t token) is(text string) bool { return t.kind != stringToken && t.text == text }

// templateLexer walks over the source of a template.
type templateLexer struct {
	source string
	at     int
	line   int
	chunks []chunk
	// lineStart says that the tag before swallowed its line break: what
	// follows begins a line.
	lineStart bool
	trimNext  bool // the tag before ended in a minus
}

// lexTemplate cuts a template into texts and tags. Comments are dropped.
func lexTemplate(source string) ([]chunk, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &templateLexer{source: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.at < len(l.source) {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("chat template, line %d: %w", l.line, err)
		}
	}
	return l.chunks, nil
}

// next reads the text up to a tag, and the tag.
func (l *templateLexer) next() error {
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
		return l.tag(outputChunk, "}}")
	}
	return l.tag(statementChunk, "%}")
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
func (l *templateLexer) trimBefore(text string, kind, sign byte) string {
	if l.trimNext {
		text = strings.TrimLeftFunc(text, pythonSpace)
	}
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, pythonSpace)
	case sign != '+' && kind != '{':
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], pythonSpace) == "" {
			return text[:start]
		}
	}
	return text
}

func (l *templateLexer) addText(text string) {
	if l.trimNext {
		text = strings.TrimLeftFunc(text, pythonSpace)
		l.trimNext = false
	}
	l.lineStart = false
	if text != "" {
		l.chunks = append(l.chunks, chunk{kind: textChunk, text: text, line: l.line})
	}
}

func (l *templateLexer) comment() error {
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
func (l *templateLexer) closeTag(sign byte, block bool) {
	l.trimNext = sign == '-'
	if block && sign != '-' && sign != '+' && strings.HasPrefix(l.source[l.at:], "\n") {
		l.at++
		l.line++
		l.lineStart = true
	}
}

// tag reads the inside of a tag up to its end.
func (l *templateLexer) tag(kind chunkKind, end string) error {
	c := chunk{kind: kind, line: l.line}
	depth := 0
	for {
		l.skipSpace()
		if l.at >= len(l.source) {
			return fmt.Errorf("a tag is not closed with %s", end)
		}
		rest := l.source[l.at:]
		if depth == 0 {
			sign := byte(0)
			if (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], end) {
				sign = rest[0]
				rest = rest[1:]
			}
			if strings.HasPrefix(rest, end) {
				l.at = len(l.source) - len(rest) + len(end)
				l.closeTag(sign, kind == statementChunk)
				break
			}
		}
		t, err := l.token()
		if err != nil {
			return err
		}
		switch {
		case t.kind == operatorToken && strings.Contains("([{", t.text):
			depth++
		case t.kind == operatorToken && strings.Contains(")]}", t.text):
			depth--
		}
		if depth < 0 || depth > maxBrackets {
			return fmt.Errorf("brackets are closed too often, or nested more than %d deep", maxBrackets)
		}
		if n := len(c.tokens); t.kind == stringToken && n > 0 && c.tokens[n-1].kind == stringToken {
			c.tokens[n-1].text += t.text // 'a' 'b' is one literal
			continue
		}
		c.tokens = append(c.tokens, t)
	}
	if kind == statementChunk && len(c.tokens) == 1 && c.tokens[0].is("raw") {
		return l.raw()
	}
	l.chunks = append(l.chunks, c)
	return nil
}

// raw reads up to {% endraw %}, all of it text.
func (l *templateLexer) raw() error {
	for from := l.at; ; {
		n := strings.Index(l.source[from:], "{%")
		if n < 0 {
			return fmt.Errorf("a raw block is not closed")
		}
		open := from + n
		from = open + 2
		body, sign := strings.TrimLeft(l.source[from:], " \t\n"), byte(0)
		if tail := l.source[from:]; tail != "" && (tail[0] == '-' || tail[0] == '+') {
			sign = tail[0]
			body = strings.TrimLeft(tail[1:], " \t\n")
		}
		body, ok := strings.CutPrefix(body, "endraw")
		if !ok {
			continue
		}
		body = strings.TrimLeft(body, " \t\n")
		endSign := byte(0)
		if body != "" && (body[0] == '-' || body[0] == '+') {
			endSign = body[0]
			body = body[1:]
		}
		if body, ok = strings.CutPrefix(body, "%}"); !ok {
			continue
		}
		text := l.source[l.at:open]
		l.addText(l.trimBefore(text, '%', sign))
		l.at = len(l.source) - len(body)
		l.line += strings.Count(text, "\n")
		l.closeTag(endSign, true)
		return nil
	}
}

func (l *templateLexer) skipSpace() {
	for l.at < len(l.source) {
		r, n := utf8.DecodeRuneInString(l.source[l.at:])
		if !pythonSpace(r) {
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
func (l *templateLexer) token() (token, error) {
	rest := l.source[l.at:]
	c := rest[0]
	switch {
	case c == '\'' || c == '"':
		return l.stringLiteral(c)
	case c >= '0' && c <= '9':
		n := 1
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.' && n+1 < len(rest) && rest[n+1] >= '0' && rest[n+1] <= '9') {
			n++
		}
		l.at += n
		return token{numberToken, rest[:n]}, nil
	case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		n := 1
		for n < len(rest) && (rest[n] == '_' || rest[n] < utf8.RuneSelf && (unicode.IsLetter(rune(rest[n])) || unicode.IsDigit(rune(rest[n])))) {
			n++
		}
		l.at += n
		return token{nameToken, rest[:n]}, nil
	}
	for _, op := range twoCharOperators {
		if strings.HasPrefix(rest, op) {
			l.at += 2
			return token{operatorToken, op}, nil
		}
	}
	if !strings.ContainsRune("+-*/%~<>=()[]{},.:|", rune(c)) {
		return token{}, fmt.Errorf("unexpected character %q", c)
	}
	l.at++
	return token{operatorToken, rest[:1]}, nil
}

// stringLiteral reads a literal with the escapes of Python.
func (l *templateLexer) stringLiteral(quote byte) (token, error) {
	var b strings.Builder
	s := l.source
	for i := l.at + 1; i < len(s); {
		switch c := s[i]; {
		case c == quote:
			l.line += strings.Count(s[l.at:i], "\n")
			l.at = i + 1
			return token{stringToken, b.String()}, nil
		case c == '\\' && i+1 < len(s):
			i += unescape(&b, s[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	return token{}, fmt.Errorf("a string is not closed")
}

var simpleEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"',
	'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v'}

// unescape writes what the escape at the start of s stands for and returns
// its length. An escape that is none stays as it is.
func unescape(b *strings.Builder, s string) int {
	c := s[1]
	if plain, ok := simpleEscapes[c]; ok {
		b.WriteByte(plain)
		return 2
	}
	digits, base := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], 16
	from := 2
	if c >= '0' && c <= '7' {
		base, from = 8, 1
		for digits < 3 && from+digits < len(s) && s[from+digits] >= '0' && s[from+digits] <= '7' {
			digits++
		}
	}
	if c == '\n' {
		return 2
	}
	if digits > 0 && from+digits <= len(s) {
		if n, err := strconv.ParseUint(s[from:from+digits], base, 32); err == nil && n <= utf8.MaxRune {
			b.WriteRune(rune(n))
			return from + digits
		}
	}
	b.WriteString(s[:2])
	return 2
}

// pythonSpace is what str.strip() and \s of Python take for white space.
func pythonSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F
}
