package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// filterFunctions are the filters of jinja2, but those for web pages.
var filterFunctions map[string]func(r *run, of Value, a passed) Value

func init() { // the filters that take filters refer back to the map
	filterFunctions = map[string]func(r *run, of Value, a passed) Value{
		"abs": absFilter, "attr": attrFilter, "capitalize": textFilter(capitalize), "center": centerFilter,
		"count": lengthFilter, "length": lengthFilter, "d": defaultFilter, "default": defaultFilter,
		"safe":  safeFilter,
		"float": floatFilter, "format": formatFilter, "indent": indentFilter, "int": intFilter,
		"join": joinFilter, "lower": textFilter(lowered), "replace": replaceFilter, "round": roundFilter,
		"string": textFilter(func(s string) string { return s }), "title": textFilter(titled), "tojson": toJSON,
		"trim": trimFilter, "truncate": truncateFilter, "upper": textFilter(raised), "wordcount": wordCountFilter,

		"batch": batchFilter, "dictsort": dictSortFilter, "first": firstFilter, "groupby": groupByFilter,
		"items": itemsFilter, "last": lastFilter, "list": listFilter, "map": mapFilter, "max": extremeFilter(1),
		"min": extremeFilter(-1), "reject": selectFilter(false, false), "rejectattr": selectFilter(false, true),
		"reverse": reverseFilter, "select": selectFilter(true, false), "selectattr": selectFilter(true, true),
		"slice": sliceFilter, "sort": sortFilter, "sum": sumFilter, "unique": uniqueFilter,
	}
}

func textFilter(change func(string) string) func(*run, Value, passed) Value {
	return func(r *run, of Value, a passed) Value {
		a.bind("the filter")
		return r.str(change(r.text(of)))
	}
}

// raised is str.upper(), which may make several letters of one.
func raised(s string) string {
	if ascii(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

// lowered is str.lower(): Go's, but for the dotted capital I and the final sigma.
func lowered(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	runes := []rune(s)
	for i := range runes {
		b.WriteString(lowerAt(runes, i))
	}
	return b.String()
}

// lowerAt is the small form of one character of a text.
func lowerAt(runes []rune, i int) string {
	switch c := runes[i]; {
	case c == 'İ':
		return "i̇"
	case c == 'Σ' && i > 0 && unicode.IsLetter(runes[i-1]) && (i+1 == len(runes) || !unicode.IsLetter(runes[i+1])):
		return "ς"
	default:
		return string(unicode.ToLower(c))
	}
}

func capitalize(s string) string {
	runes := []rune(s)
	if len(runes) == 0 {
		return s
	}
	var b strings.Builder
	// A letter without one capital has several, of which the first stays: Ss.
	if several := []rune(raised(string(runes[:1]))); len(several) > 1 {
		b.WriteString(string(several[0]) + lowered(string(several[1:])))
	} else {
		b.WriteRune(unicode.ToTitle(runes[0]))
	}
	for i := 1; i < len(runes); i++ {
		b.WriteString(lowerAt(runes, i))
	}
	return b.String()
}

// titled is the filter title: words begin behind white space and - ( { [ <.
func titled(s string) string {
	var b strings.Builder
	start := true
	for _, c := range s {
		switch {
		case IsSpace(c) || strings.ContainsRune("-({[<", c):
			start = true
			b.WriteRune(c)
		case start:
			start = false
			b.WriteString(raised(string(c)))
		default:
			b.WriteString(lowered(string(c)))
		}
	}
	return b.String()
}

func absFilter(_ *run, of Value, a passed) Value {
	a.bind("abs")
	switch of := of.(type) {
	case int64:
		return max(of, -of)
	case bool:
		return boolInt(of)
	case float64:
		return math.Abs(of)
	}
	fail("bad operand type for abs(): '%s'", typeName(of))
	return nil
}

func attrFilter(_ *run, of Value, a passed) Value {
	name := stringOf("attr", must("attr", "name", a.bind("attr", "name")[0]))
	if u, ok := of.(*undefined); ok {
		fail("%s", u.message)
	}
	if v, ok := ownAttribute(of, name); ok {
		return v
	}
	return lacking(of, name)
}

func centerFilter(r *run, of Value, a passed) Value {
	width := wholeOr("center", a.bind("center", "width")[0], 80)
	return r.padded(r.text(of), width, " ", func(room, width int) int { return room/2 + room&width&1 })
}

// padded fills s up to a width; left says how much of the room goes left.
func (r *run) padded(s string, width int, fill string, left func(room, width int) int) Value {
	if utf8.RuneCountInString(fill) != 1 {
		fail("the fill character must be exactly one character long")
	}
	room := width - utf8.RuneCountInString(s)
	if room <= 0 {
		return s
	}
	r.fits(len(s) + room*len(fill))
	n := left(room, width)
	return r.str(strings.Repeat(fill, n) + s + strings.Repeat(fill, room-n))
}

func lengthFilter(_ *run, of Value, a passed) Value {
	a.bind("length")
	switch of := of.(type) {
	case string:
		return int64(utf8.RuneCountInString(of))
	case *List:
		if of.kind != generatorList {
			return int64(len(of.Items))
		}
	case *Dict:
		return int64(len(of.keys))
	case *loopState:
		return int64(len(of.items))
	case *undefined:
		return int64(0)
	}
	fail("object of type '%s' has no len()", typeName(of))
	return nil
}

func defaultFilter(_ *run, of Value, a passed) Value {
	p := a.bind("default", "default_value", "boolean")
	if _, ok := of.(*undefined); ok || truthOr(p[1], false) && !truth(of) {
		if p[0] == absent {
			return ""
		}
		return p[0]
	}
	return of
}

// parsed is a text as a float, with Python's white space and underscores.
func parsed(s string) (float64, bool) {
	s = plainDigits(strings.TrimFunc(s, IsSpace))
	if strings.ContainsAny(s, "xXpP") { // hexadecimal only in Go
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// plainDigits writes the digits of other scripts as 0 to 9.
func plainDigits(s string) string {
	if ascii(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		for _, digits := range unicode.Nd.R16 { // runs of ten, from zero on
			if c >= rune(digits.Lo) && c <= rune(digits.Hi) {
				return '0' + (c-rune(digits.Lo))%10
			}
		}
		for _, digits := range unicode.Nd.R32 {
			if c >= rune(digits.Lo) && c <= rune(digits.Hi) {
				return '0' + (c-rune(digits.Lo))%10
			}
		}
		return c
	}, s)
}

func floatFilter(_ *run, of Value, a passed) Value {
	otherwise := a.bind("float", "default")[0]
	if otherwise == absent {
		otherwise = 0.0
	}
	switch of := of.(type) {
	case string:
		if f, ok := parsed(of); ok {
			return f
		}
	case *undefined:
		fail("%s", of.message)
	default:
		if f, ok := number(of); ok {
			return f
		}
	}
	return otherwise
}

func intFilter(_ *run, of Value, a passed) Value {
	p := a.bind("int", "default", "base")
	otherwise, base := p[0], wholeOr("int", p[1], 10)
	if otherwise == absent {
		otherwise = int64(0)
	}
	var f float64
	switch of := of.(type) {
	case string:
		s := plainDigits(strings.TrimFunc(of, IsSpace))
		if base == 16 {
			s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
		}
		if n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), base, 64); err == nil {
			return n
		}
		var ok bool
		if f, ok = parsed(of); !ok {
			return otherwise
		}
	case float64:
		f = of
	case *undefined:
		fail("%s", of.message)
	default:
		if n, ok := wholeNumber(of); ok {
			return n
		}
		return otherwise
	}
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return otherwise
	case math.Abs(f) >= 1<<63:
		fail("the number %s is too large", floatText(f))
	}
	return int64(f)
}

func formatFilter(r *run, of Value, a passed) Value {
	if len(a.named) > 0 {
		fail("format with keywords is not supported")
	}
	return r.str(r.format(r.text(of), &List{Items: a.positional, kind: tupleList}))
}

func indentFilter(r *run, of Value, a passed) Value {
	p := a.bind("indent", "width", "first", "blank")
	s := stringOf("indent", of)
	width, ok := p[0].(string)
	if !ok {
		n := max(wholeOr("indent", p[0], 4), 0)
		r.fits(n)
		width = strings.Repeat(" ", n)
	}
	first, blank := truthOr(p[1], false), truthOr(p[2], false)
	lines := r.splitLines(s+"\n", false)
	r.fits(len(s) + len(lines)*(len(width)+1))
	for i, line := range lines {
		if i == 0 && first || i > 0 && (blank || line != "") {
			lines[i] = width + line
		}
	}
	return r.str(strings.Join(lines, "\n"))
}

// splitLines is str.splitlines().
func (r *run) splitLines(s string, keep bool) []string {
	var lines []string
	for s != "" {
		r.fits(element * len(lines))
		end := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if end < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[end:])
		if strings.HasPrefix(s[end:], "\r\n") {
			n = 2
		}
		if keep {
			lines = append(lines, s[:end+n])
		} else {
			lines = append(lines, s[:end])
		}
		s = s[end+n:]
	}
	return lines
}

func joinFilter(r *run, of Value, a passed) Value {
	p := a.bind("join", "d", "attribute")
	sep := ""
	if p[0] != absent {
		sep = r.text(p[0])
	}
	items := r.items(of)
	if p[1] != absent && p[1] != nil {
		items = r.mapped(items, r.getter(p[1], absent))
	}
	return r.joined(items, sep, false)
}

// joined puts items together; only strings if strict.
func (r *run) joined(items []Value, sep string, strict bool) Value {
	var b strings.Builder
	for i, item := range items {
		if strict && !isString(item) {
			fail("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
		part := r.text(item)
		r.fits(b.Len() + len(sep) + len(part))
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(part)
	}
	return r.str(b.String())
}

func replaceFilter(r *run, of Value, a passed) Value {
	p := a.bind("replace", "old", "new", "count")
	old, with := r.text(must("replace", "old", p[0])), r.text(must("replace", "new", p[1]))
	return r.replaced(r.text(of), old, with, wholeOr("replace", p[2], -1))
}

func (r *run) replaced(s, old, with string, count int) Value {
	found := strings.Count(s, old)
	if count >= 0 {
		found = min(found, count)
	}
	if found > 0 && len(with) > 0 && found > r.size/len(with) {
		fail("a text exceeds %d bytes", r.size)
	}
	return r.str(strings.Replace(s, old, with, count))
}

func roundFilter(_ *run, of Value, a passed) Value {
	p := a.bind("round", "precision", "method")
	precision, method := wholeOr("round", p[0], 0), stringOr("round", p[1], "common")
	if u, ok := of.(*undefined); ok {
		fail("%s", u.message)
	}
	f, ok := number(of)
	if !ok {
		fail("type %s doesn't define __round__ method", typeName(of))
	}
	if precision > 300 || precision < -300 {
		fail("rounding to %d digits is not supported", precision)
	}
	scale := math.Pow10(precision)
	switch method {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	case "common":
		if n, ok := wholeNumber(of); ok {
			if precision < 0 {
				fail("rounding an int to tens is not supported")
			}
			return n
		}
		if precision < 0 {
			return math.RoundToEven(f*scale) / scale
		}
		// The nearest decimal, as Python has it: exact, ties to even.
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		if err != nil {
			fail("rounding %s: %w", floatText(f), err)
		}
		return rounded
	}
	fail("method must be common, ceil or floor")
	return nil
}

func trimFilter(r *run, of Value, a passed) Value {
	chars := a.bind("trim", "chars")[0]
	return r.str(stripped(r.text(of), chars, true, true))
}

// stripped is str.strip(chars), of one end or both.
func stripped(s string, chars Value, left, right bool) string {
	cut := IsSpace
	if chars != absent && chars != nil {
		set := stringOf("strip", chars)
		cut = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

func truncateFilter(r *run, of Value, a passed) Value {
	p := a.bind("truncate", "length", "killwords", "end", "leeway")
	length, end, leeway := wholeOr("truncate", p[0], 255), stringOr("truncate", p[2], "..."), wholeOr("truncate", p[3], 5)
	tail := utf8.RuneCountInString(end)
	switch {
	case length < tail:
		fail("expected length >= %d, got %d", tail, length)
	case leeway < 0:
		fail("expected leeway >= 0, got %d", leeway)
	case lengthFilter(r, of, passed{}).(int64) <= int64(length+leeway):
		return of
	}
	s := string([]rune(stringOf("truncate", of))[:length-tail])
	if !truthOr(p[1], false) {
		if cut := strings.LastIndexByte(s, ' '); cut >= 0 {
			s = s[:cut]
		}
	}
	return r.str(s + end)
}

func wordCountFilter(r *run, of Value, a passed) Value {
	a.bind("wordcount")
	words, inside := int64(0), false
	for _, c := range r.text(of) {
		letter := c == '_' || unicode.In(c, unicode.L, unicode.N)
		if letter && !inside {
			words++
		}
		inside = letter
	}
	return words
}
