package client

import (
	"time"

	"whorl/swarm"
)

const (
	// detourFor is how long it is remembered that one server cannot reach another: routers and
	// firewalls rarely change, and a session that tries again in vain pauses for seconds.
	detourFor = 10 * time.Minute
	// maxDetours bounds what is remembered.
	maxDetours = 1024
)

// pair is two servers of which the first cannot reach the second, as it says.
type pair struct{ from, to swarm.PeerID }

// detour notes that rows between two servers go through this client.
func (e *Engine) detour(from, to swarm.PeerID) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.detours) >= maxDetours {
		for p, at := range e.detours {
			if now.Sub(at) > detourFor {
				delete(e.detours, p)
			}
		}
		if len(e.detours) >= maxDetours {
			clear(e.detours) // whoever makes up so many is not worth a search for the oldest
		}
	}
	e.detours[pair{from, to}] = now
}

// detoured tells whether rows from one server to another go through this client.
func (e *Engine) detoured(from, to swarm.PeerID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.detours[pair{from, to}]
	return ok && time.Since(at) < detourFor
}
