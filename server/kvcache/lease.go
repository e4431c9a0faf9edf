package kvcache

import (
	"time"

	"whorl/tensor"
)

// Lease is the cache of one session. It expires unless it is committed in time; Release
// ends it. Safe for concurrent use.
type Lease struct {
	c       *Cache
	peer    string
	pages   []int32 // never changes; after the end others may hold them
	timer   *time.Timer
	expired func()

	// guarded by Cache.mu
	committed bool
	ended     bool
}

// lease wraps pages that were taken for r.
func (c *Cache) lease(r Request, pages []int32) *Lease {
	l := &Lease{c: c, peer: r.Peer, pages: pages, expired: r.Expired}
	l.timer = time.AfterFunc(r.Lease, l.expire)
	return l
}

// View is what a batch needs to know of the session: its pages in order of position. The
// caller must not use it once the lease has ended.
func (l *Lease) View() tensor.KVView { return tensor.KVView{Pages: l.pages} }

// Bytes is the memory of the pages.
func (l *Lease) Bytes() int64 { return int64(len(l.pages)) * l.c.cfg.PageBytes }

// Commit makes the lease last until Release. It is ErrExpired when it comes too late.
func (l *Lease) Commit() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.ended {
		return ErrExpired
	}
	l.committed = true
	l.timer.Stop()
	return nil
}

// Release frees the pages; further calls do nothing.
func (l *Lease) Release() {
	l.timer.Stop()
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.end()
}

func (l *Lease) end() {
	if !l.ended {
		l.ended = true
		l.c.giveBack(l.peer, l.pages)
	}
}

func (l *Lease) expire() {
	l.c.mu.Lock()
	lapsed := !l.ended && !l.committed
	if lapsed {
		l.end()
	}
	l.c.mu.Unlock()
	if lapsed && l.expired != nil {
		l.expired()
	}
}
