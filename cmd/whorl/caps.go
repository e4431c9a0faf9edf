package main

import (
	"time"

	"github.com/spf13/pflag"

	"whorl/server"
)

// capFlags say what the sessions of others may hold of a server, and for how long.
type capFlags struct {
	sessions, peerSessions, prefixSessions int
	peerCache, prefixCache                 float64
	lease, rest                            time.Duration
}

func (f *capFlags) add(fs *pflag.FlagSet, def *server.Config) {
	fs.IntVar(&f.sessions, "max-sessions", def.MaxSessions, "most sessions at once")
	fs.IntVar(&f.peerSessions, "max-peer-sessions", def.PeerSessions, "most sessions of one peer; the node's own gateway has no cap")
	fs.IntVar(&f.prefixSessions, "max-prefix-sessions", def.PrefixSessions, "most sessions of all peers behind one address prefix")
	fs.Float64Var(&f.peerCache, "peer-cache", def.PeerCache, "share of the KV cache that one peer may hold, above 0 to 1")
	fs.Float64Var(&f.prefixCache, "prefix-cache", def.PrefixCache, "share of the KV cache that all peers behind one address prefix may hold, above 0 to 1")
	f.lease, f.rest = def.Timeouts.Lease, def.Timeouts.Rest
	secondsVar(fs, &f.lease, "session-lease", "a session that computes nothing keeps its cache this long when others need it")
	secondsVar(fs, &f.rest, "session-rest", "a session keeps its cache this long after its last step when others need it")
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
