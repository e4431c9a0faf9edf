package grammar

import "unicode/utf8"

// byteRange is a range of bytes at one place of an encoded character.
type byteRange struct{ lo, hi byte }

// lastOf are the highest characters of each length, and around the surrogates, which are none.
var lastOf = []rune{0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF, 0x10FFFF}

// runeClass is one character of ranges, each written as its first and last one, in UTF-8.
func runeClass(ranges []rune) *expr {
	var single byteSet
	var kids []*expr
	for i := 0; i+1 < len(ranges); i += 2 {
		for _, s := range spelledRanges(ranges[i], ranges[i+1]) {
			if len(s) == 1 {
				single.add(s[0].lo, s[0].hi)
				continue
			}
			var bytes []*expr
			for _, r := range s {
				bytes = append(bytes, chars(string([]byte{r.lo, r.hi})))
			}
			kids = append(kids, seq(bytes...))
		}
	}
	if single != (byteSet{}) {
		kids = append([]*expr{{op: opSet, set: single}}, kids...)
	}
	return alt(kids...)
}

// spelledRanges are the byte sequences that spell the characters from lo to hi.
func spelledRanges(lo, hi rune) (out [][]byteRange) {
	from := rune(0)
	for _, last := range lastOf {
		a, b := max(lo, from), min(hi, last)
		from = last + 1
		if a > b || last == 0xDFFF {
			continue
		}
		out = appendSpelled(out, nil, utf8.AppendRune(nil, a), utf8.AppendRune(nil, b))
	}
	return out
}

// appendSpelled appends the sequences between two of one length, behind a beginning that they share.
func appendSpelled(out [][]byteRange, begin []byteRange, lo, hi []byte) [][]byteRange {
	with := func(r byteRange) []byteRange { return append(begin[:len(begin):len(begin)], r) }
	switch {
	case len(lo) == 0:
		return append(out, begin)
	case lo[0] == hi[0]:
		return appendSpelled(out, with(byteRange{lo[0], lo[0]}), lo[1:], hi[1:])
	}
	least, most := make([]byte, len(lo)-1), make([]byte, len(lo)-1)
	lows, highs := true, true // all behind the first byte is the least, the most
	for i := range least {
		least[i], most[i] = 0x80, 0xBF
		lows, highs = lows && lo[i+1] == 0x80, highs && hi[i+1] == 0xBF
	}
	a, b := int(lo[0]), int(hi[0])
	if !lows {
		out = appendSpelled(out, with(byteRange{lo[0], lo[0]}), lo[1:], most)
		a++
	}
	if !highs {
		b--
	}
	if a <= b {
		mid := with(byteRange{byte(a), byte(b)})
		for range least {
			mid = append(mid[:len(mid):len(mid)], byteRange{0x80, 0xBF})
		}
		out = append(out, mid)
	}
	if !highs {
		out = appendSpelled(out, with(byteRange{hi[0], hi[0]}), least, hi[1:])
	}
	return out
}

// without is a sorted list of ranges without one character.
func without(ranges []rune, r rune) []rune {
	var out []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if r < lo || r > hi {
			out = append(out, lo, hi)
			continue
		}
		if lo < r {
			out = append(out, lo, r-1)
		}
		if r < hi {
			out = append(out, r+1, hi)
		}
	}
	return out
}

// inside tells whether ranges have a character.
func inside(ranges []rune, r rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}

// shortEscapes are the characters that JSON has a short spelling for.
var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// jsonRune is how a character is spelled in a JSON text, where each has one spelling.
func jsonRune(r rune) string {
	const hex = "0123456789abcdef"
	if s, ok := shortEscapes[r]; ok {
		return s
	}
	if r < 0x20 {
		return `\u00` + string([]byte{hex[r>>4], hex[r&15]})
	}
	return string(r)
}

// jsonText is a text as jsonRune spells it, without quotes.
func jsonText(s string) string {
	var out []byte
	for _, r := range s {
		out = append(out, jsonRune(r)...)
	}
	return string(out)
}

// jsonClass is one character of ranges as jsonRune spells it.
func jsonClass(ranges []rune) *expr {
	plain, escaped := ranges, []*expr(nil)
	for r := rune(0); r <= '\\'; r++ {
		if r >= 0x20 && r != '"' && r != '\\' || !inside(ranges, r) {
			continue
		}
		plain = without(plain, r)
		escaped = append(escaped, text(jsonRune(r)))
	}
	return alt(append([]*expr{runeClass(plain)}, escaped...)...)
}
