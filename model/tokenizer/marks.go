package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A mark is a private-use character put behind the first character of what
// must not become a special token. Marks let that knowledge travel through a
// chat template and a normaliser, which only know text.

// unusedRune returns a private-use character that occurs in none of the texts.
func unusedRune(texts ...string) rune {
	for r := rune(0xF0000); ; r++ { // 65,536 of them, then 65,536 more
		used := false
		for _, s := range texts {
			used = used || strings.ContainsRune(s, r)
		}
		if !used || r == utf8.MaxRune {
			return r
		}
	}
}

// withMarks puts a mark behind the character at each offset of barred, which
// ascend.
func withMarks(s string, barred []int, mark rune) string {
	var b strings.Builder
	done := 0
	for _, at := range barred {
		_, n := utf8.DecodeRuneInString(s[at:])
		b.WriteString(s[done : at+n])
		b.WriteRune(mark)
		done = at + n
	}
	b.WriteString(s[done:])
	return b.String()
}

// withoutMarks takes the marks out and returns the offsets of the characters
// they stood behind.
func withoutMarks(s string, mark rune) (text string, barred []int) {
	if !strings.ContainsRune(s, mark) {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	last := -1 // offset of the character before
	for _, r := range s {
		if r != mark {
			last = len(out)
			out = utf8.AppendRune(out, r)
			continue
		}
		if last >= 0 && (len(barred) == 0 || barred[len(barred)-1] != last) {
			barred = append(barred, last)
		}
	}
	return string(out), barred
}
