package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"whorl/api"
	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/dir"
	"whorl/swarm/p2p"
	"whorl/tensor"
)

// given tells whether somebody set an option, by the name of its flag.
type given = func(name string) bool

// swarmFlags say which swarm to join and how.
type swarmFlags struct {
	initialPeers []string
	swarm        string
	swarmKey     string
	key          []byte // of an invitation to a private swarm; nil for none
	source       string // where the model is fetched from, for invitations; "" for files of this machine
}

// check reads the addresses.
func (f *swarmFlags) check() error {
	cfg := dir.DefaultConfig()
	if cfg.Swarm = f.swarm; cfg.Validate() != nil {
		return usagef("--swarm: %w", cfg.Validate())
	}
	if f.swarmKey != "" {
		if _, err := os.Stat(f.swarmKey); err != nil {
			return usagef("--swarm-key: %w: all nodes of a private swarm have a copy of one file; docs/howto/swarm.md says how to make it", err)
		}
	}
	return f.checkPeers()
}

// checkPeers keeps the initial peers that can be read. One wrong address among good ones must
// not keep a node out of its swarm: it is named and left out.
func (f *swarmFlags) checkPeers() error {
	var good []string
	var bad []error
	for _, s := range f.initialPeers {
		if err := p2p.CheckPeer(s); err != nil {
			bad = append(bad, err)
		} else {
			good = append(good, s)
		}
	}
	if len(good) == 0 && len(bad) > 0 {
		return usagef("--initial-peers: %w", errors.Join(bad...))
	}
	for _, err := range bad {
		slog.Warn("an initial peer is left out", "reason", err)
	}
	f.initialPeers = good
	return nil
}

// nodeFlags are those of every long-running node.
type nodeFlags struct {
	swarmFlags
	newSwarm bool
	dataFlags
	identityPath  string
	hostMaddrs    []string
	anyPort       bool // neither --port nor --host-maddrs is given: that of the last run, or a free one
	announceMaddr []string
	port          int
	publicIP      string
	expiration    time.Duration
	updatePeriod  time.Duration
	networkMemory size
	relay         relayFlags
	autoRelay     bool // be reached through relays if nobody can dial this node
	noMapping     bool
	readyFile     string
	inviteFile    string
	printConfig   bool

	show func(context.Context, *node) // draws the node until the context ends; nil: nobody looks
}

// updatePeriod is the default time between announcements, expirations twice that: a killed
// server is gone from every view within a minute.
const updatePeriod = 30 * time.Second

// minExpiration lets others miss some of their exchanges, which come every 3 s.
const minExpiration = 12 * time.Second

// check refuses what cannot work before anything is made or opened, and completes
// defaults that depend on each other.
func (f *nodeFlags) check(given given) error {
	if f.newSwarm && len(f.initialPeers) > 0 {
		return usagef("--new-swarm founds a swarm and --initial-peers joins one: give one of them")
	}
	if !f.newSwarm && len(f.initialPeers) == 0 {
		what := "no swarm given"
		if given("initial-peers") {
			what = "--initial-peers is empty"
		}
		return usagef("%s: name a peer with --initial-peers ADDR or found a swarm with --new-swarm", what)
	}
	if err := f.swarmFlags.check(); err != nil {
		return err
	}
	if err := f.checkData(); err != nil {
		return err
	}
	if f.port < 0 || f.port > 65535 {
		return usagef("--port %d: want 0 to 65535", f.port)
	}
	if given("port") && len(f.hostMaddrs) > 0 {
		return usagef("--port and --host-maddrs exclude each other: the addresses hold the ports")
	}
	f.anyPort = f.port == 0 && len(f.hostMaddrs) == 0
	if len(f.hostMaddrs) == 0 {
		f.hostMaddrs = f.offered(p2p.DefaultMaddrs(f.port))
	} else if f.private() && len(p2p.TCPOnly(f.hostMaddrs)) < len(f.hostMaddrs) {
		return usagef("--host-maddrs: a swarm key protects TCP only, so that QUIC is off in a private swarm: leave out the addresses of UDP")
	}
	if f.publicIP != "" {
		if err := f.announcePublic(); err != nil {
			return err
		}
	}
	if f.updatePeriod <= 0 {
		return usagef("--update-period %v: want more than 0", f.updatePeriod)
	}
	if f.expiration == 0 {
		f.expiration = max(2*f.updatePeriod, minExpiration)
	}
	if f.expiration < f.updatePeriod || f.expiration > swarm.MaxLifetime {
		return usagef("--expiration %v: want at least --update-period (%v), or the node would vanish in between, and at most %v", f.expiration, f.updatePeriod, swarm.MaxLifetime)
	}
	return f.relay.check()
}

func (f *nodeFlags) announcePublic() error {
	ip, err := netip.ParseAddr(f.publicIP)
	family := "ip4"
	if ip.Is6() {
		family = "ip6"
	}
	switch {
	case err != nil || ip.Zone() != "" || ip.IsLoopback() || ip.IsUnspecified():
		return usagef("--public-ip %q: want the IPv4 or IPv6 address at which others reach this node, such as 203.0.113.7", f.publicIP)
	case f.port == 0:
		return usagef("--public-ip needs --port: others must know which port to reach")
	case len(f.announceMaddr) > 0:
		return usagef("--public-ip and --announce-maddrs exclude each other: give one")
	}
	f.announceMaddr = f.offered([]string{fmt.Sprintf("/%s/%s/tcp/%d", family, ip, f.port), fmt.Sprintf("/%s/%s/udp/%d/quic-v1", family, ip, f.port)})
	return nil
}

// offered are those addresses whose transport the swarm can use: with a key, those of TCP.
func (f *nodeFlags) offered(maddrs []string) []string {
	if f.private() {
		return p2p.TCPOnly(maddrs)
	}
	return maddrs
}

// httpFlags are those of the HTTP listeners.
type httpFlags struct {
	tunings               []string
	http, admin           string
	httpToken, adminToken string
	tokenFile             string // of httpToken
	keys                  string // where the keys of callers are
	hosts, origins        []string
	databaseURL           string
	userSockets           int
	userCache             float64
	allowAdapters         []string
	aliasTexts            []string
	aliases               map[string]string // after check
	allowed               []swarm.Adapter   // of those on other servers, after check
	answers               int
	audit                 float64
	keepChains            bool
	verify                int
	residual              string
	ollama                bool
	toolFormat            string
	adminBusy             bool // --admin was not given: where its port is in use, a free one does
}

const off = "off"

func (f *httpFlags) check(given given) error {
	if _, err := tensor.ParseResidual(f.residual); err != nil {
		return usagef("--residual: %w", err)
	}
	if !(f.audit >= 0 && f.audit <= 1) {
		return usagef("--audit %v: want 0 to 1, such as 0.01 for one session in a hundred", f.audit)
	}
	if f.verify < 0 || f.verify > client.MaxVerify {
		return errVerify(f.verify)
	}
	var err error
	if f.allowed, err = parseAllowed(f.allowAdapters); err != nil {
		return usagef("--allow-adapters: %w", err)
	}
	if f.aliases, err = parseAliases(f.aliasTexts); err != nil {
		return usagef("--alias: %w", err)
	}
	if _, port, err := net.SplitHostPort(f.http); err == nil && port == "0" && !given("admin") && f.admin != off {
		f.admin = anyPort
	}
	f.adminBusy = !given("admin")
	for _, limit := range []struct {
		flag string
		err  error
	}{{"max-user-sockets", atLeastOne(f.userSockets)}, {"max-answers", atLeastOne(f.answers)}, {"user-cache", aShare(f.userCache)}} {
		if limit.err != nil {
			return usagef("--%s %w", limit.flag, limit.err)
		}
	}
	if err := f.readToken(); err != nil {
		return err
	}
	for _, l := range []struct{ flag, addr, token string }{{"http", f.http, f.httpToken}, {"admin", f.admin, f.adminToken}} {
		if l.addr == off {
			continue
		}
		if err := api.CheckListen(l.addr, l.token, f.keys != ""); err != nil {
			return usagef("--%s: %w (--%s-token)", l.flag, err, l.flag)
		}
	}
	return nil
}

// computeFlags choose the device.
type computeFlags struct {
	device  string
	tier    string
	threads int
}

// modelFlags say which model and in which form.
type modelFlags struct {
	path  string
	name  string
	dtype string
	quant string

	kvDType string
	kv      tensor.DType // after take
	invited string       // the UID that an invitation names; "" for none
	place   string       // where its files are at a hub, as the invitation says; "" if they are at none
	peers   bool         // after take: no files are named, and other nodes may have them

	source sourceFlag
	trees  treeCache
	hub    hubFlags
}

// take finds MODEL among arguments and flags; it may be missing if optional.
func (f *modelFlags) take(args []string, optional bool) error {
	if f.kvDType != "" {
		var err error
		if f.kv, err = parseKVDType(f.kvDType); err != nil {
			return usagef("--kv-dtype: %w", err)
		}
	}
	if err := f.source.check(); err != nil {
		return err
	}
	f.peers = len(args) == 0 && f.path == "" && f.invited != ""
	switch {
	case len(args) > 0 && f.path != "":
		return usagef("MODEL is given twice, as %s and by --converted-model-name-or-path: give one", args[0])
	case len(args) > 0:
		f.path = args[0]
	case f.path == "" && !optional && !f.peers:
		return usagef("no MODEL given: name a model folder, a .gguf file or a model of the hub, such as owner/name")
	}
	return nil
}

// parseKVDType reads the name of a type that a KV cache can have.
func parseKVDType(name string) (tensor.DType, error) {
	d, err := tensor.ParseDType(name)
	if err == nil {
		err = tensor.CheckKVDType(d)
	}
	return d, err
}

// Default addresses of the HTTP listeners.
const (
	defaultHTTP  = "127.0.0.1:8300"
	defaultAdmin = "127.0.0.1:8301"
	// bootstrapAdmin leaves the other to a server or gateway of the same machine.
	bootstrapAdmin = "127.0.0.1:8302"
	anyPort        = "127.0.0.1:0"
)
