package responses

import (
	"container/list"
	"encoding/json"
	"sync"

	"whorl/api/gen"
)

const (
	// storedBytes is what the responses of all users take, and userShare the part of it that
	// those of one address may. The oldest go first.
	storedBytes = 64 << 20
	userShare   = 4
	// overhead is about what a response takes beside its JSON: it is held as values.
	overhead = 3
)

// stored is a response with what it answered.
type stored struct {
	response gen.Response
	input    []gen.ResponseItem
	history  []gen.ChatMessage // all up to its end, without instructions
	user     string
	size     int
}

// store keeps responses. Safe for concurrent use.
type store struct {
	mu    sync.Mutex // guards all below
	order list.List  // of *stored, the newest first
	byID  map[string]*list.Element
	sizes map[string]int // by user
	size  int
	most  int
}

func newStore() *store {
	return &store{byID: map[string]*list.Element{}, sizes: map[string]int{}, most: storedBytes}
}

// put keeps a response, and forgets the oldest where there is no more room: those of its user
// where they take more than their share.
func (s *store) put(r *stored) {
	b, err := json.Marshal([]any{r.response, r.input, r.history})
	if err != nil {
		panic(err) // our own types
	}
	if r.size = overhead * len(b); r.size > s.most/userShare {
		return // larger than any may be: it is not kept
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[r.response.Id] = s.order.PushFront(r)
	s.sizes[r.user] += r.size
	s.size += r.size
	for e := s.order.Back(); e != nil && s.sizes[r.user] > s.most/userShare; {
		before := e.Prev()
		if e.Value.(*stored).user == r.user {
			s.remove(e)
		}
		e = before
	}
	for s.size > s.most {
		s.remove(s.order.Back())
	}
}

func (s *store) remove(e *list.Element) {
	r := s.order.Remove(e).(*stored)
	delete(s.byID, r.response.Id)
	if s.sizes[r.user] -= r.size; s.sizes[r.user] == 0 {
		delete(s.sizes, r.user)
	}
	s.size -= r.size
}

// get is a response, nil if there is none. Nobody changes it.
func (s *store) get(id string) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byID[id]
	if !ok {
		return nil
	}
	return e.Value.(*stored)
}

// drop forgets a response; false if there is none.
func (s *store) drop(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byID[id]
	if ok {
		s.remove(e)
	}
	return ok
}
