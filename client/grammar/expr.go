package grammar

import (
	"math/bits"
	"slices"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) size() int {
	return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) + bits.OnesCount64(s[2]) + bits.OnesCount64(s[3])
}

// first is the lowest byte of a set that is not empty.
func (s *byteSet) first() byte {
	for i, w := range s {
		if w != 0 {
			return byte(64*i + bits.TrailingZeros64(w))
		}
	}
	return 0
}

func (s *byteSet) join(t *byteSet) {
	for i := range s {
		s[i] |= t[i]
	}
}

type op uint8

const (
	opSet    op = iota // a byte of a set; of the empty set: nothing is admitted
	opText             // these bytes
	opSeq              // kids, one after another; without any: the empty text
	opAlt              // one of kids; without any: nothing is admitted
	opRepeat           // the kid, min to max times; max -1 is any number
	opCall             // what a rule admits
	opUntil            // any bytes, to the end of the first occurrence of text
)

// expr is a set of byte strings. It is never changed once made.
type expr struct {
	op       op
	set      byteSet
	text     string
	kids     []*expr
	min, max int
	rule     int
}

var (
	nothing = &expr{op: opSeq} // the empty text
	never   = &expr{op: opAlt} // no text at all
)

func text(s string) *expr { return &expr{op: opText, text: s} }

func seq(kids ...*expr) *expr {
	if slices.Contains(kids, never) {
		return never
	}
	if len(kids) == 1 {
		return kids[0]
	}
	return &expr{op: opSeq, kids: kids}
}

func alt(kids ...*expr) *expr {
	kids = slices.DeleteFunc(slices.Clone(kids), func(e *expr) bool { return e == never })
	switch len(kids) {
	case 0:
		return never
	case 1:
		return kids[0]
	}
	return &expr{op: opAlt, kids: kids}
}

func repeat(e *expr, min, max int) *expr {
	switch {
	case max >= 0 && min > max, e == never && min > 0:
		return never
	case max == 0, e == never:
		return nothing
	case min == 1 && max == 1:
		return e
	}
	return &expr{op: opRepeat, kids: []*expr{e}, min: min, max: max}
}

func maybe(e *expr) *expr { return repeat(e, 0, 1) }

// chars is one byte of ranges, each written as its first and last byte.
func chars(ranges string) *expr {
	e := &expr{op: opSet}
	for i := 0; i < len(ranges); i += 2 {
		e.set.add(ranges[i], ranges[i+1])
	}
	return e
}

// digits are so many of them.
func digits(min, max int) *expr { return repeat(chars("09"), min, max) }
