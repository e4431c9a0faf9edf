package tokenizer

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unicode/utf8"
)

// scoredMerges makes merges of scores. SentencePiece joins the two neighbours
// whose union has the best score, so every way to cut a token in two is a
// merge, ranked by the score of the token.
func scoredMerges(v GGUFVocab, tokens []string) (*mergeTable, error) {
	ids := make([]int32, 0, len(v.Tokens))
	for id := range v.Tokens {
		if k := v.kind(id); k == 1 || k == typeUserDefined || k == typeUnused {
			ids = append(ids, int32(id))
		}
	}
	best := func(a, b int32) int { return cmp.Compare(v.Scores[b], v.Scores[a]) }
	if !slices.IsSortedFunc(ids, best) { // most files list tokens by score
		slices.SortStableFunc(ids, best)
	}
	parts := newPartIndex(tokens)
	merges := newMergeTable(len(ids))
	rank := int32(0)
	for i, id := range ids {
		if i > 0 && v.Scores[id] != v.Scores[ids[i-1]] {
			rank++ // equal scores, equal ranks: the leftmost pair goes first
		}
		parts.cuts(tokens[id], func(whole, left, right int32) {
			merges.put(left, right, merge{rank: rank, id: whole}, false)
		})
		if merges.count > maxMerges {
			return nil, fmt.Errorf("tokens are made of others in more than %d ways", maxMerges)
		}
	}
	return merges, nil
}

// partIndex finds every token that is a beginning or an end of another. With
// a map, hashing all these parts would be most of the time that it takes to
// load a large vocabulary; here the hash of a part follows from the one before
// it. It is a polynomial modulo a prime, in a random base, so that no file can
// be made for which it is slow.
type partIndex struct {
	base   uint64
	shift  uint // of a mixed hash: the index of a slot is left
	slots  []partSlot
	tokens []string // by id
	powers []uint64 // of base
	ahead  []uint64 // scratch: hashes of the beginnings of a token
}

// partSlot is small, for nearly all of its reads miss the cache.
type partSlot struct {
	tag uint32 // a part of the hash that the index does not tell
	id  int32  // plus one: 0 is an empty slot
}

// mersenne61 is the prime 2^61 - 1.
const mersenne61 = 1<<61 - 1

// newPartIndex makes an index of tokens, which it keeps; of equal ones the
// first counts.
func newPartIndex(tokens []string) *partIndex {
	width := uint(bits.Len(uint(2*len(tokens) + 1)))
	x := &partIndex{base: 256 + rand.Uint64N(mersenne61-512), shift: 64 - width, slots: make([]partSlot, 1<<width), tokens: tokens, powers: []uint64{1}}
	for id, token := range tokens {
		h := uint64(0)
		for i := range len(token) {
			h = x.push(h, token[i])
		}
		if s := x.seek(h, token); s.id == 0 {
			_, tag := x.slot(h)
			*s = partSlot{tag: tag, id: int32(id) + 1}
		}
	}
	return x
}

// timesMod is a*b modulo 2^61-1, of factors below it.
func timesMod(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	sum := low&mersenne61 + (high<<3 | low>>61)
	if sum >= mersenne61 {
		sum -= mersenne61
	}
	return sum
}

// push is the hash of a text with hash h and one more byte.
func (x *partIndex) push(h uint64, c byte) uint64 {
	sum := timesMod(h, x.base) + uint64(c) + 1
	if sum >= mersenne61 {
		sum -= mersenne61
	}
	return sum
}

func (x *partIndex) slot(h uint64) (at int, tag uint32) {
	mixed := h * 0x9E3779B97F4A7C15
	return int(mixed >> x.shift), uint32(mixed)
}

// seek is the slot where a token is, or would be.
func (x *partIndex) seek(h uint64, token string) *partSlot {
	for at, tag := x.slot(h); ; at = (at + 1) & (len(x.slots) - 1) {
		if s := &x.slots[at]; s.id == 0 || s.tag == tag && x.tokens[s.id-1] == token {
			return s
		}
	}
}

// cuts calls found for each way to cut token between two characters into two
// tokens, the shortest left part first.
func (x *partIndex) cuts(token string, found func(whole, left, right int32)) {
	n := len(token)
	x.ahead = append(x.ahead[:0], 0)
	for i := range n {
		x.ahead = append(x.ahead, x.push(x.ahead[i], token[i]))
	}
	for len(x.powers) <= n {
		x.powers = append(x.powers, timesMod(x.powers[len(x.powers)-1], x.base))
	}
	whole := int32(-1)
	for cut := 1; cut < n; cut++ {
		if !utf8.RuneStart(token[cut]) {
			continue
		}
		left := x.seek(x.ahead[cut], token[:cut])
		if left.id == 0 {
			continue
		}
		rest := x.ahead[n] + mersenne61 - timesMod(x.ahead[cut], x.powers[n-cut])
		if rest >= mersenne61 {
			rest -= mersenne61
		}
		right := x.seek(rest, token[cut:])
		if right.id == 0 {
			continue
		}
		if whole < 0 {
			whole = x.seek(x.ahead[n], token).id - 1
		}
		found(whole, left.id-1, right.id-1)
	}
}
