package main

import (
	"log/slog"
	"strings"

	"whorl/internal/wiring"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// petalsNames lets the flags of Petals be written as Petals does, with underscores, and
// maps those that have another name here.
func petalsNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	switch name {
	case "torch-dtype":
		name = "dtype"
	case "quant-type":
		name = "quant"
	case "max-memory":
		name = "memory"
	case "use-auth-token":
		name = "token"
	}
	return pflag.NormalizedName(name)
}

// verdict is what becomes of a flag of Petals.
type verdict string

const (
	honoured verdict = "honoured"
	warned   verdict = "accepted with a warning"
	refused  verdict = "refused"
)

// petalsFlag is a flag of Petals' run_server or run_dht.
type petalsFlag struct {
	name    string // as Petals writes it
	verdict verdict
	note    string // what it does here, or why it does nothing
}

// flag is its name here.
func (p petalsFlag) flag() string { return string(petalsNames(nil, p.name)) }

// serverFlags are all flags of run_server, in the order of its help. docs/flags.md shows
// the same table and a test keeps the two together.
var serverFlags = []petalsFlag{
	{"config", honoured, "YAML instead of `key = value`; no file is read unless asked for"},
	{"converted_model_name_or_path", honoured, "another way to name MODEL"},
	{"public_name", honoured, "shown on the dashboard, which cuts it after 40 characters; at most 128 bytes"},
	{"token", honoured, "of the model hub; better as HF_TOKEN"},
	{"use_auth_token", honoured, "another way to write --token"},
	{"num_blocks", honoured, "how many blocks to choose"},
	{"block_indices", honoured, "`A:B`; not together with --num-blocks"},
	{"dht_prefix", honoured, "namespace in the manifest: models of one name under two prefixes do not meet, in one swarm or in two; without dots and spaces, as in Petals. No prefix is a namespace, too; an invitation names its own. Clients and gateways must give the same"},
	{"port", honoured, "of all interfaces, TCP and UDP (QUIC); not together with --host-maddrs"},
	{"public_ip", honoured, "announces `/ip4/IP/tcp/PORT` and `/ip4/IP/udp/PORT/quic-v1`, or those of an IPv6 address; needs --port"},
	{"no_auto_relay", honoured, "a server that nobody can dial is reached through two relays of the swarm, unless this is given"},
	{"host_maddrs", honoured, "multiaddrs to listen on: `/ip4/HOST/tcp/PORT`, `/ip4/HOST/udp/PORT/quic-v1`, the same of ip6; with a swarm key TCP only"},
	{"announce_maddrs", honoured, "multiaddrs to announce instead of those of the interfaces"},
	{"daemon_startup_timeout", warned, "there is no daemon to wait for: first peers are dialled all at once, for 5 s, and for 15 s more where somebody listens"},
	{"compression", honoured, "`none` only, since activations travel exact; other values are refused"},
	{"num_handlers", warned, "every stream has its own goroutine: there are no handler processes"},
	{"prefetch_batches", warned, "an iteration is formed from what is ready when the device is free"},
	{"sender_threads", warned, "every stream has its own writer"},
	{"inference_max_length", honoured, "longest session in tokens; default: the size of the cache"},
	{"min_batch_size", warned, "how long an iteration waits for others is measured, and decided anew each time (it had no effect in Petals either)"},
	{"max_batch_size", honoured, "most rows of one iteration"},
	{"max_chunk_size_bytes", warned, "attention walks the cache in pages and never holds a matrix of logits"},
	{"attn_cache_tokens", honoured, "KV cache in tokens; each takes room in every block of the span, half as much with --kv-dtype bf16"},
	{"cache_dir", honoured, "folder for models of the hub, and for what a node keeps between runs where --data-dir is not given"},
	{"max_disk_space", honoured, "of models that whorl fetched from the hub; those used longest ago go first, and none that is open"},
	{"device", honoured, "`cpu`; `cuda` is an error in a build without it; `mps` is refused: there are no kernels for Apple's GPUs, use `cpu`"},
	{"torch_dtype", honoured, "written --dtype here"},
	{"max_alloc_timeout", honoured, "longest wait of a session for cache"},
	{"revision", honoured, "of a MODEL that is a hub name, also written owner/name@revision"},
	{"throughput", honoured, "`auto` measures once and remembers it for the model, the length of the span and the device; `eval` measures anew, `dry-run` measures and exits, a number is announced as it is"},
	{"update_period", honoured, "time between announcements; default 30 s"},
	{"expiration", honoured, "lifetime of an announcement; default twice the update period, at least 12 s"},
	{"request_timeout", honoured, "whole time of a forward or backward pass of a client that trains; default 3 min. A step of a session has a deadline on the client"},
	{"session_timeout", honoured, "a session ends so long after the first token that follows its prompt or replay; default 30 min. Its client replays it when it goes on, and the text stays the same"},
	{"step_timeout", honoured, "a session without steps for this long ends, and is replayed when it goes on; default 5 min"},
	{"initial_peers", honoured, "separated by commas or repeated, also names of hosts (`/dns4/NAME/tcp/PORT/p2p/ID`) and of lists in DNS (`NAME` or `/dnsaddr/NAME`); there is no public list to fall back to"},
	{"new_swarm", honoured, "founds a swarm"},
	{"increase_file_limit", warned, "the runtime raises the open-file limit to what the system allows by itself"},
	{"stats_report_interval", honoured, "time between lines of the log with steps, sessions, cache, speed and mean batch; default: none. The figures are at /metrics at any time"},
	{"custom_module_path", refused, "no code is loaded from models or files"},
	{"identity_path", honoured, "made if missing; without it the identity lasts for one run"},
	{"balance_quality", honoured, "share of an even spread that the worst-served block may fall to before servers move; 0 never moves"},
	{"mean_balance_check_period", honoured, "mean time between looks; blocks without a holder are a reason to look at once"},
	{"quant_type", honoured, "written --quant here; default: as the file has it; `int8` and `nf4` have the numerics of LLM.int8() (threshold 6.0, outliers decided for each token) and QLoRA (blocks of 64, scales quantised twice), but routers of experts stay in float"},
	{"tensor_parallel_devices", refused, "a block is computed by one device: start a server per device"},
	{"skip_reachability_check", honoured, "members of the swarm try to dial a server before it is online; with this nobody is asked"},
	{"adapters", honoured, "folders on this machine, as the PEFT library saves them, or `owner/name[@revision]` of the hub; users ask for MODEL:NAME, the name of the folder or owner/name"},
}

// bootstrapFlags are those of run_dht that run_server lacks, or that mean something else
// there.
var bootstrapFlags = []petalsFlag{
	{"use_ipfs", refused, "a swarm has its own DHT: name its peers with --initial-peers"},
	{"no_relay", honoured, "a bootstrap node, and every node that others can dial, relays for members of its swarm"},
	{"use_auto_relay", honoured, "be reached through relays; a bootstrap node should rather be where others can dial it"},
	{"refresh_period", honoured, "time between status lines"},
}

// addInert adds the flags of a table that do nothing here; they are hidden from --help,
// which docs/flags.md completes.
func addInert(fs *pflag.FlagSet, table []petalsFlag) {
	for _, p := range table {
		if p.verdict == honoured || fs.Lookup(p.flag()) != nil {
			continue
		}
		fs.String(p.flag(), "", p.note)
		f := fs.Lookup(p.flag())
		f.NoOptDefVal, f.Hidden = "true", true
		if takesValue[p.name] {
			f.NoOptDefVal = ""
		}
	}
}

// takesValue are the inert flags that Petals gives a value, so that it is not taken for
// MODEL.
var takesValue = map[string]bool{
	"daemon_startup_timeout": true, "num_handlers": true, "prefetch_batches": true,
	"sender_threads": true, "min_batch_size": true, "max_chunk_size_bytes": true,
	"increase_file_limit": true,
	"custom_module_path":  true, "tensor_parallel_devices": true,
}

// checkInert refuses flags that cannot be obeyed and warns of those that change nothing.
func checkInert(cmd *cobra.Command, table []petalsFlag) error {
	from := sourcesOf(cmd)
	for _, p := range table {
		if p.verdict == refused && from.given(p.flag()) {
			return wiring.Usagef("--%s cannot be obeyed: %s", p.flag(), p.note)
		}
	}
	for _, p := range table {
		if p.verdict == warned && from.given(p.flag()) {
			slog.Warn("flag has no effect", "flag", "--"+p.flag(), "why", p.note)
		}
	}
	return nil
}
