package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/api/calls"
	"whorl/internal/wiring"
	"whorl/model"
)

func addSwarm(fs *pflag.FlagSet, f *wiring.SwarmOptions) {
	f.Defaults()
	fs.StringSliceVar(&f.InitialPeers, "initial-peers", nil, "`ADDR`[,ADDR...] of nodes to join, as /ip4/HOST/tcp/PORT/p2p/ID, or names of lists in DNS; may be repeated")
	fs.StringVar(&f.Swarm, "swarm", f.Swarm, "`NAME` of the swarm: swarms of other names are not seen")
	fs.StringVar(&f.SwarmKey, "swarm-key", "", "`FILE` with the pre-shared key of a private swarm")
	fs.StringSliceVar(&f.AllowPeers, "allow-peers", nil, "`PEER`s to have connections with, as ids, IP addresses or prefixes, and with no others but --initial-peers; default: all")
	fs.StringSliceVar(&f.DenyPeers, "deny-peers", nil, "`PEER`s to have no connections with, as ids, IP addresses or prefixes")
}

func addNode(fs *pflag.FlagSet, f *wiring.NodeOptions) {
	f.Defaults()
	addSwarm(fs, &f.SwarmOptions)
	fs.BoolVar(&f.NewSwarm, "new-swarm", false, "found a new swarm instead of joining one")
	fs.StringVar(&f.IdentityPath, "identity-path", "", "`FILE` with the node's private key, made if missing; default: one in --data-dir")
	addData(fs, &f.DataOptions)
	fs.StringSliceVar(&f.HostMaddrs, "host-maddrs", nil, "`MADDR`s to listen on; default: all interfaces on --port")
	fs.StringSliceVar(&f.AnnounceMaddr, "announce-maddrs", nil, "`MADDR`s to announce; default: those of the interfaces")
	fs.IntVar(&f.Port, "port", 0, "port of all interfaces, of TCP and of UDP (QUIC); 0 takes that of the last run, or a free one")
	fs.StringVar(&f.PublicIP, "public-ip", "", "`IP` under which --port can be reached from outside")
	secondsVar(fs, &f.UpdatePeriod, "update-period", "time between announcements")
	secondsVar(fs, &f.Expiration, "expiration", "lifetime of an announcement; 0: twice --update-period, at least 12 s")
	fs.Var(&f.NetworkMemory, "network-memory", "bytes for connections of peers and their streams; 0: by --memory, or 512 MiB")
	addRelay(fs, &f.Relay)
	fs.BoolVar(&f.NoMapping, "no-port-mapping", false, "do not ask the router (UPnP, NAT-PMP) to forward the port")
	fs.StringVar(&f.ReadyFile, "ready-file", "", "`FILE` written as JSON once the node is usable")
	fs.StringVar(&f.InviteFile, "invitation-file", "", "`FILE` that an invitation is written to once the node is usable; other nodes take it as @FILE")
	fs.BoolVar(&f.PrintConfig, "print-config", false, "show each effective value and its source, and exit")
}

func addHTTP(fs *pflag.FlagSet, f *wiring.HTTPOptions, http, admin string) {
	f.Defaults(http, admin)
	fs.StringVar(&f.HTTP, "http", f.HTTP, "`ADDR` of the public API and dashboard, or off; port 0 takes a free one")
	fs.StringVar(&f.Admin, "admin", f.Admin, "`ADDR` of the control plane, or off; where it is not given and its port is in use, or --http has port 0, a free one")
	fs.StringVar(&f.HTTPToken, "http-token", "", "token that --http asks for; required beyond loopback, unless there are --keys (better as WHORL_HTTP_TOKEN: others can read command lines)")
	fs.StringVar(&f.TokenFile, "http-token-file", "", "`FILE` with that token; made, with a new one, if missing")
	fs.StringVar(&f.AdminToken, "admin-token", "", "token that --admin asks for; required beyond loopback, unless there are --keys")
	fs.StringVar(&f.AdminTokenFile, "admin-token-file", "", "`FILE` with that token; made, with a new one, if missing")
	fs.StringVar(&f.Keys, "keys", "", wiring.KeysHelp)
	fs.StringSliceVar(&f.Hosts, "http-host", nil, "further host `NAME`s of this node, such as that of a proxy")
	fs.StringSliceVar(&f.Origins, "http-origin", nil, "`ORIGIN`s of sites whose pages may generate here, such as https://chat.example.org")
	fs.IntVar(&f.UserSockets, "max-user-sockets", f.UserSockets, "most WebSockets from one address")
	fs.Float64Var(&f.UserCache, "user-cache", f.UserCache, "share of a model's KV cache that the WebSockets from one address may hold, above 0 to 1; a first session may hold more")
	fs.Var(&f.RowMemory, "row-memory", "bytes for rows and gradients of users on /api/v1/hidden, of which one request takes at most half; 0: by --memory, or 512 MiB")
	fs.StringSliceVar(&f.AliasTexts, "alias", nil, "other names of models, as `NAME=MODEL`[,NAME=MODEL...]; MODEL may have an adapter (MODEL:NAME)")
	fs.StringSliceVar(&f.AllowAdapters, "allow-adapters", nil, "`NAME[@DIGEST]`s of LoRA adapters on other servers that users may ask for as MODEL:NAME")
	fs.IntVar(&f.Answers, "max-answers", f.Answers, "most answers to one prompt of a request (n)")
	fs.BoolVar(&f.Ollama, "ollama", false, "routes of Ollama's on --http too: /api/chat, /api/generate, /api/tags, /api/show, /api/version")
	fs.StringVar(&f.ToolFormat, "tool-format", "", "the format, by `NAME`, in which models call tools: "+strings.Join(calls.Names(), ", ")+"; default: what their chat templates tell")
	fs.StringVar(&f.DatabaseURL, "database-url", "", "Postgres `URL` for the dashboard's history, and for answers that are kept; default: memory")
	fs.StringVar(&f.Responses, "responses", "", wiring.ResponsesHelp)
}

// addSessions is for nodes that generate.
func addSessionsHTTP(fs *pflag.FlagSet, f *wiring.HTTPOptions) {
	addResidual(fs, &f.Residual)
	fs.IntVar(&f.Verify, "verify", f.Verify, "`N` chains of servers without a common one compute every token, 1 to 3, and are compared before it is shown; requests may say (whorl_verify)")
	fs.StringSliceVar(&f.Tunings, "prompt-tuning", nil, "`[MODEL=]DIR`[,...] of prompts by whorl tune or the PEFT library: users ask for MODEL:NAME, the name of the folder. Default MODEL: what they were trained on")
	fs.BoolVar(&f.KeepChains, "keep-chains", false, "running sessions stay with their servers, also where others have become clearly better")
	fs.Float64Var(&f.Audit, "audit", f.Audit, "share of sessions, 0 to 1, that others compute again, to find servers that lie; of new servers it is more. 0: none at all")
}

func addCompute(fs *pflag.FlagSet, f *wiring.ComputeOptions) {
	f.Defaults()
	fs.StringVar(&f.Device, "device", f.Device, "`DEVICE` to compute on: cpu or cuda[:i]")
	fs.StringVar(&f.Tier, "cpu-tier", f.Tier, "kernels to use: auto, avx512, avx2 or generic; the results are the same")
	fs.IntVar(&f.Threads, "threads", 0, "threads to compute with; 0: one per core")
}

func addModel(fs *pflag.FlagSet, f *wiring.ModelOptions) {
	f.Defaults()
	fs.StringVar(&f.Path, "converted-model-name-or-path", "", "another way to name MODEL")
	fs.StringVar(&f.Name, "model-name", "", "`NAME` under which the model is served; default: that of the file or folder, or owner/name")
	fs.StringVar(&f.DType, "dtype", f.DType, "float weights as auto (as stored), float32 (f32), bfloat16 (bf16) or float16 (f16)")
	fs.StringVar(&f.Quant, "quant", f.Quant, "quantise the blocks at load: none (as stored), "+either(model.Quantisers())+" (int8: LLM.int8(), nf4: QLoRA)")
	fs.StringVar(&f.Namespace, "dht-prefix", "", "`NAME` of a namespace, without dots: models of one name under different ones do not meet; invitations say it")
	addHub(fs, &f.Hub)
	addSource(fs, &f.Source)
	fs.StringVar(&f.KVDType, "kv-dtype", f.KVDType, "KV cache as float32 (f32), or bfloat16 (bf16) in half the memory; another class of servers")
}

func addData(fs *pflag.FlagSet, f *wiring.DataOptions) {
	fs.StringVar(&f.DataDir, "data-dir", "", "`FOLDER` for what nodes keep between runs, such as identity, port and peers; default: --cache-dir, or the user's data folder")
	fs.BoolVar(&f.Ephemeral, "ephemeral", false, "keep nothing between runs: a new identity each time")
	fs.StringVar(&f.CacheDir, "cache-dir", "", "`FOLDER` for models of the hub, and what --data-dir is for where that is not given; default: the cache of the hub's own client")
}

func addHub(fs *pflag.FlagSet, f *wiring.HubOptions) {
	fs.StringVar(&f.Token, "token", "", "`TOKEN` of the model hub, for gated and private models (better as HF_TOKEN: others can read command lines)")
	fs.StringVar(&f.Revision, "revision", "", "branch, tag or commit of a MODEL that is a hub name; default: main")
	fs.Var(&f.MaxDisk, "max-disk-space", "most `BYTES` of models that whorl keeps of a hub: those used longest ago go first; 0: no limit")
}

func addSource(fs *pflag.FlagSet, f *wiring.Sources) {
	fs.StringSliceVar((*[]string)(f), "source", *f, "`LIST` of where a model may come from: cache (of hub models here), swarm (nodes, for guests), hub; asked in this order")
}

func addShare(fs *pflag.FlagSet, f *wiring.ShareOptions) {
	fs.BoolVar(&f.Off, "no-share", false, "pass no files of the model on to other nodes")
	fs.Var(&f.MaxUpload, "max-upload", "most `BYTES` a second of files for other nodes, such as 2MB; 0: no limit. While the node computes for users they get a twentieth of it")
}

func addRelay(fs *pflag.FlagSet, f *wiring.RelayOptions) {
	f.Defaults()
	fs.BoolVar(&f.Off, "no-relay", false, "do not relay for members of the swarm that nobody can dial")
	fs.Var(&f.Rate, "relay-rate", "bytes a second that this node relays in all")
	fs.Var(&f.PeerRate, "relay-peer-rate", "bytes a second that it relays of one peer")
	fs.IntVar(&f.Limits.Reservations, "relay-reservations", f.Limits.Reservations, "most nodes that may be reached through this one")
	fs.IntVar(&f.Limits.Circuits, "relay-circuits", f.Limits.Circuits, "most connections that it relays")
	fs.IntVar(&f.Limits.PeerCircuits, "relay-peer-circuits", f.Limits.PeerCircuits, "most of them of one peer; each carries any number of sessions")
	secondsVar(fs, &f.Limits.Duration, "relay-duration", "a relayed connection ends after this, and its sessions go on over another")
}

func addCaps(fs *pflag.FlagSet, f *wiring.CapOptions) {
	f.Defaults()
	fs.IntVar(&f.Sessions, "max-sessions", f.Sessions, "most sessions at once")
	fs.IntVar(&f.PeerSessions, "max-peer-sessions", f.PeerSessions, "most sessions of one peer; the node's own gateway has no cap")
	fs.IntVar(&f.PrefixSessions, "max-prefix-sessions", f.PrefixSessions, "most sessions of all peers behind one address prefix")
	fs.Float64Var(&f.PeerCache, "peer-cache", f.PeerCache, "share of the KV cache that one peer may hold, above 0 to 1")
	fs.Float64Var(&f.PrefixCache, "prefix-cache", f.PrefixCache, "share of the KV cache that all peers behind one address prefix may hold, above 0 to 1")
	secondsVar(fs, &f.Lease, "session-lease", "a session that computes nothing keeps its cache this long when others need it")
	secondsVar(fs, &f.Rest, "session-rest", "a session keeps its cache this long after its last step when others need it")
}

func addMoves(fs *pflag.FlagSet, f *wiring.MoveOptions) {
	f.Defaults()
	fs.Float64Var(&f.Quality, "balance-quality", f.Quality, "move when the worst-served block has less than this share of an even spread; 0: never, also not for blocks without a holder")
	secondsVar(fs, &f.Check, "mean-balance-check-period", "mean time between looks whether other blocks need this server more")
}

func addPasses(fs *pflag.FlagSet, f *wiring.PassOptions) {
	f.Defaults()
	fs.BoolVar(&f.On, "passes", f.On, "compute forward and backward passes for clients that train, while no session wants the device")
	fs.IntVar(&f.Rows, "max-pass-rows", f.Rows, "most rows (tokens) of one pass")
	fs.IntVar(&f.Most, "max-passes", f.Most, "most passes at once; one is computed, the others wait")
	fs.Var(&f.Memory, "pass-memory", "bytes for the rows and the workspace of passes, such as 1GiB; 0: a thirty-second of --memory")
	secondsVar(fs, &f.Timeout, "request-timeout", "a pass that takes longer is ended")
}

func addAsk(fs *pflag.FlagSet, f *wiring.AskOptions) {
	f.Defaults()
	fs.BoolVar(&f.Local, "local", false, "compute in this process, without a network")
	addSwarm(fs, &f.Swarm)
	addModel(fs, &f.Model)
	addCompute(fs, &f.Compute)
	addAdapter(fs, &f.Adapter)
	fs.StringVar(&f.PromptTuning, "prompt-tuning", "", "`DIR` of prompts that whorl tune has trained, or the PEFT library: they go in front of everything")
	fs.StringVar(&f.Activations, "activations", f.Activations, "what meets quantised weights: auto (8-bit rows, fast) or f32 (exact weights and rows, slow)")
	addResidual(fs, &f.Residual)
	fs.IntVar(&f.Chunk, "prefill-chunk", 0, "most tokens of the prompt in one step; 0: by measured times. Results do not depend on it")
	secondsVar(fs, &f.StepTime, "step-deadline", "a server without progress for this long is replaced")
}

func addAdapter(fs *pflag.FlagSet, adapter *string) {
	fs.StringVar(adapter, "adapter", "", "LoRA adapter: the `NAME[@DIGEST]` of one that servers hold; with --local a folder, or owner/name[@revision] of the hub")
}

// addVerify adds the flag of commands that can have their answers computed several times.
func addVerify(fs *pflag.FlagSet, f *wiring.AskOptions) {
	fs.IntVar(&f.Verify, "verify", f.Verify, "`N` chains of servers without a common one compute every token, 1 to 3; with 2 and 3 no token is shown before all gave the same bits")
	fs.BoolVar(&f.Audit, "audit", false, "have other servers compute the answer again once it is there, and say whether their bits are the same")
}

// addResidual is for whoever opens sessions.
func addResidual(fs *pflag.FlagSet, residual *string) {
	fs.StringVar(residual, "residual", *residual, "rows between blocks as f32, or rounded to bf16: half the bytes on the network, and answers that differ a little")
}

// atMostOneModel is the argument check of commands whose MODEL may come from elsewhere.
func atMostOneModel(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneModel(cmd, args)
}

// openAsk opens what a command asks; nothing is computed or joined yet.
func openAsk(cmd *cobra.Command, f *wiring.AskOptions, args []string) (*wiring.Asker, error) {
	from := sourcesOf(cmd)
	if f.Local && from["initial-peers"] == fromFlag {
		return nil, wiring.Usagef("--local computes in this process and --initial-peers through a swarm: give one of them")
	}
	return f.Open(cmd.Context(), from.given, args)
}
