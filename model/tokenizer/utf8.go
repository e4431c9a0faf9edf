package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// sequenceAt looks at the UTF-8 sequence at the start of b, which is not
// empty. It returns its length and whether it is a whole character. When it
// is not, n is the length of the maximal subpart that one replacement
// character stands for (Unicode chapter 3, "U+FFFD substitution of maximal
// subparts"), and cut says that b ended inside a sequence that more bytes
// could still make whole.
func sequenceAt(b []byte) (n int, whole, cut bool) {
	c := b[0]
	if c < utf8.RuneSelf {
		return 1, true, false
	}
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch {
	case c >= 0xC2 && c <= 0xDF:
		need = 2
	case c >= 0xE0 && c <= 0xEF:
		need = 3
		switch c {
		case 0xE0:
			low = 0xA0
		case 0xED: // surrogates are not characters
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 4
		switch c {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	default:
		return 1, false, false
	}
	for n = 1; n < need; n++ {
		if n == len(b) {
			return n, false, true
		}
		if b[n] < low || b[n] > high {
			return n, false, false
		}
		low, high = 0x80, 0xBF
	}
	return need, true, false
}

// appendLossy appends b to dst as valid UTF-8, one U+FFFD for each maximal
// subpart that is not a character. Unless final is set, a sequence cut off at
// the end of b is left alone; rest is what was left.
func appendLossy(dst, b []byte, final bool) (out, rest []byte) {
	for len(b) > 0 {
		n, whole, cut := sequenceAt(b)
		switch {
		case whole:
			dst = append(dst, b[:n]...)
		case cut && !final:
			return dst, b
		default:
			dst = append(dst, "\uFFFD"...)
		}
		b = b[n:]
	}
	return dst, nil
}

// validText returns s with everything that is not UTF-8 replaced.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		n, whole, _ := sequenceAt([]byte(s[i:min(i+utf8.UTFMax, len(s))]))
		if whole {
			b.WriteString(s[i : i+n])
		} else {
			b.WriteRune(utf8.RuneError)
		}
		i += n
	}
	return b.String()
}
