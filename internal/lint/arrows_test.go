package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// arrow says what a package may import of ours. Anything not listed is forbidden.
type arrow struct {
	from string
	to   []string
	why  string
}

// arrows is section 2 of docs/architecture.md. The first row that fits a folder counts.
var arrows = []arrow{
	{"content", nil, "names of bytes: files and swarms agree on them"},
	{"swarm", []string{"content"}, "the vocabulary: plain data that everything may import"},
	{"tensor", nil, "the Device contract: models and devices meet here and nowhere else"},
	{"server/sched", nil, "decides about steps without tensors or streams"},
	{"client/sample", nil, "turns logits into tokens: pure"},
	{"client/grammar", nil, "which tokens may come next, by a schema: pure, and knows no model"},
	{"model/tokenizer", []string{"content", "model/tokenizer/jinja"}, "text and ids, no tensors"},
	{"model/tokenizer/jinja", nil, "templates are texts"},
	{"migrations", nil, "SQL files"},
	{"api/gen", nil, "made from openapi.yaml"},
	{"web/view", nil, "components draw plain view models: they fetch nothing"},

	{"tensor/quant", []string{"tensor"}, "formats, for every device"},
	{"tensor/tensortest", []string{"tensor", "tensor/quant", "tensor/ref"}, "one suite that every device runs"},
	{"tensor/cpu/pool", nil, "threads and tiles: it knows no format and no tensor"},
	{"tensor/cpu/...", []string{"tensor", "tensor/quant", "tensor/cpu/pool"}, "a device knows operations, not models"},
	{"tensor/ref", []string{"tensor", "tensor/quant"}, "a device knows operations, not models"},
	{"gpu/...", []string{"tensor", "tensor/quant"}, "a device knows operations, not models"},
	{"model/nn", []string{"tensor", "tensor/quant"}, "layers are composed of device operations"},
	{"model/weights", []string{"internal/sharedfile", "tensor", "tensor/quant"}, "files hold matrices"},
	{"model/hub", []string{"content", "internal/atomicfile", "internal/backoff", "internal/sharedfile"}, "names, hashes and bytes of files; not what a tensor is"},
	{"model", []string{"content", "internal/atomicfile", "model/nn", "model/weights", "tensor", "tensor/quant"}, "a checkpoint becomes blocks on a device"},
	{"model/families", []string{"model", "model/..."}, "the list of families, and nobody else's business"},
	{"model/lora", []string{"model", "model/nn", "model/weights", "tensor"}, "an adapter is a small checkpoint beside a model's"},
	{"model/...", []string{"model", "model/nn", "tensor"}, "a family maps names and fields; it reads no files"},

	{"swarm/budget", nil, "shares of bytes and turns, whoever asks for them"},
	{"swarm/route", []string{"swarm"}, "policy over snapshots"},
	{"swarm/balance", []string{"swarm", "swarm/health"}, "policy over snapshots; what lacks is said in the words of health"},
	{"swarm/invite", nil, "a word that leads to a swarm: bytes and letters alone"},
	{"swarm/trust", []string{"content", "swarm", "swarm/proof"}, "remembers what peers did and judges them, and what they are accused of: pure"},
	{"swarm/health", []string{"swarm"}, "judges snapshots; the only place that does"},
	{"swarm/proof", []string{"content", "swarm"}, "what rows are named by: pure"},
	{"swarm/wire", []string{"content", "swarm", "swarm/proof"}, "bytes between nodes, whoever sends them"},
	{"swarm/share", []string{"content", "swarm", "swarm/wire", "swarm/budget"}, "bytes by their hashes, whatever they mean; whom to ask it is told"},
	{"swarm/evidence", []string{"swarm", "swarm/budget", "swarm/proof", "swarm/trust", "swarm/wire"}, "carries accusations; what is heard and what is so others decide"},
	{"swarm/codec", []string{"tensor"}, "activations as bytes: the only swarm package that knows tensor"},
	{"swarm/p2p", []string{"internal/atomicfile", "internal/backoff", "internal/sharedfile", "swarm", "swarm/wire", "swarm/budget"}, "streams, whatever they carry"},
	{"swarm/dir", []string{"content", "internal/atomicfile", "internal/backoff", "swarm", "swarm/wire", "swarm/p2p", "swarm/budget"}, "records travel in wire frames; the DHT needs the libp2p host itself, and signatures its key"},

	{"client/plan", []string{"swarm", "swarm/route"}, "what to replay where: pure, shared with a simulator"},
	{"client/chain", []string{"client/plan", "swarm"}, "the session as a pure machine: events in, actions out"},
	{"client/audit", []string{"content", "swarm"}, "who lied, by rows that differ: pure"},
	{"client", []string{"client/sample", "client/grammar", "client/plan", "client/chain", "client/audit", "content", "internal/backoff", "model", "model/tokenizer", "swarm", "swarm/health", "swarm/proof", "swarm/route", "swarm/trust", "swarm/wire", "swarm/budget", "swarm/codec", "tensor"},
		"a user's side sees no network library and no server"},
	{"client/train", []string{"client", "client/sample", "tensor"}, "what `whorl tune` runs: it decides numbers, and others compute and keep files"},
	{"server/kvcache", []string{"tensor"}, "hands out pages"},
	{"server/admission", []string{"tensor"}, "decides who holds cache: pure, and knows of pages only how many tokens they are"},
	{"server/blocks", []string{"content", "model", "model/lora", "model/nn", "server/kvcache", "tensor", "tensor/quant"}, "blocks on one device"},
	{"server", []string{"content", "internal/backoff", "internal/sysmem", "server/sched", "server/admission", "server/kvcache", "server/blocks", "model", "swarm", "swarm/balance", "swarm/health", "swarm/proof", "swarm/wire", "swarm/budget", "swarm/codec", "tensor", "tensor/quant"},
		"a swarm server sees no network library and no client"},

	{"store", []string{"internal/answers", "internal/keys", "swarm", "swarm/health", "migrations"}, "history of what the swarm said, a book of keys, and answers that callers go on from"},
	{"bench", []string{"model", "model/nn", "tensor", "tensor/quant"}, "drives a model's blocks on any device beside a ceiling that it is handed"},
	{"sim", []string{"swarm", "swarm/route", "swarm/balance", "swarm/health", "swarm/dir", "client/plan", "server/sched", "server/kvcache"}, "the pure packages in virtual time, and the pure part of the directory (dir.Book)"},
	{"web", []string{"web/view", "store", "swarm", "swarm/health"}, "pages of the swarm's state; answers come through the browser's own WebSocket"},
	{"api/calls", []string{"client/grammar"}, "how models call tools, in what they write: texts alone"},
	{"api", []string{"api/calls", "api/gen", "client", "client/grammar", "client/sample", "internal/answers", "internal/journal", "internal/keys", "internal/operations", "swarm", "swarm/budget", "swarm/health", "swarm/route", "swarm/trust"}, "what all dialects share: requests become sessions; sampling parameters are part of a request"},
	{"api/openai", []string{"api", "api/calls", "api/gen", "client", "client/grammar", "client/sample"}, "a dialect: its JSON to and from api.Ask and its events"},
	{"api/responses", []string{"api", "api/calls", "api/gen", "client", "client/grammar", "client/sample", "internal/answers", "swarm"}, "a dialect: it keeps what it said"},
	{"api/anthropic", []string{"api", "api/calls", "api/gen", "client", "client/grammar", "client/sample"}, "a dialect"},
	{"api/ollama", []string{"api", "api/calls", "api/gen", "client", "client/grammar", "client/sample"}, "a dialect"},
	{"api/petals", []string{"api", "api/gen", "client", "client/sample", "swarm", "swarm/health"}, "a dialect"},
	{"api/hidden", []string{"api", "api/gen", "client", "client/train", "swarm", "swarm/budget", "swarm/codec", "tensor"}, "a dialect of rows: bytes that are numbers, the losses that training has, and memory for both"},
	{"api/control", []string{"api", "api/gen", "internal/journal", "internal/keys", "internal/operations", "swarm", "swarm/health", "swarm/route", "swarm/trust"}, "a dialect"},
	{"api/routes", []string{"api", "api/gen", "api/openai", "api/anthropic", "api/ollama", "api/petals", "api/hidden", "api/responses", "api/control", "internal/keys"}, "joins the dialects; the only one that knows them all"},

	{"internal/answers", nil, "what callers may ask for again, for dialects and for whoever keeps it"},
	{"internal/answers/answerstest", []string{"internal/answers"}, "one suite for all shelves"},
	{"internal/atomicfile", nil, "whole files, for whoever keeps some"},
	{"internal/backoff", nil, "waits between attempts, for whoever tries again"},
	{"internal/journal", nil, "the last lines of something, for whoever tells of it"},
	{"internal/keys", []string{"internal/atomicfile", "internal/sharedfile"}, "who callers are: listeners and books of them"},
	{"internal/keys/keystest", []string{"internal/keys"}, "one suite for all books"},
	{"internal/operations", []string{"internal/atomicfile", "swarm"}, "what takes a while and is watched, for whoever does or shows it; its file has errors by their codes"},
	{"internal/courtesy", nil, "gives way to other programs, for whoever computes"},
	{"internal/service", nil, "texts that have systems start programs: pure"},
	{"internal/sharedfile", nil, "opens and locks files of several processes, for whoever has some"},
	{"internal/sysmem", nil, "what the system has free, for whoever plans memory"},
	{"internal/swarmtest", []string{"api", "api/hidden", "bench", "content", "client", "client/sample", "client/train", "server/...", "model/...", "swarm/...", "tensor/..."}, "whole swarms for tests"},
	{"internal/hostile", []string{"internal/swarmtest", "api", "client", "client/...", "server/...", "swarm/...", "tensor/..."}, "attacks on real nodes, for tests"},
	{"internal/e2e", []string{"internal/natlab"}, "the built binary, also on machines of a laboratory"},
	{"internal/wiring", []string{"api/...", "client/...", "content", "gpu", "internal/answers", "internal/atomicfile", "internal/backoff", "internal/courtesy", "internal/journal", "internal/keys", "internal/operations", "internal/sharedfile", "internal/sysmem", "model/...", "server/...", "store", "swarm/...", "tensor/...", "web/..."}, "whole nodes from the parts: what whorl runs and package node embeds"},
	{"internal/schematest", []string{"internal/fixture"}, "the public suite of schemas, which lies gzipped in the program"},
	{"internal/...", nil, "helpers of tests: they know nothing of what they test"},
	{"node", []string{"client", "internal/wiring"}, "the library: a small facade whose API is kept"},
	{"cmd/whorl", []string{"..."}, "flags and commands over internal/wiring"},
}

// never are arrows whose absence carries the design, with the reason to give to whoever
// wants one.
var never = []struct{ from, to, why string }{
	{"client/...", "server/...", "they share swarm/wire, not each other"},
	{"server/...", "client/...", "they share swarm/wire, not each other"},
	{"api/...", "web/...", "two faces of a node that internal/wiring puts on one listener"},
	{"web/...", "api/...", "two faces of a node that internal/wiring puts on one listener"},
	{"swarm/...", "model/...", "a swarm serves blocks of anything: the manifest is all it knows"},
	{"swarm/...", "server/...", "the swarm's packages are below both sides"},
	{"tensor/...", "model/...", "a device computes what it is told"},
	{"gpu/...", "model/...", "a device computes what it is told"},
	{"...", "cmd/...", "wiring imports the parts, never the other way round"},
}

func arrowOf(folder string) (arrow, bool) {
	for _, a := range arrows {
		if matches(a.from, folder) {
			return a, true
		}
	}
	return arrow{}, false
}

func allowed(a arrow, to string) bool {
	return slices.Contains(a.to, "...") || matchesAny(a.to, to)
}

// below is everything that arrows reach from a folder: what its tests may use as well.
func below(folders map[string][]*file, from string) map[string]bool {
	seen := map[string]bool{from: true}
	for todo := []string{from}; len(todo) > 0; todo = todo[1:] {
		a, _ := arrowOf(todo[0])
		for to := range folders {
			if !seen[to] && allowed(a, to) {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return seen
}

// testOnly are packages that tests of any package may use.
var testOnly = []string{"internal/fixture", "internal/golden", "internal/meter", "internal/keys/keystest", "internal/answers/answerstest", "internal/fakehub", "internal/swarmtest", "internal/pgtest", "internal/schematest", "tensor/ref", "tensor/cpu", "tensor/tensortest", "model/families"}

func TestArrows(t *testing.T) {
	folders := packages(t)
	for _, from := range slices.Sorted(maps.Keys(folders)) {
		a, ok := arrowOf(from)
		if !ok {
			t.Errorf("%s has no row in the table of arrows: add one, with its reason, here and in docs/architecture.md", from)
			continue
		}
		reach := below(folders, from)
		for _, f := range folders[from] {
			for _, im := range f.imports {
				to, ours := strings.CutPrefix(im, module+"/")
				if !ours || to == from || allowed(a, to) || f.test && (reach[to] || matchesAny(testOnly, to)) || f.ast.Name.Name == "main" && from != "cmd/whorl" && reach[to] {
					continue
				}
				t.Errorf("%s imports %s, which is no arrow of %s (%s)", f.path, to, from, a.why)
			}
		}
	}
}

func TestNever(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, im := range f.imports {
			to, ours := strings.CutPrefix(im, module+"/")
			for _, n := range never {
				if ours && !f.test && (n.from == "..." && f.pkg != "cmd/whorl" || matches(n.from, f.pkg)) && matches(n.to, to) {
					t.Errorf("%s imports %s: never, because %s", f.path, to, n.why)
				}
			}
		}
	}
}

// The table itself must not allow what is never allowed.
func TestTableKeepsItsWord(t *testing.T) {
	folders := packages(t)
	for from := range folders {
		a, _ := arrowOf(from)
		for to := range folders {
			for _, n := range never {
				if from != "cmd/whorl" && matches(n.from, from) && matches(n.to, to) && allowed(a, to) {
					t.Errorf("the row of %s allows %s: never, because %s", from, to, n.why)
				}
			}
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, folder string
		want            bool
	}{
		{"client", "client", true}, {"client", "client/plan", false}, {"client/...", "client", true},
		{"client/...", "client/plan", true}, {"client/...", "clients", false},
	} {
		if got := matches(c.pattern, c.folder); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.folder, got)
		}
	}
}
