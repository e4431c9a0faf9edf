package kvcache

import (
	"fmt"
	"slices"

	"whorl/tensor"
)

// Tables are the page tables of a session whose sequences part from each other and share
// pages: a page that several of them hold is copied before one of them writes to it. They
// never need more pages than the session took: one table's worth for each sequence.
//
// At first there is one sequence. Tables that were handed out stay as they were: a step
// may be computing with them. Not for concurrent use.
type Tables struct {
	each  int       // pages of one sequence
	seqs  [][]int32 // pages of each sequence, as far as it has come
	free  []int32
	count map[int32]int // sequences that hold a page
}

// NewTables shares out the pages of a session among the given number of sequences.
func NewTables(taken []int32, sequences int) *Tables {
	pages := slices.Clone(taken)
	t := &Tables{each: len(pages) / sequences, count: map[int32]int{}}
	t.seqs, t.free = [][]int32{pages[:t.each:t.each]}, pages[t.each:]
	for _, p := range t.seqs[0] {
		t.count[p] = 1
	}
	return t
}

// Sequences is their present number.
func (t *Tables) Sequences() int { return len(t.seqs) }

// Pages are those of a sequence. The caller must not change them.
func (t *Tables) Pages(seq int) []int32 { return t.seqs[seq] }

// Part makes sequence i the continuation of what was sequence parents[i] before. tokens is
// how many positions each of the old ones has: pages behind them are given back.
func (t *Tables) Part(parents []uint8, tokens int) {
	seqs := make([][]int32, len(parents))
	for i, p := range parents {
		old := t.seqs[p]
		seqs[i] = old[:min(len(old), PagesFor(tokens))]
		for _, page := range seqs[i] {
			t.count[page]++
		}
	}
	for _, old := range t.seqs {
		t.drop(old)
	}
	t.seqs = seqs
}

// drop lets go of pages, once each.
func (t *Tables) drop(pages []int32) {
	for _, page := range pages {
		if t.count[page]--; t.count[page] == 0 {
			delete(t.count, page)
			t.free = append(t.free, page)
		}
	}
}

// Write makes the page of a sequence's position its own. If it shared the page, it gets
// another, and shared is copied to own before anything is written. A position is at most
// one page behind what the sequence has.
func (t *Tables) Write(seq, pos int) (own, shared int32, copied bool) {
	i, pages := pos/tensor.PageTokens, t.seqs[seq]
	if i > len(pages) || i >= t.each {
		panic(fmt.Sprintf("kvcache: position %d of a sequence that has %d of %d pages", pos, len(pages), t.each))
	}
	if i < len(pages) && t.count[pages[i]] == 1 {
		return pages[i], 0, false
	}
	own = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.count[own] = 1
	if i == len(pages) {
		t.seqs[seq] = append(slices.Clip(pages), own)
		return own, 0, false
	}
	shared = pages[i]
	t.count[shared]--
	t.seqs[seq] = slices.Clone(pages)
	t.seqs[seq][i] = own
	return own, shared, true
}

// Join leaves one sequence, with all pages it may ever need: the first one up to the given
// number of positions.
func (t *Tables) Join(tokens int) {
	t.Part([]uint8{0}, tokens)
	pages := slices.Clone(t.seqs[0])
	for len(pages) < t.each {
		page := t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		t.count[page] = 1
		pages = append(pages, page)
	}
	t.seqs[0] = pages
}
