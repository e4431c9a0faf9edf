package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// paper is a pool whose pages hold words instead of keys and values.
type paper [][page]int

func (p paper) read(t *Tables, seq, tokens int) []int {
	var out []int
	for pos := range tokens {
		out = append(out, p[t.Pages(seq)[pos/page]][pos%page])
	}
	return out
}

func (p paper) write(t *Tables, seq, pos, word int) {
	own, shared, copied := t.Write(seq, pos)
	if copied {
		p[own] = p[shared]
	}
	p[own][pos%page] = word
}

// Whatever parts, writes and joins: every sequence reads its own words, and the pages of
// the session suffice.
func TestTablesAgainstCopies(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, each := 1+r.IntN(5), 1+r.IntN(4)
		c := newCache(t, n*each+3)
		taken := c.Take(n * each)
		tb, store := NewTables(taken, n), make(paper, n*each+3)
		for round := range 3 {
			start := 1 + r.IntN(each*page)
			want := [][]int{nil}
			for pos := range start {
				want[0] = append(want[0], round<<20|pos)
				store.write(tb, 0, pos, want[0][pos])
			}
			for pos := start; pos < min(start+100, each*page); pos++ {
				parents, next := make([]uint8, n), make([][]int, n)
				for i := range parents {
					parents[i] = uint8(r.IntN(len(want)))
					next[i] = append(slices.Clone(want[parents[i]]), round<<20|i<<16|pos)
				}
				tb.Part(parents, pos)
				for i := range parents {
					store.write(tb, i, pos, next[i][pos])
				}
				want = next
				for i := range want {
					if got := store.read(tb, i, pos+1); !slices.Equal(got, want[i]) {
						t.Fatalf("seed %d: sequence %d of %d reads other words at position %d", seed, i, n, pos)
					}
				}
			}
			tb.Join(start)
			if got := store.read(tb, 0, start); tb.Sequences() != 1 || len(tb.Pages(0)) != each || !slices.Equal(got, want[0][:start]) {
				t.Fatalf("seed %d: after joining: %d sequences, %d of %d pages", seed, tb.Sequences(), len(tb.Pages(0)), each)
			}
			if len(tb.free)+each != n*each || len(tb.count) != each {
				t.Fatalf("seed %d: %d pages free and %d held of %d", seed, len(tb.free), len(tb.count), n*each)
			}
		}
		c.Put(taken)
	}
}

// Sequences that go on side by side copy a page once each, not once a step.
func TestTablesCopyLittle(t *testing.T) {
	c := newCache(t, 10)
	tb, copies := NewTables(c.Take(8), 4), 0
	tb.Part(make([]uint8, 4), page+5)
	for pos := page + 5; pos < 2*page; pos++ {
		for seq := range 4 {
			if _, _, copied := tb.Write(seq, pos); copied {
				copies++
			}
		}
		tb.Part([]uint8{0, 1, 2, 3}, pos+1)
	}
	if copies != 3 { // the last one keeps the page
		t.Errorf("%d copies", copies)
	}
	if got := c.Stats().UsedTokens; got != 8*page {
		t.Errorf("%d tokens are reserved for four sequences of %d", got, 2*page)
	}
}
