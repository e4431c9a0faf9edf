package wiring

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

// SwarmOptions say which swarm to join and how.
type SwarmOptions struct {
	InitialPeers []string
	Swarm        string
	SwarmKey     string
	AllowPeers   []string // ids, addresses and prefixes; the initial peers are allowed too
	DenyPeers    []string
	allow, deny  p2p.List
	key          []byte // of an invitation to a private swarm; nil for none
	residual     string // of the invitation, then of the node's own where that is not the default; for invitations
	source       string // where the model is fetched from, for invitations; "" for files of this machine
}

// check reads the addresses.
func (f *SwarmOptions) check() error {
	cfg := dir.DefaultConfig()
	if cfg.Swarm = f.Swarm; cfg.Validate() != nil {
		return Usagef("--swarm: %w", cfg.Validate())
	}
	if f.SwarmKey != "" {
		if _, err := os.Stat(f.SwarmKey); err != nil {
			return Usagef("--swarm-key: %w: all nodes of a private swarm have a copy of one file; docs/howto/swarm.md says how to make it", err)
		}
	}
	if err := f.checkPeers(); err != nil {
		return err
	}
	return f.checkLists()
}

// checkLists reads whom the operator allows and denies.
func (f *SwarmOptions) checkLists() (err error) {
	if f.allow, err = p2p.ParseList(f.AllowPeers); err != nil {
		return Usagef("--allow-peers: %w", err)
	}
	if f.deny, err = p2p.ParseList(f.DenyPeers); err != nil {
		return Usagef("--deny-peers: %w", err)
	}
	if !f.allow.Empty() {
		for _, a := range f.InitialPeers {
			f.allow.Add(a)
		}
	}
	return nil
}

// checkPeers keeps the initial peers that can be read. One wrong address among good ones must
// not keep a node out of its swarm: it is named and left out.
func (f *SwarmOptions) checkPeers() error {
	var good []string
	var bad []error
	for _, s := range f.InitialPeers {
		if err := p2p.CheckPeer(s); err != nil {
			bad = append(bad, err)
		} else {
			good = append(good, s)
		}
	}
	if len(good) == 0 && len(bad) > 0 {
		return Usagef("--initial-peers: %w", errors.Join(bad...))
	}
	for _, err := range bad {
		slog.Warn("an initial peer is left out", "reason", err)
	}
	f.InitialPeers = good
	return nil
}

// NodeOptions are those of every long-running node.
type NodeOptions struct {
	SwarmOptions
	NewSwarm bool
	DataOptions
	IdentityPath  string
	HostMaddrs    []string
	anyPort       bool // neither --port nor --host-maddrs is given: that of the last run, or a free one
	AnnounceMaddr []string
	Port          int
	PublicIP      string
	Expiration    time.Duration
	UpdatePeriod  time.Duration
	NetworkMemory Size
	Relay         RelayOptions
	AutoRelay     bool // be reached through relays if nobody can dial this node
	NoMapping     bool
	ReadyFile     string
	InviteFile    string
	PrintConfig   bool

	Show func(context.Context, *Node) // draws the node until the context ends; nil: nobody looks
}

// UpdatePeriod is the default time between announcements, expirations twice that: a killed
// server is gone from every view within a minute.
const UpdatePeriod = 30 * time.Second

// minExpiration lets others miss some of their exchanges, which come every 3 s.
const minExpiration = 12 * time.Second

// check refuses what cannot work before anything is made or opened, and completes
// defaults that depend on each other.
func (f *NodeOptions) check(given given) error {
	if f.NewSwarm && len(f.InitialPeers) > 0 {
		return Usagef("--new-swarm founds a swarm and --initial-peers joins one: give one of them")
	}
	if !f.NewSwarm && len(f.InitialPeers) == 0 {
		what := "no swarm given"
		if given("initial-peers") {
			what = "--initial-peers is empty"
		}
		return Usagef("%s: name a peer with --initial-peers ADDR or found a swarm with --new-swarm", what)
	}
	if err := f.SwarmOptions.check(); err != nil {
		return err
	}
	if err := f.checkData(); err != nil {
		return err
	}
	if f.Port < 0 || f.Port > 65535 {
		return Usagef("--port %d: want 0 to 65535", f.Port)
	}
	if given("port") && len(f.HostMaddrs) > 0 {
		return Usagef("--port and --host-maddrs exclude each other: the addresses hold the ports")
	}
	f.anyPort = f.Port == 0 && len(f.HostMaddrs) == 0
	if len(f.HostMaddrs) == 0 {
		f.HostMaddrs = f.offered(p2p.DefaultMaddrs(f.Port))
	} else if f.private() && len(p2p.TCPOnly(f.HostMaddrs)) < len(f.HostMaddrs) {
		return Usagef("--host-maddrs: a swarm key protects TCP only, so that QUIC is off in a private swarm: leave out the addresses of UDP")
	}
	if f.PublicIP != "" {
		if err := f.announcePublic(); err != nil {
			return err
		}
	}
	if f.UpdatePeriod <= 0 {
		return Usagef("--update-period %v: want more than 0", f.UpdatePeriod)
	}
	if f.Expiration == 0 {
		f.Expiration = max(2*f.UpdatePeriod, minExpiration)
	}
	if f.Expiration < f.UpdatePeriod || f.Expiration > swarm.MaxLifetime {
		return Usagef("--expiration %v: want at least --update-period (%v), or the node would vanish in between, and at most %v", f.Expiration, f.UpdatePeriod, swarm.MaxLifetime)
	}
	return f.Relay.check()
}

func (f *NodeOptions) announcePublic() error {
	ip, err := netip.ParseAddr(f.PublicIP)
	family := "ip4"
	if ip.Is6() {
		family = "ip6"
	}
	switch {
	case err != nil || ip.Zone() != "" || ip.IsLoopback() || ip.IsUnspecified():
		return Usagef("--public-ip %q: want the IPv4 or IPv6 address at which others reach this node, such as 203.0.113.7", f.PublicIP)
	case f.Port == 0:
		return Usagef("--public-ip needs --port: others must know which port to reach")
	case len(f.AnnounceMaddr) > 0:
		return Usagef("--public-ip and --announce-maddrs exclude each other: give one")
	}
	f.AnnounceMaddr = f.offered([]string{fmt.Sprintf("/%s/%s/tcp/%d", family, ip, f.Port), fmt.Sprintf("/%s/%s/udp/%d/quic-v1", family, ip, f.Port)})
	return nil
}

// offered are those addresses whose transport the swarm can use: with a key, those of TCP.
func (f *NodeOptions) offered(maddrs []string) []string {
	if f.private() {
		return p2p.TCPOnly(maddrs)
	}
	return maddrs
}

// HTTPOptions are those of the HTTP listeners.
type HTTPOptions struct {
	Tunings               []string
	tuned                 []*Tuning // of those folders, after check
	HTTP, Admin           string
	HTTPToken, AdminToken string
	TokenFile             string // of HTTPToken
	AdminTokenFile        string // of AdminToken
	Keys                  string // where the keys of callers are
	Hosts, Origins        []string
	DatabaseURL           string
	Responses             string // where those of /v1/responses are kept: memory, database, off; "" for what there is
	UserSockets           int
	UserCache             float64
	RowMemory             Size
	AllowAdapters         []string
	AliasTexts            []string
	aliases               map[string]string // after check
	allowed               []swarm.Adapter   // of those on other servers, after check
	Answers               int
	Audit                 float64
	KeepChains            bool
	Verify                int
	Residual              string
	Ollama                bool
	ToolFormat            string
	adminBusy             bool // --admin was not given: where its port is in use, a free one does
}

const Off = "off"

func (f *HTTPOptions) check(given given) error {
	if _, err := tensor.ParseResidual(f.Residual); err != nil {
		return Usagef("--residual: %w", err)
	}
	if !(f.Audit >= 0 && f.Audit <= 1) {
		return Usagef("--audit %v: want 0 to 1, such as 0.01 for one session in a hundred", f.Audit)
	}
	switch f.Responses {
	case "", inMemory, Off:
	case inDatabase:
		if f.DatabaseURL == "" {
			return Usagef("--responses database: give --database-url too")
		}
	default:
		return Usagef("--responses %q: want memory, database or off", f.Responses)
	}
	if f.Verify < 0 || f.Verify > client.MaxVerify {
		return errVerify(f.Verify)
	}
	var err error
	if f.allowed, err = parseAllowed(f.AllowAdapters); err != nil {
		return Usagef("--allow-adapters: %w", err)
	}
	if f.aliases, err = parseAliases(f.AliasTexts); err != nil {
		return Usagef("--alias: %w", err)
	}
	if f.tuned, err = readTunings(f.Tunings, f.aliases); err != nil {
		return err
	}
	if _, port, err := net.SplitHostPort(f.HTTP); err == nil && port == "0" && !given("admin") && f.Admin != Off {
		f.Admin = AnyPort
	}
	f.adminBusy = !given("admin")
	for _, limit := range []struct {
		flag string
		err  error
	}{{"max-user-sockets", atLeastOne(f.UserSockets)}, {"max-answers", atLeastOne(f.Answers)}, {"user-cache", aShare(f.UserCache)}} {
		if limit.err != nil {
			return Usagef("--%s %w", limit.flag, limit.err)
		}
	}
	if err := f.readTokens(); err != nil {
		return err
	}
	for _, l := range []struct{ flag, addr, token string }{{"http", f.HTTP, f.HTTPToken}, {"admin", f.Admin, f.AdminToken}} {
		if l.addr == Off {
			continue
		}
		if err := api.CheckListen(l.addr, l.token, f.Keys != ""); err != nil {
			return Usagef("--%s: %w (--%s-token)", l.flag, err, l.flag)
		}
	}
	return nil
}

// ComputeOptions choose the device.
type ComputeOptions struct {
	Device  string
	Tier    string
	Threads int
}

// ModelOptions say which model and in which form.
type ModelOptions struct {
	Namespace string // --dht-prefix: models of one name in two namespaces do not meet
	Path      string
	Name      string
	DType     string
	Quant     string

	KVDType string
	KV      tensor.DType // after take
	invited string       // the UID that an invitation names; "" for none
	Place   string       // where its files are at a hub, as the invitation says; "" if they are at none
	Peers   bool         // after take: no files are named, and other nodes may have them

	Source Sources
	trees  treeCache
	Hub    HubOptions
}

// Take finds MODEL among arguments and flags; it may be missing if optional.
func (f *ModelOptions) Take(args []string, optional bool) error {
	if f.KVDType != "" {
		var err error
		if f.KV, err = parseKVDType(f.KVDType); err != nil {
			return Usagef("--kv-dtype: %w", err)
		}
	}
	if err := swarm.CheckNamespace(f.Namespace); err != nil {
		return Usagef("--dht-prefix: %w", err)
	}
	if err := f.Source.check(); err != nil {
		return err
	}
	f.Peers = len(args) == 0 && f.Path == "" && f.invited != ""
	switch {
	case len(args) > 0 && f.Path != "":
		return Usagef("MODEL is given twice, as %s and by --converted-model-name-or-path: give one", args[0])
	case len(args) > 0:
		f.Path = args[0]
	case f.Path == "" && !optional && !f.Peers:
		return Usagef("no MODEL given: name a model folder, a .gguf file or a model of the hub, such as owner/name")
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
	DefaultHTTP  = "127.0.0.1:8300"
	DefaultAdmin = "127.0.0.1:8301"
	// BootstrapAdmin leaves the other to a server or gateway of the same machine.
	BootstrapAdmin = "127.0.0.1:8302"
	AnyPort        = "127.0.0.1:0"
)
