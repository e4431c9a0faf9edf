package p2p

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	madns "github.com/multiformats/go-multiaddr-dns"
	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Host. The zero value listens on a free port of every interface with a fresh
// identity.
type Config struct {
	IdentityPath  string   // file with the private key, made if absent; "" keeps it in memory
	SwarmKeyPath  string   // file with the pre-shared key of a private swarm; "" for an open one
	SwarmKey      []byte   // the 32 bytes of that key, of those who have it from an invitation
	HostMaddrs    []string // what to listen on; nil for DefaultMaddrs(0)
	AnnounceMaddr []string // what to tell others instead of the listening addresses
	Agent         string   // software and version, seen by peers
	// Memory is what connections and their streams may take, in bytes; 0 for 512 MiB. It bounds
	// how many there are.
	Memory int64
	// Exempt are the address prefixes whose peers have no common share; nil for loopback.
	Exempt []netip.Prefix
	// Allow and Deny are peers: with nobody of Deny is there any connection, and unless Allow is empty
	// with nobody else than it names.
	Allow, Deny List
	// Relay has this node relay for members of its swarm that cannot be dialled; nil: for nobody.
	Relay *RelayLimits
	// AutoRelay has this node be reached through relays where it cannot be dialled.
	AutoRelay bool
	// PortMapping asks the router (UPnP, NAT-PMP) to forward the ports; given back at Close.
	PortMapping bool
	Registerer  prometheus.Registerer
	Log         *slog.Logger

	names *madns.Resolver // of tests; nil for the system's
}

// complete fills in defaults, reads the swarm key, and refuses what cannot work.
func (c *Config) complete() error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.SwarmKeyPath != "" {
		var err error
		if c.SwarmKey, err = SwarmKey(c.SwarmKeyPath); err != nil {
			return err
		}
	}
	if len(c.HostMaddrs) == 0 {
		if c.HostMaddrs = DefaultMaddrs(0); c.SwarmKey != nil {
			c.HostMaddrs = TCPOnly(c.HostMaddrs)
		}
	}
	if c.SwarmKey != nil && len(TCPOnly(c.HostMaddrs)) < len(c.HostMaddrs) {
		return fmt.Errorf("listen addresses %s: a swarm key protects TCP only: leave out those of QUIC", strings.Join(c.HostMaddrs, ", "))
	}
	c.HostMaddrs = onePort(c.HostMaddrs)
	return nil
}

const (
	// dialTimeout bounds one dial of one peer; a dead address family costs no more.
	dialTimeout = 5 * time.Second
	// addrTTL keeps a peer's addresses from its record: longer than any record lives.
	addrTTL = time.Hour
	// defaultMemory is enough for a gateway with hundreds of sessions through several stages,
	// in a swarm of a thousand nodes.
	defaultMemory = 512 << 20
	// maxHandshakes is how many connections may be half open: a whole swarm that returns.
	maxHandshakes = 1024
	// askers is how many streams a peer may have of a protocol that is asked and answered once.
	askers = 8
)

// ErrIdentityInUse says that another process holds the identity.
var ErrIdentityInUse = errors.New("identity is in use")
