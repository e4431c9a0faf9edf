package tokenizer

import (
	"errors"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// A mark is a private-use character put behind the first character of what
// must not become a special token. Marks let that knowledge travel through a
// chat template and a normaliser, which only know text.

const (
	firstMark = 0xF0000 // where the private-use planes begin
	marks     = utf8.MaxRune + 1 - firstMark
)

// markSet is which private-use characters texts have. It is made in one pass: a text may
// have all of them.
type markSet [marks / 64]uint64

func (m *markSet) add(s string) {
	for _, r := range s {
		if r >= firstMark {
			m[(r-firstMark)/64] |= 1 << ((r - firstMark) % 64)
		}
	}
}

// unused returns a private-use character that no text has.
func (m *markSet) unused() (rune, error) {
	for i, word := range m {
		if word != math.MaxUint64 {
			return rune(firstMark + 64*i + bits.TrailingZeros64(^word)), nil
		}
	}
	return 0, errors.New("the text has every private-use character, and none is left to mark it with")
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
