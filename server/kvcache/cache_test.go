package kvcache

import (
	"math/rand/v2"
	"testing"

	"whorl/tensor"
)

const page = tensor.PageTokens

func newCache(t *testing.T, pages int) *Cache {
	t.Helper()
	c, err := New(pages, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTakeAllOrNothing(t *testing.T) {
	c := newCache(t, 10)
	got := c.Take(3)
	want := Stats{TotalTokens: 10 * page, UsedTokens: 3 * page, LeftTokens: 7 * page, TotalBytes: 10_000, UsedBytes: 3000}
	if s := c.Stats(); s != want || len(got) != 3 || c.Bytes(3) != 3000 {
		t.Errorf("%+v, %d pages of %d bytes", s, len(got), c.Bytes(3))
	}
	if more := c.Take(8); more != nil || c.Stats() != want {
		t.Errorf("got %d of 7 pages: %+v", len(more), c.Stats())
	}
	if rest := c.Take(7); len(rest) != 7 {
		t.Errorf("%d pages", len(rest))
	}
	c.Put(got)
	if s := c.Stats(); s.LeftTokens != 3*page {
		t.Errorf("%+v", s)
	}
}

// A25: whatever is taken and given back, no page has two owners and none is lost.
func TestPagesHaveOneOwner(t *testing.T) {
	const pages = 50
	c := newCache(t, pages)
	r := rand.New(rand.NewPCG(1, 3))
	owned, held := map[int32]bool{}, [][]int32{}
	for range 10_000 {
		if n := len(held); n > 0 && r.IntN(2) == 0 {
			i := r.IntN(n)
			for _, p := range held[i] {
				delete(owned, p)
			}
			c.Put(held[i])
			held[i] = held[n-1]
			held = held[:n-1]
		} else if got := c.Take(1 + r.IntN(12)); got != nil {
			for _, p := range got {
				if owned[p] || p < 0 || p >= pages {
					t.Fatalf("page %d of %d is handed out twice", p, pages)
				}
				owned[p] = true
			}
			held = append(held, got)
		}
		if s := c.Stats(); s.UsedTokens != int64(len(owned))*page {
			t.Fatalf("%d tokens are used, %d pages are owned", s.UsedTokens, len(owned))
		}
	}
}

func TestPagesGivenBackTwice(t *testing.T) {
	c := newCache(t, 3)
	got := c.Take(2)
	c.Put(got)
	defer func() {
		if recover() == nil {
			t.Error("nobody notices")
		}
	}()
	c.Put(got)
}

func TestSizes(t *testing.T) {
	for _, size := range [][2]int64{{0, 1}, {-1, 1}, {1, -1}} {
		if _, err := New(int(size[0]), size[1]); err == nil {
			t.Errorf("%d pages of %d bytes are accepted", size[0], size[1])
		}
	}
}
