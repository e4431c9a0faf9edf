package tokenizer

import (
	"sort"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is cut out of the text before the model sees it.
type addedToken struct {
	id         int32
	content    string
	special    bool // a control token: matched only where the caller allows it
	normalized bool // matched in normalised text, not in the raw one
	singleWord bool // only between word boundaries
	lstrip     bool // takes the white space on its left along
	rstrip     bool
}

// piece is a part of a text on its way to ids.
type piece struct {
	text string
	// atStart says that the piece begins where the whole text begins: some
	// pre-tokenizers put their space only there.
	atStart bool
	// token is the id of an added token, or -1 for text.
	token int32
	// barred are the ascending offsets in text at which no special token may
	// start, because the characters there came from a user.
	barred []int
}

// matcher finds added tokens, leftmost first and longest among those that
// start at one place. It is a trie over bytes.
type matcher struct {
	nodes  []trieNode
	root   [256]int32 // child of the root, 0 for none
	tokens []addedToken
}

type trieNode struct {
	token int32 // index into tokens, -1
	edges []trieEdge
}

type trieEdge struct {
	label byte
	to    int32
}

// newMatcher builds a matcher. patterns[i] is what token i looks like in the
// text to search; of two equal patterns the first wins.
func newMatcher(tokens []addedToken, patterns []string) *matcher {
	m := &matcher{nodes: []trieNode{{token: -1}}, tokens: tokens}
	for i, pattern := range patterns {
		if pattern == "" {
			continue
		}
		at := int32(0)
		for j := 0; j < len(pattern); j++ {
			next := m.child(at, pattern[j])
			if next == 0 {
				next = int32(len(m.nodes))
				m.nodes = append(m.nodes, trieNode{token: -1})
				m.nodes[at].edges = append(m.nodes[at].edges, trieEdge{pattern[j], next})
				if at == 0 {
					m.root[pattern[j]] = next
				}
			}
			at = next
		}
		if m.nodes[at].token < 0 {
			m.nodes[at].token = int32(i)
		}
	}
	return m
}

func (m *matcher) child(at int32, label byte) int32 {
	if at == 0 {
		return m.root[label]
	}
	for _, e := range m.nodes[at].edges {
		if e.label == label {
			return e.to
		}
	}
	return 0
}

// longest is the longest token at the start of s: its index and length, or -1.
func (m *matcher) longest(s string) (token, length int) {
	token = -1
	at := int32(0)
	for i := 0; i < len(s); i++ {
		if at = m.child(at, s[i]); at == 0 {
			break
		}
		if t := m.nodes[at].token; t >= 0 {
			token, length = int(t), i+1
		}
	}
	return token, length
}

// cut appends in, with the tokens found in it cut out. Without parseSpecial,
// what looks like a special token stays text.
func (m *matcher) cut(dst []piece, in piece, parseSpecial bool) []piece {
	s, done := in.text, 0
	text := func(from, to int) {
		if from < to {
			dst = append(dst, piece{text: s[from:to], atStart: in.atStart && from == 0, token: -1,
				barred: between(in.barred, from, to)})
		}
	}
	for i := 0; i < len(s); {
		if m.root[s[i]] == 0 {
			i++
			continue
		}
		k, n := m.longest(s[i:])
		if k < 0 {
			i++
			continue
		}
		t := &m.tokens[k]
		start, end := i, i+n
		switch {
		case t.special && isBarred(in.barred, i):
			i++ // a token that the template wrote may start inside
			continue
		case t.special && !parseSpecial, t.singleWord && !alone(s, start, end):
			i = end
			continue
		}
		i = end
		if t.lstrip {
			start = max(trimSpaceLeft(s, start), done)
		}
		if t.rstrip {
			end = trimSpaceRight(s, end)
		}
		text(done, start)
		dst = append(dst, piece{text: s[start:end], token: t.id})
		done = end
	}
	text(done, len(s))
	return dst
}

// between returns the offsets in [from, to), counted from from.
func between(offsets []int, from, to int) []int {
	if len(offsets) == 0 {
		return nil
	}
	var out []int
	for _, o := range offsets[sort.SearchInts(offsets, from):] {
		if o >= to {
			break
		}
		out = append(out, o-from)
	}
	return out
}

func isBarred(offsets []int, at int) bool {
	if len(offsets) == 0 {
		return false
	}
	i := sort.SearchInts(offsets, at)
	return i < len(offsets) && offsets[i] == at
}

// alone says whether s[start:end] has no word character beside it.
func alone(s string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[end:])
	return (start == 0 || !isWord(before)) && (end == len(s) || !isWord(after))
}

// isWord is \w of Unicode's regular expressions.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc,
		unicode.Other_Alphabetic, unicode.Join_Control)
}

// trimSpaceLeft moves start left over white space.
func trimSpaceLeft(s string, start int) int {
	for start > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:start])
		if !unicode.IsSpace(r) {
			break
		}
		start -= n
	}
	return start
}

// trimSpaceRight moves end right over white space.
func trimSpaceRight(s string, end int) int {
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsSpace(r) {
			break
		}
		end += n
	}
	return end
}
