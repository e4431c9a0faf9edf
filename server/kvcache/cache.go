package kvcache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"whorl/tensor"
)

// Reasons of a refusal; a *Refusal wraps one of them.
var (
	ErrTooLong = errors.New("the session is longer than this server allows")
	ErrNever   = errors.New("the session can never fit")
	ErrShare   = errors.New("the peer's share of the cache is used up")
	ErrFull    = errors.New("the cache is full")
	ErrQueue   = errors.New("too many sessions wait for cache")
	ErrExpired = errors.New("the lease has expired")
)

// Refusal says why nothing was reserved, with the numbers, in tokens.
type Refusal struct {
	Reason error
	Asked  int
	Limit  int64 // what the reason compares with
	Waited time.Duration
}

// Error is one sentence with the numbers.
func (r *Refusal) Error() string {
	switch r.Reason {
	case ErrFull, ErrQueue:
		return fmt.Sprintf("cannot reserve cache for %d tokens: %v (%d tokens free) after waiting %.1f s", r.Asked, r.Reason, r.Limit, r.Waited.Seconds())
	default:
		return fmt.Sprintf("cannot reserve cache for %d tokens: %v (at most %d tokens)", r.Asked, r.Reason, r.Limit)
	}
}

// Unwrap gives the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// Config sizes a cache.
type Config struct {
	Pages     int   // of the pool
	PageBytes int64 // memory of one page over all layers
	MaxTokens int   // longest session; 0: whatever fits
	// PeerTokens is the most one peer may hold; 0: no cap.
	PeerTokens int64
	// MaxWaiting bounds the queue.
	MaxWaiting int
	// MaxWait bounds the time in the queue, whatever a request asks for.
	MaxWait time.Duration
}

// Validate refuses sizes that make no cache.
func (c Config) Validate() error {
	if c.Pages < 1 || c.PageBytes < 0 || c.MaxTokens < 0 || c.PeerTokens < 0 || c.MaxWaiting < 0 || c.MaxWait < 0 {
		return fmt.Errorf("cache of %d pages of %d bytes, sessions of %d tokens, %d tokens per peer, %d waiting: no size may be negative, and one page is the least",
			c.Pages, c.PageBytes, c.MaxTokens, c.PeerTokens, c.MaxWaiting)
	}
	return nil
}

// Cache rents pages. Safe for concurrent use.
type Cache struct {
	cfg Config

	mu      sync.Mutex // guards all below
	free    []int32    // a stack: pages used lately are handed out first
	held    map[string]int
	waiting list.List // of *waiter, oldest first
}

type waiter struct {
	peer  string
	pages int
	ready chan []int32 // capacity 1: receives the pages
}

// New makes a cache with all pages free.
func New(cfg Config) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg, free: make([]int32, cfg.Pages), held: map[string]int{}}
	for i := range c.free {
		c.free[i] = int32(cfg.Pages - 1 - i)
	}
	return c, nil
}

// PagesFor is the number of pages that hold so many positions.
func PagesFor(tokens int) int { return (tokens + tensor.PageTokens - 1) / tensor.PageTokens }

// Request asks for the cache of one session.
type Request struct {
	Peer   string
	Tokens int // positions of the whole session, at least 1
	// Sequences is how many sequences of so many positions it has; 0 counts as 1.
	Sequences int
	Wait      time.Duration // longest wait for pages; 0 for none
	Lease     time.Duration // time until Commit, after which everything is freed
	// Expired is called, if not nil, when the lease ran out before Commit.
	Expired func()
}

// pages is what the request needs, at most.
func (r *Request) pages() int { return max(1, r.Sequences) * PagesFor(r.Tokens) }

// asked is what a refusal compares with its limit.
func (r *Request) asked(reason error) int {
	if reason == ErrTooLong {
		return r.Tokens
	}
	return max(1, r.Sequences) * r.Tokens
}

// Reserve takes the pages of a session: all of them or none. What can never fit is refused
// at once; otherwise the request waits in line until pages are free, its Wait is over, or
// ctx ends (whose error is then returned). The error is a *Refusal otherwise.
func (c *Cache) Reserve(ctx context.Context, r Request) (*Lease, error) {
	pages := r.pages()
	if err := c.never(r, pages); err != nil {
		return nil, err
	}
	start := time.Now()
	w := &waiter{peer: r.Peer, pages: pages, ready: make(chan []int32, 1)}
	c.mu.Lock()
	place := c.waiting.PushBack(w)
	c.serve()
	wait := min(r.Wait, c.cfg.MaxWait)
	reason := ErrFull
	if c.waiting.Len() > c.cfg.MaxWaiting && len(w.ready) == 0 {
		reason, wait = ErrQueue, 0
	}
	if len(w.ready) == 0 && wait <= 0 {
		c.waiting.Remove(place)
		defer c.mu.Unlock()
		return nil, c.refuse(reason, r, 0)
	}
	c.mu.Unlock()

	var over <-chan time.Time
	if len(w.ready) == 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		over = t.C
	}
	select {
	case got := <-w.ready:
		return c.lease(r, got), nil
	case <-ctx.Done():
	case <-over:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case got := <-w.ready: // the pages came at the last moment
		if ctx.Err() == nil {
			return c.lease(r, got), nil
		}
		c.giveBack(r.Peer, got)
		return nil, context.Cause(ctx)
	default:
	}
	c.waiting.Remove(place)
	c.serve() // who stood behind may fit
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, c.refuse(ErrFull, r, time.Since(start))
}

// never refuses what no waiting can help.
func (c *Cache) never(r Request, pages int) error {
	no := func(reason error, limit int64) error {
		return &Refusal{Reason: reason, Asked: r.asked(reason), Limit: limit}
	}
	capacity := int64(c.cfg.Pages) * tensor.PageTokens
	switch {
	case r.Tokens < 1:
		return no(ErrTooLong, int64(c.cfg.MaxTokens))
	case c.cfg.MaxTokens > 0 && r.Tokens > c.cfg.MaxTokens:
		return no(ErrTooLong, int64(c.cfg.MaxTokens))
	case pages > c.cfg.Pages:
		return no(ErrNever, capacity)
	case c.cfg.PeerTokens > 0 && int64(pages)*tensor.PageTokens > c.peerCap():
		return no(ErrShare, c.peerCap())
	}
	return nil
}

// peerCap is the cap per peer in tokens, rounded up to whole pages.
func (c *Cache) peerCap() int64 {
	const page = tensor.PageTokens
	return (c.cfg.PeerTokens + page - 1) / page * page
}

// refuse is called with mu held.
func (c *Cache) refuse(reason error, r Request, waited time.Duration) error {
	limit := int64(len(c.free)) * tensor.PageTokens
	if c.capped(r.Peer, r.pages()) {
		reason, limit = ErrShare, c.peerCap()
	}
	return &Refusal{Reason: reason, Asked: r.asked(reason), Limit: limit, Waited: waited}
}

// capped tells whether a peer must wait for its own sessions to end.
func (c *Cache) capped(peer string, pages int) bool {
	return c.cfg.PeerTokens > 0 && int64(c.held[peer]+pages)*tensor.PageTokens > c.peerCap()
}

// serve hands free pages to the waiters in line; mu is held. A peer at its cap is passed
// by, it waits for itself only; otherwise the line is kept, so a large request is not
// overtaken for ever by small ones.
func (c *Cache) serve() {
	for e := c.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		if !c.capped(w.peer, w.pages) {
			if w.pages > len(c.free) {
				return
			}
			at := len(c.free) - w.pages
			got := make([]int32, w.pages)
			copy(got, c.free[at:])
			c.free = c.free[:at]
			c.held[w.peer] += w.pages
			w.ready <- got
			c.waiting.Remove(e)
		}
		e = next
	}
}

// giveBack frees pages; mu is held.
func (c *Cache) giveBack(peer string, pages []int32) {
	c.free = append(c.free, pages...)
	if c.held[peer] -= len(pages); c.held[peer] == 0 {
		delete(c.held, peer)
	}
	c.serve()
}

// Stats is the state of the cache. Tokens count whole pages: positions that are taken,
// written or not.
type Stats struct {
	TotalTokens, UsedTokens, LeftTokens int64
	TotalBytes, UsedBytes               int64
	Waiting                             int
}

// Stats reads the counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	total, free := int64(c.cfg.Pages), int64(len(c.free))
	return Stats{
		TotalTokens: total * tensor.PageTokens, UsedTokens: (total - free) * tensor.PageTokens, LeftTokens: free * tensor.PageTokens,
		TotalBytes: total * c.cfg.PageBytes, UsedBytes: (total - free) * c.cfg.PageBytes,
		Waiting: c.waiting.Len(),
	}
}
