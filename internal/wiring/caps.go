package wiring

import (
	"time"

	"whorl/server"
)

// CapOptions say what the sessions of others may hold of a server, and for how long.
type CapOptions struct {
	Sessions, PeerSessions, PrefixSessions int
	PeerCache, PrefixCache                 float64
	Lease, Rest                            time.Duration
}

// check refuses wrong values by the name of their flag.
func (f *CapOptions) check() error {
	switch {
	case f.Sessions < 1 || f.PeerSessions < 1 || f.PrefixSessions < 1:
		return Usagef("--max-sessions %d, --max-peer-sessions %d, --max-prefix-sessions %d: want at least 1", f.Sessions, f.PeerSessions, f.PrefixSessions)
	case !(f.PeerCache > 0 && f.PeerCache <= 1) || !(f.PrefixCache > 0 && f.PrefixCache <= 1):
		return Usagef("--peer-cache %v, --prefix-cache %v: want above 0 and at most 1, such as 0.5 for half", f.PeerCache, f.PrefixCache)
	case f.Lease <= 0 || f.Rest <= 0:
		return Usagef("--session-lease %v and --session-rest %v: want more than 0", f.Lease, f.Rest)
	}
	return nil
}

func (f *CapOptions) apply(c *server.Config) {
	c.MaxSessions, c.PeerSessions, c.PrefixSessions = f.Sessions, f.PeerSessions, f.PrefixSessions
	c.PeerCache, c.PrefixCache = f.PeerCache, f.PrefixCache
	c.Timeouts.Lease, c.Timeouts.Rest = f.Lease, f.Rest
}
