package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Reasons why a secret opens nothing.
var (
	ErrUnknown = errors.New("no key has this secret")
	ErrExpired = errors.New("the key has expired")
)

// Ring is what a node knows of a book: it looks keys up without asking it. Safe for concurrent
// use.
type Ring struct {
	book    Book
	refresh sync.Mutex // one at a time asks the book, and reads or writes known
	known   string     // version of the book that the ring has; "" before the first

	mu      sync.RWMutex       // guards all below
	holders map[string]*Holder // by hash
}

// NewRing makes a ring that holds nothing before Refresh.
func NewRing(b Book) *Ring { return &Ring{book: b, holders: map[string]*Holder{}} }

// Refresh reads the book. Keys that stay keep what they have used; the ring keeps what it has if
// the book cannot be read.
func (r *Ring) Refresh(ctx context.Context) error {
	r.refresh.Lock()
	defer r.refresh.Unlock()
	version, err := r.book.Version(ctx) // first: what changes meanwhile is seen again
	if err != nil {
		return err
	}
	return r.read(ctx, version)
}

// Look is Refresh where the book is another than the ring knows. When others used a key is no change.
func (r *Ring) Look(ctx context.Context) error {
	r.refresh.Lock()
	defer r.refresh.Unlock()
	version, err := r.book.Version(ctx)
	if err != nil || version == r.known {
		return err
	}
	return r.read(ctx, version)
}

// read reads a book of a version. Caller holds refresh.
func (r *Ring) read(ctx context.Context, version string) error {
	all, err := r.book.List(ctx)
	if err != nil {
		return err
	}
	next := make(map[string]*Holder, len(all))
	for _, k := range all {
		h := r.holder(k.Hash)
		if h == nil {
			h = newHolder(k)
		} else {
			h.change(k)
		}
		next[k.Hash] = h
	}
	r.known = version
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders = next
	return nil
}

func (r *Ring) holder(hash string) *Holder {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.holders[hash]
}

// Find is whose secret it is.
func (r *Ring) Find(secret string, now time.Time) (*Holder, error) {
	if !strings.HasPrefix(secret, prefix) || len(secret) > 256 {
		return nil, ErrUnknown
	}
	h := r.holder(hashOf(secret))
	if h == nil {
		return nil, ErrUnknown
	}
	if k := h.Key(); !k.Expires.IsZero() && !now.Before(k.Expires) {
		return nil, fmt.Errorf("%w: %s", ErrExpired, k.Expires.Format(time.RFC3339))
	}
	return h, nil
}

// Holders are all, in the order of names.
func (r *Ring) Holders() []*Holder {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.holders), func(a, b *Holder) int { return strings.Compare(a.Key().Name, b.Key().Name) })
}

// Add puts a key into the book; it opens at once.
func (r *Ring) Add(ctx context.Context, k Key) error {
	if err := r.book.Add(ctx, k); err != nil {
		return err
	}
	return r.Refresh(ctx)
}

// Remove takes a key, by id or name, out of the book; it opens nothing more.
func (r *Ring) Remove(ctx context.Context, which string) (bool, error) {
	ok, err := r.book.Remove(ctx, which)
	if err != nil || !ok {
		return ok, err
	}
	return true, r.Refresh(ctx)
}

// Note tells the book when keys were used last, where that is news.
func (r *Ring) Note(ctx context.Context) error {
	used := map[string]time.Time{}
	for _, h := range r.Holders() {
		if id, at, ok := h.news(); ok {
			used[id] = at
		}
	}
	if len(used) == 0 {
		return nil
	}
	return r.book.Touch(ctx, used)
}

// Keep looks at the book, notes what was used and reads what others noted, until ctx ends; failed hears of each failure
// that is not the one before, which was at first, and of nil when all is well again.
func (r *Ring) Keep(ctx context.Context, refresh, note time.Duration, was error, failed func(error)) {
	looks, notes := time.NewTicker(refresh), time.NewTicker(note)
	defer looks.Stop()
	defer notes.Stop()
	textOf := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	last := textOf(was)
	tell := func(err error) {
		text := textOf(err)
		if text != last && ctx.Err() == nil {
			failed(err)
		}
		last = text
	}
	for {
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if err := r.Note(end); err != nil {
				failed(err)
			}
			return
		case <-looks.C:
			tell(r.Look(ctx))
		case <-notes.C:
			tell(errors.Join(r.Note(ctx), r.Refresh(ctx)))
		}
	}
}
