package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/api"
	"whorl/api/calls"
	"whorl/client"
	"whorl/model"
	"whorl/swarm"
	"whorl/swarm/dir"
	"whorl/swarm/p2p"
	"whorl/swarm/trust"
	"whorl/tensor"
)

// swarmFlags say which swarm to join and how.
type swarmFlags struct {
	initialPeers []string
	swarm        string
	swarmKey     string
	key          []byte // of an invitation to a private swarm; nil for none
	source       string // where the model is fetched from, for invitations; "" for files of this machine
}

func (f *swarmFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.initialPeers, "initial-peers", nil, "`ADDR`[,ADDR...] of nodes to join, as /ip4/HOST/tcp/PORT/p2p/ID, or names of lists in DNS; may be repeated")
	fs.StringVar(&f.swarm, "swarm", "main", "`NAME` of the swarm: swarms of other names are not seen")
	fs.StringVar(&f.swarmKey, "swarm-key", "", "`FILE` with the pre-shared key of a private swarm")
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
}

// updatePeriod is the default time between announcements, expirations twice that: a killed
// server is gone from every view within a minute.
const updatePeriod = 30 * time.Second

// minExpiration lets others miss some of their exchanges, which come every 3 s.
const minExpiration = 12 * time.Second

func (f *nodeFlags) add(fs *pflag.FlagSet) {
	f.swarmFlags.add(fs)
	fs.BoolVar(&f.newSwarm, "new-swarm", false, "found a new swarm instead of joining one")
	fs.StringVar(&f.identityPath, "identity-path", "", "`FILE` with the node's private key, made if missing; default: one in --data-dir")
	f.dataFlags.add(fs)
	fs.StringSliceVar(&f.hostMaddrs, "host-maddrs", nil, "`MADDR`s to listen on; default: all interfaces on --port")
	fs.StringSliceVar(&f.announceMaddr, "announce-maddrs", nil, "`MADDR`s to announce; default: those of the interfaces")
	fs.IntVar(&f.port, "port", 0, "port of all interfaces, of TCP and of UDP (QUIC); 0 takes that of the last run, or a free one")
	fs.StringVar(&f.publicIP, "public-ip", "", "`IP` under which --port can be reached from outside")
	f.updatePeriod = updatePeriod
	secondsVar(fs, &f.updatePeriod, "update-period", "time between announcements")
	secondsVar(fs, &f.expiration, "expiration", "lifetime of an announcement; 0: twice --update-period, at least 12 s")
	fs.Var(&f.networkMemory, "network-memory", "bytes for connections of peers and their streams; 0: by --memory, or 512 MiB")
	f.relay.add(fs)
	fs.BoolVar(&f.noMapping, "no-port-mapping", false, "do not ask the router (UPnP, NAT-PMP) to forward the port")
	fs.StringVar(&f.readyFile, "ready-file", "", "`FILE` written as JSON once the node is usable")
	fs.StringVar(&f.inviteFile, "invitation-file", "", "`FILE` that an invitation is written to once the node is usable; other nodes take it as @FILE")
	fs.BoolVar(&f.printConfig, "print-config", false, "show each effective value and its source, and exit")
}

// check refuses what cannot work before anything is made or opened, and completes
// defaults that depend on each other.
func (f *nodeFlags) check(cmd *cobra.Command) error {
	from := sourcesOf(cmd)
	if f.newSwarm && len(f.initialPeers) > 0 {
		return usagef("--new-swarm founds a swarm and --initial-peers joins one: give one of them")
	}
	if !f.newSwarm && len(f.initialPeers) == 0 {
		what := "no swarm given"
		if from.given("initial-peers") {
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
	if from.given("port") && len(f.hostMaddrs) > 0 {
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

func (f *httpFlags) add(fs *pflag.FlagSet, http, admin string) {
	fs.StringVar(&f.http, "http", http, "`ADDR` of the public API and dashboard, or off; port 0 takes a free one")
	fs.StringVar(&f.admin, "admin", admin, "`ADDR` of the control plane, or off; where it is not given and its port is in use, or --http has port 0, a free one")
	fs.StringVar(&f.httpToken, "http-token", "", "token that --http asks for; required beyond loopback, unless there are --keys (better as WHORL_HTTP_TOKEN: others can read command lines)")
	fs.StringVar(&f.tokenFile, "http-token-file", "", "`FILE` with that token; made, with a new one, if missing")
	fs.StringVar(&f.adminToken, "admin-token", "", "token that --admin asks for; required beyond loopback, unless there are --keys")
	fs.StringVar(&f.keys, "keys", "", keysHelp)
	fs.StringSliceVar(&f.hosts, "http-host", nil, "further host `NAME`s of this node, such as that of a proxy")
	fs.StringSliceVar(&f.origins, "http-origin", nil, "`ORIGIN`s of sites whose pages may generate here, such as https://chat.example.org")
	def := api.DefaultLimits()
	fs.IntVar(&f.userSockets, "max-user-sockets", def.Sockets, "most WebSockets from one address")
	fs.Float64Var(&f.userCache, "user-cache", def.UserCache, "share of a model's KV cache that the WebSockets from one address may hold, above 0 to 1; a first session may hold more")
	fs.StringSliceVar(&f.aliasTexts, "alias", nil, "other names of models, as `NAME=MODEL`[,NAME=MODEL...]; MODEL may have an adapter (MODEL:NAME)")
	fs.StringSliceVar(&f.allowAdapters, "allow-adapters", nil, "`NAME[@DIGEST]`s of LoRA adapters on other servers that users may ask for as MODEL:NAME")
	fs.IntVar(&f.answers, "max-answers", def.Answers, "most answers to one prompt of a request (n)")
	f.audit = trust.DefaultAuditRates().Steady
	fs.BoolVar(&f.ollama, "ollama", false, "routes of Ollama's on --http too: /api/chat, /api/generate, /api/tags, /api/show, /api/version")
	fs.StringVar(&f.toolFormat, "tool-format", "", "the format, by `NAME`, in which models call tools: "+strings.Join(calls.Names(), ", ")+"; default: what their chat templates tell")
	fs.StringVar(&f.databaseURL, "database-url", "", "Postgres `URL` for the dashboard's history; default: memory")
}

// addSessions is for nodes that generate.
func (f *httpFlags) addSessions(fs *pflag.FlagSet) {
	addResidual(fs, &f.residual)
	fs.IntVar(&f.verify, "verify", 1, "`N` chains of servers without a common one compute every token, 1 to 3, and are compared before it is shown; requests may say (whorl_verify)")
	fs.StringSliceVar(&f.tunings, "prompt-tuning", nil, "`DIR[,DIR...]` of prompts that whorl tune has trained, or the PEFT library: users ask for MODEL:NAME, the name of the folder")
	fs.BoolVar(&f.keepChains, "keep-chains", false, "running sessions stay with their servers, also where others have become clearly better")
	fs.Float64Var(&f.audit, "audit", f.audit, "share of sessions, 0 to 1, that others compute again, to find servers that lie; of new servers it is more. 0: none at all")
}

// addResidual is for whoever opens sessions.
func addResidual(fs *pflag.FlagSet, residual *string) {
	fs.StringVar(residual, "residual", "f32", "rows between blocks as f32, or rounded to bf16: half the bytes on the network, and answers that differ a little")
}

func (f *httpFlags) check(cmd *cobra.Command) error {
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
	if _, port, err := net.SplitHostPort(f.http); err == nil && port == "0" && !sourcesOf(cmd).given("admin") && f.admin != off {
		f.admin = anyPort
	}
	f.adminBusy = !sourcesOf(cmd).given("admin")
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

func (f *computeFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.device, "device", "cpu", "`DEVICE` to compute on: cpu or cuda[:i]")
	fs.StringVar(&f.tier, "cpu-tier", "auto", "kernels to use: auto, avx512, avx2 or generic; the results are the same")
	fs.IntVar(&f.threads, "threads", 0, "threads to compute with; 0: one per core")
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

func (f *modelFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "converted-model-name-or-path", "", "another way to name MODEL")
	fs.StringVar(&f.name, "model-name", "", "`NAME` under which the model is served; default: that of the file or folder, or owner/name")
	fs.StringVar(&f.dtype, "dtype", "auto", "float weights as auto (as stored), float32 (f32), bfloat16 (bf16) or float16 (f16)")
	fs.StringVar(&f.quant, "quant", "none", "quantise the blocks at load: none (as stored), "+either(model.Quantisers())+" (int8: LLM.int8(), nf4: QLoRA)")
	f.hub.add(fs)
	f.source.add(fs)
	fs.StringVar(&f.kvDType, "kv-dtype", "f32", "KV cache as float32 (f32), or bfloat16 (bf16) in half the memory; another class of servers")
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

// atMostOneModel is the argument check of commands whose MODEL may come from elsewhere.
func atMostOneModel(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneModel(cmd, args)
}
