package main

import (
	"time"

	"whorl/server"
)

// capFlags say what the sessions of others may hold of a server, and for how long.
type capFlags struct {
	sessions, peerSessions, prefixSessions int
	peerCache, prefixCache                 float64
	lease, rest                            time.Duration
}

// check refuses wrong values by the name of their flag.
func (f *capFlags) check() error {
	switch {
	case f.sessions < 1 || f.peerSessions < 1 || f.prefixSessions < 1:
		return usagef("--max-sessions %d, --max-peer-sessions %d, --max-prefix-sessions %d: want at least 1", f.sessions, f.peerSessions, f.prefixSessions)
	case !(f.peerCache > 0 && f.peerCache <= 1) || !(f.prefixCache > 0 && f.prefixCache <= 1):
		return usagef("--peer-cache %v, --prefix-cache %v: want above 0 and at most 1, such as 0.5 for half", f.peerCache, f.prefixCache)
	case f.lease <= 0 || f.rest <= 0:
		return usagef("--session-lease %v and --session-rest %v: want more than 0", f.lease, f.rest)
	}
	return nil
}

func (f *capFlags) apply(c *server.Config) {
	c.MaxSessions, c.PeerSessions, c.PrefixSessions = f.sessions, f.peerSessions, f.prefixSessions
	c.PeerCache, c.PrefixCache = f.peerCache, f.prefixCache
	c.Timeouts.Lease, c.Timeouts.Rest = f.lease, f.rest
}
