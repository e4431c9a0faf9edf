package p2p

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Host. The zero value listens on a free port of every interface with a fresh
// identity.
type Config struct {
	IdentityPath  string   // file with the private key, made if absent; "" keeps it in memory
	SwarmKeyPath  string   // file with the pre-shared key of a private swarm; "" for an open one
	HostMaddrs    []string // what to listen on; nil for DefaultMaddrs(0)
	AnnounceMaddr []string // what to tell others instead of the listening addresses
	Agent         string   // software and version, seen by peers
	Registerer    prometheus.Registerer
	Log           *slog.Logger
}

// DefaultMaddrs listens on a TCP port of every interface; 0 takes a free one.
func DefaultMaddrs(port int) []string {
	return []string{fmt.Sprintf("/ip4/0.0.0.0/tcp/%d", port), fmt.Sprintf("/ip6/::/tcp/%d", port)}
}

const (
	// dialTimeout bounds one dial of one peer; a dead address family costs no more.
	dialTimeout = 5 * time.Second
	// addrTTL keeps a peer's addresses from its record: longer than any record lives.
	addrTTL = time.Hour
	// maxStreamsPerPeer allows every session of a busy pair of servers a stream each way.
	maxStreamsPerPeer = 4096
	// maxStreams allows a gateway with thousands of sessions through several stages.
	maxStreams = 1 << 16
	// maxPeerMemory lets a peer have several of the largest frames in flight.
	maxPeerMemory = 1 << 30
	// maxConns is sized for a swarm of a few thousand nodes; idle connections are closed,
	// down to trimTo, before new ones must be refused.
	maxConns = 4096
	trimAt   = maxConns * 3 / 4
	trimTo   = maxConns / 2
	// maxHandshakes is how many connections may be half open: a whole swarm that returns.
	maxHandshakes = 1024
)

// ErrIdentityInUse says that another process holds the identity.
var ErrIdentityInUse = errors.New("identity is in use")
