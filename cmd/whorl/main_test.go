package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"whorl/internal/golden"
	"whorl/internal/wiring"
)

// toy is the folder of a tiny model: 8 blocks, random weights.
const toy = "../../internal/swarmtest/testdata/toy"

// result is what a command did.
type result struct {
	code        int
	stdout, err string
}

// whorl runs a command line in this process.
func whorl(t *testing.T, stdin string, env []string, args ...string) result {
	t.Helper()
	return whorlUntil(t.Context(), stdin, env, args...)
}

func whorlUntil(ctx context.Context, stdin string, env []string, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, world{strings.NewReader(stdin), &out, &errs, func() []string { return env }})
	return result{code, out.String(), errs.String()}
}

// ok fails the test unless the command succeeded.
func (r result) ok(t *testing.T) result {
	t.Helper()
	if r.code != exitDone {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.err)
	}
	return r
}

// last decodes the last line of stdout.
func (r result) last(t *testing.T, v any) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.ok(t).stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), v); err != nil {
		t.Fatalf("%v in the last line of %s", err, r.stdout)
	}
}

// Wrong use is one line that names what is wrong and what to do, and exit code 2.
func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.gguf")
	if err := os.WriteFile(broken, []byte("GGUF, but not really"), 0o600); err != nil {
		t.Fatal(err)
	}
	alien := filepath.Join(dir, "alien")
	if err := os.Mkdir(alien, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(alien, "config.json"), []byte(`{"architectures":["MartianForCausalLM"],"model_type":"martian"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const peer = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWCQSn7p6Y9axADjKBix63zVK6YKjq7eXUfX3pckXHhnhQ"
	for _, c := range []struct {
		args string // separated by spaces; '' is an empty argument
		want []string
	}{
		{"", []string{"whorl --help"}},
		{"tokenise", []string{"tokenise", "did you mean tokenize?", "--help"}},
		{"frobnicate", []string{`no command "frobnicate": see`}},
		{"bench modle", []string{`whorl bench has no command "modle"`, "model"}},
		{"version --jason", []string{"--jason", "whorl version --help"}},
		{"version now", []string{"now"}},
		{"version --log-level loud", []string{"loud", "debug"}},
		{"version --log-format xml", []string{"xml", "json"}},
		{"tokenize", []string{"MODEL"}},
		{"tokenize nowhere.gguf --text x", []string{"nowhere.gguf", "no such"}},
		{"tokenize owner/name --text x", []string{"owner/name", "hub"}},
		{"tokenize " + broken + " --text x", []string{"broken.gguf"}},
		{"detokenize " + toy + " --ids 1,x", []string{`"x"`, "1,2,3"}},
		{"detokenize " + toy + " --ids 99999", []string{"99999", "384"}},
		{"generate " + toy + " --prompt x", []string{"--local", "--initial-peers"}},
		{"generate " + toy + " --prompt x --local --initial-peers " + peer, []string{"--local", "--initial-peers"}},
		{"generate " + toy + " --prompt x --initial-peers ''", []string{"--initial-peers is empty"}},
		{"generate " + toy + " --prompt x --initial-peers " + peer + " --deny-peers example.org", []string{"--deny-peers", `"example.org" is neither a peer id`}},
		{"bootstrap --new-swarm --allow-peers 10.0.0.0/40", []string{"--allow-peers", "prefix such as"}},
		{"generate --prompt x --local", []string{"MODEL"}},
		{"generate nowhere --prompt x --local", []string{"nowhere"}},
		{"generate " + alien + " --ids 1 --local", []string{"Martian"}},
		{"generate " + toy + " --ids 1 --local --temperature -1", []string{"--temperature", "-1"}},
		{"generate " + toy + " --ids 1 --local --top-p 1.5", []string{"--top-p", "1.5"}},
		{"generate " + toy + " --ids 1 --local --top-k x", []string{"--top-k", "x"}},
		{"generate " + toy + " --ids 1 --local --repetition-penalty 0", []string{"--repetition-penalty 0", "0.01", "100"}},
		{"generate " + toy + " --ids 1 --local --repetition-penalty 1e-300", []string{"--repetition-penalty 1e-300", "0.01", "100"}},
		{"generate " + toy + " --ids 1 --local --repetition-penalty inf", []string{"--repetition-penalty +Inf", "0.01", "100"}},
		{"generate " + toy + " --ids 1 --local --temperature nan", []string{"--temperature NaN", "0"}},
		{"generate " + toy + " --ids 1 --local --num-beams 0", []string{"--num-beams", "32"}},
		{"generate " + toy + " --ids 1 --local --num-beams 2 --guidance-scale 2", []string{"--num-beams", "--guidance-scale"}},
		{"generate " + toy + " --ids 1 --local --negative-prompt x", []string{"--guidance-scale"}},
		{"generate " + toy + " --ids 1 --local --guidance-scale 2 --negative-prompt x --negative-prompt-ids 1", []string{"--negative-prompt-ids"}},
		{"generate " + toy + " --ids 1 --local --guidance-scale 2 --negative-prompt-ids 4000000", []string{"--negative-prompt-ids", "4000000"}},
		{"generate " + toy + " --ids 1 --local --guidance-scale 1000", []string{"--guidance-scale", "100"}},
		{"generate " + toy + " --ids 1 --local --num-beams 2 --num-return-sequences 3", []string{"--num-return-sequences", "2"}},
		{"generate " + toy + " --ids 1 --local --num-beams 2 --early-stopping soon", []string{"--early-stopping", "never"}},
		{"generate " + toy + " --ids 1 --local --length-penalty NaN", []string{"--length-penalty"}},
		{"generate " + toy + " --ids 1 --local --typical-p 2", []string{"--typical-p", "2"}},
		{"generate " + toy + " --ids 1 --local --presence-penalty 3", []string{"--presence-penalty", "3"}},
		{"generate " + toy + " --ids 1 --local --frequency-penalty=-3", []string{"--frequency-penalty", "-3"}},
		{"generate " + toy + " --ids 1 --local --no-repeat-ngram-size=-1", []string{"--no-repeat-ngram-size"}},
		{"generate " + toy + " --ids 1 --local --min-new-tokens=-1", []string{"--min-new-tokens"}},
		{"generate " + toy + " --ids 1 --local --bad-words ''", []string{"--bad-words"}},
		{"chat " + toy + " --local --num-beams 2 --num-return-sequences 2", []string{"--num-return-sequences"}},
		{"generate " + toy + " --ids 1 --local --adapter a", []string{"adapter"}},
		{"generate " + toy + " --ids 1 --local --max-new-tokens 300", []string{"301", "256"}},
		{"generate " + toy + " --ids 1 --local --max-new-tokens 0", []string{"--max-new-tokens"}},
		{"generate " + toy + " --ids 999 --local", []string{"999", "384"}},
		{"generate " + toy + " --prompt '' --ids '' --local", []string{"--prompt"}},
		{"generate " + toy + " --ids '' --local", []string{"empty"}},
		{"generate " + toy + " --ids 1 --local --chat", []string{"--chat"}},
		{"generate " + toy + " --prompt hi --local --system x", []string{"--chat"}},
		{"generate " + toy + " --ids 1 --local --activations f64", []string{"f64", "f32"}},
		{"generate " + toy + " --ids 1 --local --device cuda", []string{"cuda", "--device cpu"}},
		{"generate " + toy + " --ids 1 --local --device tpu", []string{"tpu", "cuda"}},
		{"generate " + toy + " --ids 1 --local --cpu-tier neon", []string{"neon", "generic"}},
		{"generate " + toy + " --ids 1 --local --threads -1", []string{"--threads"}},
		{"generate " + toy + " --ids 1 --local --dtype f8", []string{"f8", "bfloat16"}},
		{"generate " + toy + " --ids 1 --local --quant q2_k", []string{"q2_k", "int8", "q8_0"}},
		{"generate " + toy + " --ids 1 --local --stop ''", []string{"--stop"}},
		{"score " + toy + " --ids 1 --local --next", []string{"--json"}},
		{"chat " + toy + " --local --max-length 0", []string{"--max-length"}},
		{"serve " + toy, []string{"--initial-peers", "--new-swarm"}},
		{"serve " + toy + " --initial-peers ''", []string{"--initial-peers", "--new-swarm", "empty"}},
		{"serve " + toy + " --initial-peers ,", []string{"--initial-peers"}},
		{"serve " + toy + " --initial-peers 10.0.0.1:4001", []string{"10.0.0.1:4001", "/ip4/"}},
		{"serve " + toy + " --new-swarm --initial-peers " + peer, []string{"--new-swarm", "--initial-peers"}},
		{"serve --new-swarm", []string{"MODEL"}},
		{"serve " + toy + " --converted-model-name-or-path " + toy + " --new-swarm", []string{"twice"}},
		{"serve " + toy + " --new-swarm --block-indices 4", []string{"--block-indices", "0:10"}},
		{"serve " + toy + " --new-swarm --block-indices 4:9 --http off --admin off --host-maddrs /ip4/127.0.0.1/tcp/0", []string{"4:9", "0:8"}},
		{"serve " + toy + " --new-swarm --block-indices 0:4 --num-blocks 4", []string{"--block-indices", "--num-blocks"}},
		{"serve " + toy + " --new-swarm --http 0.0.0.0:0", []string{"--http", "token"}},
		{"serve " + toy + " --new-swarm --admin 0.0.0.0:0", []string{"--admin-token"}},
		{"serve " + toy + " --new-swarm --http nonsense", []string{"nonsense", "127.0.0.1:8300"}},
		{"serve " + toy + " --new-swarm --throughput fast", []string{"fast", "dry-run"}},
		{"serve " + toy + " --new-swarm --port 4001 --host-maddrs /ip4/127.0.0.1/tcp/0", []string{"--port", "--host-maddrs"}},
		{"serve " + toy + " --new-swarm --public-ip 203.0.113.7", []string{"--public-ip", "--port"}},
		{"serve " + toy + " --new-swarm --public-ip ::1 --port 4001", []string{"IPv4"}},
		{"serve " + toy + " --new-swarm --update-period 60 --expiration 30", []string{"--expiration"}},
		{"serve " + toy + " --new-swarm --ready-file " + filepath.Join(dir, "none", "ready"), []string{"--ready-file", "folder", "none"}},
		{"serve " + toy + " --new-swarm --swarm-key none.key", []string{"--swarm-key", "none.key", "docs/howto/swarm.md"}},
		{"serve " + toy + " --new-swarm --update-period soon", []string{"soon"}},
		{"serve " + toy + " --new-swarm --memory much", []string{"much", "8GiB"}},
		{"serve " + toy + " --new-swarm --swarm a/b", []string{"a/b"}},
		{"serve " + toy + " --new-swarm --swarm-key nowhere.key", []string{"nowhere.key"}},
		{"serve " + toy + " --new-swarm --compression float16", []string{"float16", "none"}},
		{"serve " + toy + " --new-swarm --adapters x", []string{"--adapters"}},
		{"gateway --new-swarm --http off", []string{"--http off"}},
		{"gateway a b --new-swarm", []string{"stat a", "no such"}},
		{"bootstrap", []string{"--initial-peers", "--new-swarm"}},
		{"bootstrap x", []string{"x"}},
		{"bootstrap --new-swarm --use-ipfs", []string{"--use-ipfs"}},
	} {
		args := strings.Fields(c.args)
		for i, a := range args {
			if a == "''" {
				args[i] = ""
			}
		}
		r := whorl(t, "", nil, args...)
		if r.code != exitUsage || r.stdout != "" {
			t.Errorf("whorl %s: exit code %d, stdout %q, want %d and nothing\n%s", c.args, r.code, r.stdout, exitUsage, r.err)
		}
		if !strings.HasPrefix(r.err, "whorl: ") || strings.Count(r.err, "\n") != 1 {
			t.Errorf("whorl %s: want one line that begins with \"whorl: \":\n%s", c.args, r.err)
		}
		for _, part := range c.want {
			if !strings.Contains(r.err, part) {
				t.Errorf("whorl %s: %q does not name %q", c.args, r.err, part)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		line string
	}{
		{nil, 0, ""},
		{errors.New("it\n  broke\r\n"), 1, "whorl: it; broke\n"},
		{wiring.Usagef("no %s", "way"), 2, "whorl: no way\n"},
		{fmt.Errorf("deep down: %w", wiring.Usagef("no way")), 2, "whorl: deep down: no way\n"},
		{fmt.Errorf("halfway: %w", wiring.ErrInterrupted), 130, "whorl: halfway: interrupted\n"},
	} {
		var errs bytes.Buffer
		code := finish(c.err, &errs)
		if code != c.code || errs.String() != c.line {
			t.Errorf("%v: exit code %d and %q, want %d and %q", c.err, code, errs.String(), c.code, c.line)
		}
	}
}

// commands lists every command by its path.
func commands(cmd *cobra.Command) map[string]*cobra.Command {
	out := map[string]*cobra.Command{cmd.CommandPath(): cmd}
	for _, sub := range cmd.Commands() {
		maps.Copy(out, commands(sub))
	}
	return out
}

// The commands and flags that scripts rely on change only on purpose.
func TestHelp(t *testing.T) {
	w := world{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, os.Environ}
	all := commands(newRoot(&w))
	paths := slices.Sorted(maps.Keys(all))
	golden.Check(t, "testdata/commands.txt", strings.Join(paths, "\n")+"\n")
	for _, path := range paths {
		words := strings.Fields(path)[1:]
		r := whorl(t, "", nil, append(words, "--help")...).ok(t)
		golden.Check(t, filepath.Join("testdata", "help", strings.Join(append([]string{"whorl"}, words...), "-")+".txt"), r.stdout)
		for line := range strings.Lines(r.stdout) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 200 {
				t.Errorf("%s --help has a line of %d characters: %s", path, n, line)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	var b build
	whorl(t, "", nil, "version", "--json").last(t, &b)
	if b.Version == "" || b.Commit == "" || !strings.HasPrefix(b.Go, "go1.") || b.Tier != chosenTier() || b.OS != runtime.GOOS || b.Arch != runtime.GOARCH || !slices.Contains(b.Tiers, b.Tier) || !slices.Contains(b.Devices, "cpu") {
		t.Errorf("version %+v", b)
	}
	text := whorl(t, "", nil, "version").ok(t).stdout
	for _, part := range []string{b.Version, b.Commit, b.Go, b.Tier} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not name %s", text, part)
		}
	}
}
