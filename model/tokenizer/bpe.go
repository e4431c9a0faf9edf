package tokenizer

import (
	"fmt"
	"math"
	"sync"
	"unicode/utf8"
)

const (
	// shortWord is the number of symbols up to which scanning all pairs for
	// the best one beats a heap: nearly every word of a text is below it.
	shortWord = 48
	// The word cache: words longer than cachedWord bytes hardly repeat, and
	// cachedWords entries of at most that size stay under about 4 MB.
	cachedWord  = 48
	cachedWords = 16384
)

const noRank = math.MaxInt32

// bpe is a byte-pair-encoding model: it cuts a word into characters and joins
// neighbours in the order of their ranks. It is safe for concurrent use.
type bpe struct {
	vocab  map[string]int32
	merges *mergeTable

	unk          int32 // -1: unknown characters vanish
	fuseUnk      bool  // a run of unknown characters is one token
	ignoreMerges bool  // a word that is a token stays whole
	byteFallback bool
	fallback     [256]int32 // ids of <0x00>..<0xFF>, -1 where missing

	// spell: words arrive as plain text and are looked up in the byte
	// alphabet; letters are the ids of its single characters, -1 if missing.
	spell   bool
	letters [256]int32

	mu    sync.RWMutex
	cache map[string][]int32 // guarded by mu; values are never written to
}

// newBPE makes the lookup tables. vocab and merges are kept.
func newBPE(vocab map[string]int32, merges *mergeTable) *bpe {
	m := &bpe{vocab: vocab, merges: merges, unk: -1, cache: map[string][]int32{}}
	for b := range 256 {
		m.letters[b], m.fallback[b] = -1, -1
		if id, ok := vocab[string(byteToRune[b])]; ok {
			m.letters[b] = id
		}
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", b)]; ok {
			m.fallback[b] = id
		}
	}
	return m
}

// appendWord appends the ids of one pre-token.
func (m *bpe) appendWord(dst []int32, word string) []int32 {
	if word == "" {
		return dst
	}
	small := len(word) <= cachedWord
	if small {
		m.mu.RLock()
		ids, ok := m.cache[word]
		m.mu.RUnlock()
		if ok {
			return append(dst, ids...)
		}
	}
	start := len(dst)
	dst = m.encode(dst, word)
	if small {
		// Copy both: word may be a slice of a whole document.
		key, ids := string([]byte(word)), append([]int32(nil), dst[start:]...)
		m.mu.Lock()
		if len(m.cache) >= cachedWords {
			clear(m.cache)
		}
		m.cache[key] = ids
		m.mu.Unlock()
	}
	return dst
}

func (m *bpe) encode(dst []int32, word string) []int32 {
	if m.ignoreMerges {
		if id, ok := m.whole(word); ok {
			return append(dst, id)
		}
	}
	start := len(dst)
	dst = m.symbols(dst, word)
	if len(dst)-start <= shortWord {
		return dst[:start+m.joinShort(dst[start:])]
	}
	return dst[:start+m.joinLong(dst[start:])]
}

// whole looks the word up as one token.
func (m *bpe) whole(word string) (int32, bool) {
	if !m.spell {
		id, ok := m.vocab[word]
		return id, ok
	}
	var buf [2 * cachedWord]byte
	id, ok := m.vocab[string(appendSpelled(buf[:0], word))]
	return id, ok
}

// symbols appends the ids of the single characters of word.
func (m *bpe) symbols(dst []int32, word string) []int32 {
	unknown := false // an unknown token is owed; a run may fuse into it
	owe := func() {
		if m.unk < 0 {
			return
		}
		if unknown && !m.fuseUnk {
			dst = append(dst, m.unk)
		}
		unknown = true
	}
	add := func(id int32) {
		if unknown {
			dst = append(dst, m.unk)
			unknown = false
		}
		dst = append(dst, id)
	}
	if m.spell {
		for i := 0; i < len(word); i++ {
			if id := m.letters[word[i]]; id >= 0 {
				add(id)
			} else {
				owe()
			}
		}
	} else {
		for i := 0; i < len(word); {
			_, n := utf8.DecodeRuneInString(word[i:])
			if id, ok := m.vocab[word[i:i+n]]; ok {
				add(id)
			} else if m.fallsBack(word[i : i+n]) {
				for j := range n {
					dst = append(dst, m.fallback[word[i+j]])
				}
			} else {
				owe()
			}
			i += n
		}
	}
	if unknown {
		dst = append(dst, m.unk)
	}
	return dst
}

// fallsBack says whether every byte of the character has a byte token.
func (m *bpe) fallsBack(char string) bool {
	if !m.byteFallback {
		return false
	}
	for i := 0; i < len(char); i++ {
		if m.fallback[char[i]] < 0 {
			return false
		}
	}
	return true
}

// joinShort merges ids in place and returns how many are left.
func (m *bpe) joinShort(ids []int32) int {
	var pairs [shortWord]merge // pairs[i] joins ids[i] and ids[i+1]
	n := len(ids)
	for i := 0; i+1 < n; i++ {
		pairs[i] = m.merges.rank(ids[i], ids[i+1])
	}
	for n > 1 {
		best := 0
		for i := 1; i < n-1; i++ {
			if pairs[i].rank < pairs[best].rank {
				best = i
			}
		}
		if pairs[best].rank == noRank {
			break
		}
		ids[best] = pairs[best].id
		copy(ids[best+1:n-1], ids[best+2:n])
		copy(pairs[best:n-2], pairs[best+1:n-1])
		n--
		if best > 0 {
			pairs[best-1] = m.merges.rank(ids[best-1], ids[best])
		}
		if best+1 < n {
			pairs[best] = m.merges.rank(ids[best], ids[best+1])
		}
	}
	return n
}

// symbol is a node of the list that joinLong works on.
type symbol struct{ id, prev, next int32 } // id -1: swallowed by its left neighbour; -1 ends the list

// candidate is a possible merge of the symbol at pos with its next.
type candidate struct{ rank, pos, id int32 }

// joinLong does the same as joinShort in n log n: a text without word
// boundaries (SentencePiece) is one word.
func (m *bpe) joinLong(ids []int32) int {
	list := make([]symbol, len(ids))
	var heap mergeHeap
	for i, id := range ids {
		list[i] = symbol{id: id, prev: int32(i) - 1, next: int32(i) + 1}
	}
	list[len(ids)-1].next = -1
	offer := func(pos int32) {
		if to := m.merges.rank(list[pos].id, list[list[pos].next].id); to.rank != noRank {
			heap.push(candidate{rank: to.rank, pos: pos, id: to.id})
		}
	}
	for i := range int32(len(ids) - 1) {
		offer(i)
	}
	for len(heap) > 0 {
		c := heap.pop()
		left := &list[c.pos]
		if left.id < 0 || left.next < 0 {
			continue
		}
		right := &list[left.next]
		// One of the two has grown since: its new pair is in the heap.
		if m.merges.rank(left.id, right.id) != (merge{rank: c.rank, id: c.id}) {
			continue
		}
		left.id, right.id = c.id, -1
		left.next = right.next
		if left.next >= 0 {
			list[left.next].prev = c.pos
			offer(c.pos)
		}
		if left.prev >= 0 {
			offer(left.prev)
		}
	}
	n := 0
	for i := int32(0); i >= 0; i = list[i].next {
		ids[n] = list[i].id
		n++
	}
	return n
}

// mergeHeap is a binary heap: lowest rank first, leftmost among equals.
type mergeHeap []candidate

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.pos < d.pos
}

func (h *mergeHeap) push(c candidate) {
	s := append(*h, c)
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
	*h = s
}

func (h *mergeHeap) pop() candidate {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s = s[:n]
	for i := 0; ; {
		low := 2*i + 1
		if low >= n {
			break
		}
		if r := low + 1; r < n && s[r].before(s[low]) {
			low = r
		}
		if !s[low].before(s[i]) {
			break
		}
		s[i], s[low] = s[low], s[i]
		i = low
	}
	*h = s
	return top
}
