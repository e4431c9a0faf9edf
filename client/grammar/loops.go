package grammar

import "unicode/utf8"

// kinds are sets of kinds of bytes, a bit each. Most of a vocabulary is text, which leads from the
// inside of a JSON string back to where it was: a walk takes all tokens of such bytes at once.
type kinds uint16

const (
	wholeRunes  kinds = 1 << 14 // characters beyond ASCII, from their first byte to their last
	brokenRunes kinds = 1 << 15 // other bytes beyond ASCII: nothing leads back by them for certain
)

// asciiKinds are the other kinds.
var asciiKinds = [...]string{
	"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "\t\n\r", `"`, `\`, "{}", "[]", ",:", "-+._", "!#$%&'()*/;<=>?@^`|~",
	"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f",
}

var kindOf = func() (out [utf8.RuneSelf]kinds) {
	for i, bytes := range asciiKinds {
		for k := range len(bytes) {
			out[bytes[k]] = 1 << i
		}
	}
	return out
}()

// kindsBehind are the kinds of the bytes of a token behind each number of its first ones.
func kindsBehind(s string) []kinds {
	out := make([]kinds, len(s)+1)
	inside := make([]bool, len(s)+1) // a character
	size := make([]int, len(s))
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		size[i] = n
		for k := 1; k < n; k++ {
			inside[i+k] = true
		}
		i += n
	}
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] < utf8.RuneSelf:
			out[i] = kindOf[s[i]] | out[i+1]
		case inside[i] || size[i] == 1:
			out[i] = brokenRunes | out[i+1]
		default:
			out[i] = wholeRunes | out[i+size[i]]
		}
	}
	return out
}

// manyNodes is how many nodes are worth a look at where a state's bytes lead.
const manyNodes = 24

// loopsOf are the kinds of bytes that lead from a state back to it; fewer where that would take too
// much work to find out.
func (t *tables) loopsOf(s *state) kinds {
	if s.looked {
		return s.loops
	}
	s.looked = true
	if s == dead {
		return 0
	}
	for i, bytes := range asciiKinds {
		all := true
		for k := 0; k < len(bytes) && all; k++ {
			all = t.leads(s, bytes[k]) == s
		}
		if all {
			s.loops |= 1 << i
		}
	}
	if s.loops != 0 && t.takesRunes(s) {
		s.loops |= wholeRunes
	}
	return s.loops
}

// leads is where a byte leads, nil where that is not to be found out.
func (t *tables) leads(s *state, b byte) *state {
	if s == nil {
		return nil
	}
	to, err := t.step(s, b)
	if err != nil {
		return nil
	}
	return to
}

// takesRunes tells whether every character beyond ASCII leads from a state back to it.
func (t *tables) takesRunes(s *state) bool {
	type place struct {
		at     *state
		lo, hi byte
		more   int
	}
	seen := map[place]bool{}
	var all func(p place) bool
	all = func(p place) bool {
		if done, ok := seen[p]; ok {
			return done
		}
		seen[p] = true
		for b := int(p.lo); b <= int(p.hi); b++ {
			to := t.leads(p.at, byte(b))
			if p.more > 0 {
				if to == nil || to == dead || !all(place{to, 0x80, 0xBF, p.more - 1}) {
					seen[p] = false
					return false
				}
			} else if to != s {
				seen[p] = false
				return false
			}
		}
		return true
	}
	for lead := 0xC2; lead <= 0xF4; lead++ {
		p := place{t.leads(s, byte(lead)), 0x80, 0xBF, 0}
		switch {
		case lead == 0xE0:
			p.lo = 0xA0
		case lead == 0xED:
			p.hi = 0x9F
		case lead == 0xF0:
			p.lo = 0x90
		case lead == 0xF4:
			p.hi = 0x8F
		}
		if lead >= 0xE0 {
			p.more++
		}
		if lead >= 0xF0 {
			p.more++
		}
		if p.at == nil || p.at == dead || !all(p) {
			return false
		}
	}
	return true
}
