package kvcache

import (
	"fmt"
	"slices"

	"whorl/tensor"
)

// Cache hands out the pages of a pool. Not for concurrent use.
type Cache struct {
	pages     int
	pageBytes int64
	free      []int32 // a stack: pages used lately are handed out first
}

// New makes a cache of so many pages, all free. pageBytes is the memory of one over all
// layers.
func New(pages int, pageBytes int64) (*Cache, error) {
	if pages < 1 || pageBytes < 0 {
		return nil, fmt.Errorf("kvcache: %d pages of %d bytes: no size may be negative, and one page is the least", pages, pageBytes)
	}
	c := &Cache{pages: pages, pageBytes: pageBytes, free: make([]int32, pages)}
	for i := range c.free {
		c.free[i] = int32(pages - 1 - i)
	}
	return c, nil
}

// PagesFor is the number of pages that hold so many positions.
func PagesFor(tokens int) int { return (tokens + tensor.PageTokens - 1) / tensor.PageTokens }

// Take hands out n pages: all of them or, if fewer are free, none.
func (c *Cache) Take(n int) []int32 {
	at := len(c.free) - n
	if at < 0 {
		return nil
	}
	got := make([]int32, n)
	copy(got, c.free[at:])
	c.free = c.free[:at]
	return got
}

// Put takes pages back.
func (c *Cache) Put(pages []int32) {
	if c.free = append(c.free, pages...); len(c.free) > c.pages {
		panic("kvcache: pages were given back twice")
	}
}

// Free lists the pages that nobody has.
func (c *Cache) Free() []int32 { return slices.Clone(c.free) }

// Bytes is the memory of so many pages.
func (c *Cache) Bytes(pages int) int64 { return int64(pages) * c.pageBytes }

// Stats is the state of the cache. Tokens count whole pages: positions that are taken,
// written or not.
type Stats struct {
	TotalTokens, UsedTokens, LeftTokens int64
	TotalBytes, UsedBytes               int64
}

// Stats reads the counters.
func (c *Cache) Stats() Stats {
	total, free := int64(c.pages), int64(len(c.free))
	return Stats{
		TotalTokens: total * tensor.PageTokens, UsedTokens: (total - free) * tensor.PageTokens, LeftTokens: free * tensor.PageTokens,
		TotalBytes: total * c.pageBytes, UsedBytes: (total - free) * c.pageBytes,
	}
}
