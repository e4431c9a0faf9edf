package answers

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory is a shelf in memory.
type Memory struct {
	limits Limits
	mu     sync.Mutex // guards all below
	order  list.List  // of *Answer, the newest first
	byID   map[string]*list.Element
	users  map[string]taken
	all    taken
}

// taken is what answers take of the limits.
type taken struct {
	count int
	bytes int64
}

// NewMemory makes an empty one.
func NewMemory(l Limits) *Memory {
	return &Memory{limits: l, byID: map[string]*list.Element{}, users: map[string]taken{}}
}

// over tells whether that is more than a part of the limits.
func (t taken) over(l Limits, share int) bool {
	return t.count > l.Count/share || t.bytes > l.Bytes/int64(share)
}

// Put is of Shelf.
func (m *Memory) Put(_ context.Context, a Answer) (bool, error) {
	if !m.limits.Fits(&a) {
		return false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID[a.ID] = m.order.PushFront(&a)
	m.count(&a, 1)
	for e := m.order.Back(); e != nil && m.users[a.User].over(m.limits, m.limits.Share); {
		before := e.Prev()
		if e.Value.(*Answer).User == a.User {
			m.remove(e)
		}
		e = before
	}
	m.shrink()
	return true, nil
}

// shrink forgets the oldest of all while there are too many.
func (m *Memory) shrink() {
	for m.all.over(m.limits, 1) {
		m.remove(m.order.Back())
	}
}

// count adds an answer to what is taken, or takes it away.
func (m *Memory) count(a *Answer, n int) {
	add := func(t taken) taken { return taken{t.count + n, t.bytes + int64(n)*a.Size()} }
	m.all = add(m.all)
	if m.users[a.User] = add(m.users[a.User]); m.users[a.User] == (taken{}) {
		delete(m.users, a.User)
	}
}

func (m *Memory) remove(e *list.Element) {
	a := m.order.Remove(e).(*Answer)
	delete(m.byID, a.ID)
	m.count(a, -1)
}

// find is an owner's answer; nil for none.
func (m *Memory) find(owner, id string) *list.Element {
	if e, ok := m.byID[id]; ok && e.Value.(*Answer).Owner == owner {
		return e
	}
	return nil
}

// Get is of Shelf.
func (m *Memory) Get(_ context.Context, owner, id string, now time.Time) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(owner, id)
	if e == nil || now.Sub(e.Value.(*Answer).Created) > m.limits.Age {
		return nil, ErrNone
	}
	return e.Value.(*Answer).Body, nil
}

// Drop is of Shelf.
func (m *Memory) Drop(_ context.Context, owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(owner, id)
	if e == nil {
		return ErrNone
	}
	m.remove(e)
	return nil
}

// Prune is of Shelf.
func (m *Memory) Prune(_ context.Context, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.order.Back(); e != nil && now.Sub(e.Value.(*Answer).Created) > m.limits.Age; e = m.order.Back() {
		m.remove(e)
	}
	return nil
}
