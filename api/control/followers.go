package control

import (
	"sync"

	"whorl/api"
)

// followers counts who follows events, logs or operations, or waits for one to end: each holds a
// connection. Safe for concurrent use.
type followers struct {
	mu  sync.Mutex // guards all below
	all int
	of  map[string]int // by caller
}

// enter takes a place for a caller; leave gives it back.
func (f *followers) enter(caller string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.all >= maxFollowers:
		return nil, api.Refused(api.CodeQueueFull, "%d requests follow events, logs or operations or wait for one, which is the most: ask without waiting, or again later", f.all)
	case f.of[caller] >= maxOwnFollowers:
		return nil, api.Refused(api.CodeQueueFull, "%d requests from your address or with your key follow events, logs or operations or wait for one, the most that one may have: end some, or ask without waiting", f.of[caller])
	}
	f.all++
	f.of[caller]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all--
		if f.of[caller]--; f.of[caller] == 0 {
			delete(f.of, caller)
		}
	}, nil
}
