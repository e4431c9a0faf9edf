package client

import (
	"maps"
	"slices"
	"sync"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// heardFor is how long what a server says of its load with its results is fresher than its record: a
// record is told some seconds after a change, and is on its way for some more.
const heardFor = 5 * time.Second

// loads are what servers said of their load with results. The zero value is ready; it may be used
// from anywhere.
type loads struct {
	mu sync.Mutex // guards by
	by map[swarm.PeerID]heardLoad
}

type heardLoad struct {
	wire.Told
	at time.Time
}

// hear notes what a server said now. Only servers of this node's sessions say anything.
func (l *loads) hear(p swarm.PeerID, told wire.Told, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[swarm.PeerID]heardLoad{}
	}
	if _, known := l.by[p]; !known {
		maps.DeleteFunc(l.by, func(_ swarm.PeerID, h heardLoad) bool { return now.Sub(h.at) > heardFor })
	}
	l.by[p] = heardLoad{told, now}
}

// into gives a view in which records say what was heard since; the view itself stays as it is.
func (l *loads) into(v swarm.View, now time.Time) swarm.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	copied := false
	for i := range v.Servers {
		r := &v.Servers[i]
		h, ok := l.by[r.Peer]
		if !ok || now.Sub(h.at) > heardFor || r.State != swarm.Online {
			continue
		}
		if !copied {
			v.Servers, copied = slices.Clone(v.Servers), true
			r = &v.Servers[i]
		}
		load := h.Load
		r.Load, r.CacheLeft = &load, min(h.Left, r.CacheTotal)
	}
	return v
}
