package node

import (
	"slices"

	"whorl/internal/wiring"
)

// Options are those of every node. The zero value founds a swarm of its own, keeps nothing between runs and
// has no HTTP.
type Options struct {
	// Swarm is the name of the swarm; swarms of other names are not seen. "": main.
	Swarm string
	// InitialPeers are nodes to join, as /ip4/HOST/tcp/PORT/p2p/ID or names of lists in DNS. None: the node
	// founds a swarm, unless its model is an invitation, which names them.
	InitialPeers []string
	// SwarmKey is the file with the key of a private swarm; "" for an open one.
	SwarmKey string
	// Listen are multiaddrs to listen on. None: all interfaces, on the port of the last run or a free one.
	Listen []string
	// Announce are multiaddrs to announce. None: those of the interfaces.
	Announce []string
	// DataDir is a folder for what a node keeps between runs, such as its identity. "": nothing is kept.
	DataDir string
	// CacheDir is a folder for models of a hub and of the swarm. "": that of the hub's own client, as Environ says.
	CacheDir string
	// HTTP is the address of the public API and dashboard, such as 127.0.0.1:8300, Admin that of the control
	// plane; port 0 takes a free one. "": off, but a gateway takes a free port of this machine for its HTTP.
	HTTP, Admin string
	// HTTPToken and AdminToken are what callers must show. An address beyond this machine needs one.
	HTTPToken, AdminToken string
	// Environ are variables as os.Environ gives them, of which those of a model hub are used (HF_TOKEN, HF_HOME,
	// proxies). nil: none.
	Environ []string
}

// ModelOptions say which model, in which form, and what computes it.
type ModelOptions struct {
	// Model is a folder with config.json and safetensors, a .gguf file, a model of the hub (owner/name), or an
	// invitation (whorl1...).
	Model string
	// Namespace is that of the model: those of one name in two namespaces do not meet. "" for most.
	Namespace string
	// ModelName is what it is served as. "": the name of the file or folder, or owner/name.
	ModelName string
	// DType, Quant and KVDType ask for a class (auto, none and f32 are the defaults). "": the class in which the
	// swarm serves the model.
	DType, Quant, KVDType string
	// Threads compute. 0: one per core.
	Threads int
}

// ServerOptions are those of a node that holds blocks.
type ServerOptions struct {
	Options
	ModelOptions
	// Blocks is a span such as 0:8. "": those that are served worst, as many as NumBlocks or, where that is 0, as
	// fit into Memory.
	Blocks    string
	NumBlocks int
	// Memory is for weights, cache and buffers, in bytes. 0: what is free, less a tenth.
	Memory int64
	// CacheTokens is the size of the KV cache in tokens. 0: by the model's kind of attention.
	CacheTokens int
	// Throughput is what the server announces: auto (measured once), eval or a number of tokens a second. "": auto.
	Throughput string
	// Adapters are LoRA adapters that sessions may ask for: folders, or owner/name[@revision] of the hub.
	Adapters []string
	// PublicName is shown on dashboards.
	PublicName string
	// SkipReachabilityCheck serves without asking others whether they can dial this node.
	SkipReachabilityCheck bool
}

// GatewayOptions are those of a node that serves HTTP and holds no blocks. Without a model it offers all that
// the swarm serves.
type GatewayOptions struct {
	Options
	ModelOptions
	// Memory is for what the gateway computes of the swarm's models itself, in bytes, where none is named. 0: half
	// of what is free.
	Memory int64
}

// BootstrapOptions are those of a node that others start from.
type BootstrapOptions struct{ Options }

// set tells which options somebody set, by the names of their flags.
type set map[string]bool

func (s set) given(name string) bool { return s[name] }

// text sets an option, unless it is to stay as it is.
func (s set) text(flag string, to *string, v string) {
	if v != "" {
		*to, s[flag] = v, true
	}
}

// node fills in what all nodes have.
func (o *Options) node(s set, n *wiring.NodeOptions, h *wiring.HTTPOptions, founds bool) {
	s.text("swarm", &n.Swarm, o.Swarm)
	s.text("swarm-key", &n.SwarmKey, o.SwarmKey)
	n.InitialPeers, s["initial-peers"] = slices.Clone(o.InitialPeers), len(o.InitialPeers) > 0
	n.NewSwarm = founds && len(o.InitialPeers) == 0
	n.HostMaddrs, n.AnnounceMaddr = slices.Clone(o.Listen), slices.Clone(o.Announce)
	n.DataDir, n.Ephemeral, n.CacheDir = o.DataDir, o.DataDir == "", o.CacheDir
	h.HTTP, h.Admin = wiring.Off, wiring.Off
	s.text("http", &h.HTTP, o.HTTP)
	s.text("admin", &h.Admin, o.Admin)
	s["admin"] = true // also where it is off
	h.HTTPToken, h.AdminToken = o.HTTPToken, o.AdminToken
}

// model fills in which model.
func (o *ModelOptions) model(s set, m *wiring.ModelOptions, c *wiring.ComputeOptions) {
	s.text("model-name", &m.Name, o.ModelName)
	s.text("dht-prefix", &m.Namespace, o.Namespace)
	s.text("dtype", &m.DType, o.DType)
	s.text("quant", &m.Quant, o.Quant)
	s.text("kv-dtype", &m.KVDType, o.KVDType)
	c.Threads = o.Threads
}
