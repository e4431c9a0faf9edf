package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"whorl/internal/golden"
	"whorl/internal/wiring"
	"whorl/model"
	"whorl/model/families"
	"whorl/server"
	"whorl/tensor"
)

// docs/models.md is made of published configurations by the planning of serve --dry-run;
// -update rewrites it.
func TestModelList(t *testing.T) {
	raw, err := os.ReadFile("testdata/models/configs.json")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(modelsHead)
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() { // in the order of the file
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var config json.RawMessage
		if err := dec.Decode(&config); err != nil {
			t.Fatal(err)
		}
		row(t, &text, name.(string), config)
	}
	golden.Check(t, "../../docs/models.md", text.String())
}

const modelsHead = `# Models

Made by ` + "`go test ./cmd/whorl -run TestModelList -update`" + `: what published models take, by the planning of ` + "`whorl serve --dry-run`" + `, which does
the same for any folder that holds config.json.

A block is the largest one, as stored (bf16) and quantised at load. Machines: how many of that much memory hold all blocks as nf4 (q8_0 where
widths are no multiple of 64), each with a cache of 16,384 tokens where query heads share keys and 4,096 where not, 256 MiB spare, and
buffers. A server that is a gateway too, which it is unless ` + "`--http`" + ` is off, holds the head as well; where all of them with
` + "`--http off`" + ` are another number, it stands in brackets, and one gateway elsewhere holds the head. "-": not even one block fits. Where
` + "`--memory`" + ` is not given a server counts what is free, less a tenth.

Verified against transformers 5.24: of each family one or several tiny random models (` + "`model/testdata/PROVENANCE.md`" + `): outputs of blocks,
logits, greedy ids of 50 prompts or more, in safetensors and in GGUF where that format knows the architecture, and quantised on load: the families that
come from Petals in every format, the others in those that rows of 64 permit. ` + "`make conformance`" + ` prints the table. Published weights were compared of SmolLM2-135M-Instruct alone. A family's other sizes are the same code with other numbers.

Weights in GGUF of types that no kernel computes with are held in another format when they are loaded, which stands for the same values to
the bit; the log says so and what it takes. Other types are refused by name: IQ1, IQ2, IQ3, TQ, MXFP4, NVFP4, Q8_K.

| type in GGUF | held as | memory, times the file |
|---|---|---|
| Q3_K | q6_k | 1.9 |
| IQ4_NL | q8_0 | 1.9 |
| Q5_1 | f32 | 5.3 |
| IQ4_XS | f32 | 7.5 |
| Q2_K | f32 | 12.2 |

Mixtures in safetensors have a matrix for each expert, as transformers writes them by default, 5.24 too; files with all experts in one tensor
(its ` + "`save_original_format=False`" + `) are refused.

| model | family | parameters | blocks | block, bf16 | q8_0 | nf4 | head, bf16 | machines of 8 GiB | 16 GiB | 24 GiB | 64 GiB |
|---|---|---|---|---|---|---|---|---|---|---|---|
`

func row(t *testing.T, text *strings.Builder, name string, config []byte) {
	t.Helper()
	m, err := model.OutlineOf(name, name, config, families.All())
	if err != nil {
		t.Fatal(err)
	}
	c := m.Config()
	fmt.Fprintf(text, "| %s | %s | %s | %d |", name, c.Family, billions(m.Params()), c.Layers)
	smallest := model.LoadOptions{}
	for _, quant := range []string{"none", "q8_0", "nf4"} {
		o := model.LoadOptions{Quant: quant}
		n, err := m.BlockBytes(0, o)
		if err != nil {
			text.WriteString(" - |")
			continue
		}
		smallest = o
		fmt.Fprintf(text, " %s |", mib(n))
	}
	head, err := m.HeadBytes(model.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(text, " %s |", mib(head))
	for _, gib := range []int64{8, 16, 24, 64} {
		with, without := machines(m, smallest, gib<<30, true), machines(m, smallest, gib<<30, false)
		if with != without {
			with += " (" + without + ")"
		}
		fmt.Fprintf(text, " %s |", with)
	}
	text.WriteString("\n")
}

// machines is how many of so much memory hold a model, "-" if not even one block fits.
func machines(m *model.Outline, o model.LoadOptions, memory int64, http bool) string {
	cfg := server.DefaultConfig()
	cfg.Memory = memory
	_, _, cfg.Network = wiring.Strangers(0, 0, memory, http)
	p, err := planModel(m, o, tensor.F32, cfg, http)
	if err != nil {
		return "-"
	}
	return fmt.Sprint(p.Machines)
}

func billions(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.0f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f B", float64(n)/1e9)
}

func mib(n int64) string {
	if n < 10<<30 {
		return fmt.Sprintf("%d MiB", (n+1<<19)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// A dry run needs no weights and plans what serve would.
func TestServeDryRun(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(toy + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config.json", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var alone, whole struct {
		Blocks   int   `json:"blocks"`
		Bytes    int64 `json:"block_bytes"`
		Fit      int   `json:"fit_blocks"`
		Machines int   `json:"machines"`
		Token    int64 `json:"cache_token_bytes"`
	}
	whorl(t, "", nil, "serve", dir, "--dry-run", "--json", "--memory", "1GiB", "--num-blocks", "3").last(t, &alone)
	whorl(t, "", nil, "serve", toy, "--dry-run", "--json", "--memory", "1GiB", "--num-blocks", "3").last(t, &whole)
	if alone != whole || alone.Blocks != 8 || alone.Fit != 3 || alone.Machines != 3 || alone.Bytes <= 0 {
		t.Errorf("from config.json alone %+v, from the model %+v", alone, whole)
	}
	var with, without modelPlan
	whorl(t, "", nil, "serve", toy, "--dry-run", "--json", "--memory", "1GiB").last(t, &with)
	whorl(t, "", nil, "serve", toy, "--dry-run", "--json", "--memory", "1GiB", "--http", "off").last(t, &without)
	if p := with.Parts; p.Head != with.HeadBytes || without.Parts.Head != 0 || with.Source != "" ||
		p.Weights+p.Adapters+p.Head+p.Cache+p.Buffers+p.Network+p.Queues+p.Passes+p.Spare != 1<<30 {
		t.Errorf("the parts of 1 GiB with HTTP: %+v; without: %+v", p, without.Parts)
	}
	half := alone
	whorl(t, "", nil, "serve", toy, "--dry-run", "--json", "--memory", "1GiB", "--num-blocks", "3", "--kv-dtype", "bf16").last(t, &half)
	if alone.Token <= 0 || 2*half.Token != alone.Token {
		t.Errorf("a token takes %d bytes of a bf16 cache, %d of an f32 one", half.Token, alone.Token)
	}
	if r := whorl(t, "", nil, "serve", toy, "--dry-run"); r.code != exitDone || !strings.Contains(r.stdout, "8 blocks") || !strings.Contains(r.stdout, "less a tenth") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.err)
	}
	for _, c := range []struct{ args, want string }{
		{"--dry-run --memory 1MiB", "not enough memory: 1 block needs"},
		{"--dry-run --quant q9", `quant "q9" is not supported`},
		{"--dry-run --kv-dtype f16", "--kv-dtype: a KV cache of f16 is not supported: use f32 or bf16"},
		{"--json", "--json goes with --dry-run"},
	} {
		r := whorl(t, "", nil, append([]string{"serve", toy, "--new-swarm"}, strings.Fields(c.args)...)...)
		if r.code == exitDone || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, r.code, r.err)
		}
	}
}
