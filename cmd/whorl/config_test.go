package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"whorl/internal/golden"
	"whorl/internal/wiring"
)

// configFile writes a file and gives its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whorl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shown finds a line of --print-config.
func shown(t *testing.T, r result, key string) string {
	t.Helper()
	for line := range strings.Lines(r.ok(t).stdout) {
		if strings.HasPrefix(line, key+":") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	t.Fatalf("no %s in\n%s", key, r.stdout)
	return ""
}

func TestPrecedence(t *testing.T) {
	file := configFile(t, "public-name: of the file\nthreads: 3\nnum_blocks: 2\nexpiration: 90\nhttp: \"off\"\n")
	env := []string{"WHORL_PUBLIC_NAME=of the environment", "WHORL_THREADS=5", "WHORL_PORT=", "WHORL_TORCH_DTYPE=bf16", "WHORL_BIN=/elsewhere", "THREADS=9"}
	r := whorl(t, "", env, "serve", "--print-config", "--config", file, "--public-name", "of the flag", "--quant_type", "q8_0")
	for key, want := range map[string]string{
		"public-name": "public-name: of the flag # flag",
		"threads":     "threads: 5 # env",
		"num-blocks":  "num-blocks: 2 # file",
		"expiration":  "expiration: 1m30s # file",
		"http":        "http: off # file",
		"port":        "port: 0 # default",
		"dtype":       "dtype: bf16 # env",
		"quant":       "quant: q8_0 # flag",
		"swarm":       "swarm: main # default",
	} {
		if got := shown(t, r, key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestPrintConfig(t *testing.T) {
	r := whorl(t, "", []string{"WHORL_HTTP_TOKEN=hush", "WHORL_DATABASE_URL=postgres://me:hush@db/whorl"},
		"serve", "--print-config", "--initial-peers", "/ip4/127.0.0.1/tcp/1/p2p/A", "--initial-peers", "/ip4/127.0.0.1/tcp/2/p2p/B,/ip4/127.0.0.1/tcp/3/p2p/C").ok(t)
	if strings.Contains(r.stdout, "hush") {
		t.Errorf("a secret is shown:\n%s", r.stdout)
	}
	golden.Check(t, "testdata/print-config.txt", r.stdout)

	// What is printed is a config file that gives the same values.
	again := whorl(t, "", nil, "serve", "--print-config", "--config", configFile(t, r.stdout)).ok(t)
	for line := range strings.Lines(r.stdout) {
		key, _, _ := strings.Cut(line, ":")
		before, _, _ := strings.Cut(shown(t, r, key), " #")
		after, _, _ := strings.Cut(shown(t, again, key), " #")
		if before != after {
			t.Errorf("%s read back is %s", before, after)
		}
	}
}

// A text stays the text that it is, whatever YAML would make of it unquoted.
func TestPrintedTextsReadBack(t *testing.T) {
	for _, name := range []string{"null", "~", "true", "no", "1.0", "0x10", "1e3", "0b1", "2026-11-28", "a: b", "# c", "- d", "[e]", "'f'", `"g"`, "h\ni", "\tj", " k ", "ü", "=", "<<"} {
		first := whorl(t, "", nil, "serve", "--print-config", "--public-name", name).ok(t)
		again := whorl(t, "", nil, "serve", "--print-config", "--config", configFile(t, first.stdout)).ok(t)
		before, _, _ := strings.Cut(shown(t, first, "public-name"), " # ")
		after, _, _ := strings.Cut(shown(t, again, "public-name"), " # ")
		if before != after {
			t.Errorf("%q is printed as %s, and read back as %s", name, before, after)
		}
	}
}

func TestListsInFiles(t *testing.T) {
	for _, text := range []string{
		"initial-peers: [/ip4/127.0.0.1/tcp/1/p2p/A, /ip4/127.0.0.1/tcp/2/p2p/B]",
		"initial-peers:\n  - /ip4/127.0.0.1/tcp/1/p2p/A\n  - /ip4/127.0.0.1/tcp/2/p2p/B",
		"initial-peers: /ip4/127.0.0.1/tcp/1/p2p/A,/ip4/127.0.0.1/tcp/2/p2p/B",
	} {
		got := shown(t, whorl(t, "", nil, "bootstrap", "--print-config", "-c", configFile(t, text)), "initial-peers")
		if want := "initial-peers: [/ip4/127.0.0.1/tcp/1/p2p/A, /ip4/127.0.0.1/tcp/2/p2p/B] # file"; got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestWrongConfig(t *testing.T) {
	for _, c := range []struct {
		file string
		env  string
		want []string
	}{
		{"thread: 3", "", []string{"unknown key thread", "whorl.yaml"}},
		{"threads: 3\nnope: 1\nalso: 2", "", []string{"also, nope"}},
		{"threads: many", "", []string{"threads", "many", "whorl.yaml"}},
		{"threads: [1, 2]", "", []string{"threads", "list"}},
		{"threads:\n  a: 1", "", []string{"threads", "nested"}},
		{"threads: [", "", []string{"whorl.yaml"}},
		{"", "WHORL_THREADS=many", []string{"WHORL_THREADS", "many"}},
		{"", "WHORL_CONFIG=/nowhere.yaml", []string{"/nowhere.yaml"}},
		{"new-swarm: maybe", "", []string{"new-swarm", "maybe"}},
	} {
		args := []string{"serve", "--print-config"}
		if c.file != "" {
			args = append(args, "--config", configFile(t, c.file))
		}
		r := whorl(t, "", []string{c.env}, args...)
		if r.code != exitUsage || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%q %q: exit code %d\n%s", c.file, c.env, r.code, r.err)
		}
		for _, part := range c.want {
			if !strings.Contains(r.err, part) {
				t.Errorf("%q %q: %q does not name %q", c.file, c.env, r.err, part)
			}
		}
	}
}

// Nodes of one machine share a file: keys of other commands are passed over.
func TestSharedFile(t *testing.T) {
	file := configFile(t, "new-swarm: true\nblock-indices: 0:4\nmax-new-tokens: 5\n")
	if got := shown(t, whorl(t, "", nil, "gateway", "--print-config", "-c", file), "new-swarm"); got != "new-swarm: true # file" {
		t.Error(got)
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]string{"30": "30s", "1.5": "1.5s", "2m": "2m0s", "0": "0s", "-1": "", "x": "", "": ""} {
		var s wiring.Seconds
		if err := s.Set(text); (err == nil) != (want != "") || err == nil && s.String() != want {
			t.Errorf("seconds %q: %v, %v; want %q", text, s.String(), err, want)
		}
	}
	for text, want := range map[string]string{
		"100": "100", "50GB": "50GB", "8GiB": "8GiB", "8192MiB": "8GiB", "50000MB": "50GB", "1.5 kib": "1536", "7B": "7", "2TB": "2TB", "0": "0",
		"-1": "", "GB": "", "1XB": "", "": "", "1e30": "", "nan": "",
	} {
		var s wiring.Size
		if err := s.Set(text); (err == nil) != (want != "") || err == nil && s.String() != want {
			t.Errorf("size %q: %v, %v; want %q", text, s.String(), err, want)
		}
	}
}

// A node shows its operator every flag, but for what is secret.
func TestSettingsOfFlags(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.Flags().String("admin-token", "secret", "")
	cmd.Flags().String("database-url", "postgres://whorl:pass@db/x", "")
	cmd.Flags().Int("limit", 3, "")
	var got []string
	for _, s := range settingsFor(cmd, sources{"admin-token": fromEnv, "limit": fromFlag}, new(wiring.Logging)).List() {
		got = append(got, s.Name+" "+s.Value+" "+s.Source)
	}
	if want := []string{"admin-token (not shown) env", "database-url postgres://whorl:(not shown)@db/x ", "limit 3 flag"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
