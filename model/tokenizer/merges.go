package tokenizer

import (
	"math/bits"
	"math/rand/v2"
)

// merge says what a pair of neighbours becomes, and how early.
type merge struct{ rank, id int32 }

// mergeTable maps pairs of ids to merges. It is a hash table with open
// addressing: half the time of a map, both where half a million merges are
// loaded and where every pair of neighbours in a text is looked up. The
// multiplier is random, so that no file can be made for which it is slow.
type mergeTable struct {
	slots      []mergeSlot
	count      int
	shift      uint // of a product: the index of a slot is left
	multiplier uint64
}

type mergeSlot struct {
	left, right int32
	rank        int32
	id          int32 // plus one: 0 is an empty slot
}

func (s *mergeSlot) used() bool { return s.id != 0 }

// newMergeTable makes a table for about n merges; it grows if there are more.
func newMergeTable(n int) *mergeTable {
	width := uint(bits.Len(uint(2*n + 1)))
	return &mergeTable{slots: make([]mergeSlot, 1<<width), shift: 64 - width, multiplier: rand.Uint64() | 1}
}

// find is the index of the slot where a pair is, or would be.
func (t *mergeTable) find(left, right int32) int {
	h := (uint64(uint32(left))<<32 | uint64(uint32(right))) * t.multiplier
	at := int((h ^ h>>32) * t.multiplier >> t.shift)
	for t.slots[at].used() && (t.slots[at].left != left || t.slots[at].right != right) {
		at = (at + 1) & (len(t.slots) - 1)
	}
	return at
}

// rank returns the merge of a pair, one of noRank if there is none.
func (t *mergeTable) rank(left, right int32) merge {
	if s := &t.slots[t.find(left, right)]; s.used() {
		return merge{s.rank, s.id - 1}
	}
	return merge{rank: noRank}
}

// put sets the merge of a pair. One that is there already is only replaced if
// replace is set.
func (t *mergeTable) put(left, right int32, m merge, replace bool) {
	s := &t.slots[t.find(left, right)]
	if !s.used() {
		if t.count++; 3*t.count > 2*len(t.slots) {
			old := t.slots
			t.slots, t.shift = make([]mergeSlot, 2*len(old)), t.shift-1
			for i := range old {
				if old[i].used() {
					t.slots[t.find(old[i].left, old[i].right)] = old[i]
				}
			}
			s = &t.slots[t.find(left, right)]
		}
	} else if !replace {
		return
	}
	*s = mergeSlot{left, right, m.rank, m.id + 1}
}
