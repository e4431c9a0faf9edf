package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A simulation is the same each time, says what scripts rely on, and names what is wrong.
func TestSim(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.txt")
	if err := os.WriteFile(file, []byte("# mine\nblocks 8\nlength 1h\nwarm 10m\nservers 6 span 4 start 0s-1s\nat 30m kill 0.2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	plot := filepath.Join(t.TempDir(), "plot.svg")
	r := whorl(t, "", nil, "sim", file, "--json", "--seed", "7", "--moves", "--plot", plot)
	if again := whorl(t, "", nil, "sim", file, "--json", "--seed", "7", "--moves"); again.stdout != r.stdout {
		t.Errorf("two runs of one seed:\n%s\n%s", r.stdout, again.stdout)
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("%v: %q %q", err, r.stdout, r.err)
	}
	for _, key := range []string{"servers", "blocks", "hours", "moves", "bytes_loaded", "served", "bottleneck_over_bound", "heal_seconds_median", "seed"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %s in %v", key, got)
		}
	}
	if got["servers"] != 6.0 || got["seed"] != 7.0 || got["scenario"] != "mine" || got["served"].(float64) < 0.9 {
		t.Errorf("%v", got)
	}
	if svg, err := os.ReadFile(plot); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("plot: %v, %.20q", err, svg)
	}
	for want, args := range map[string][]string{
		"want one SCENARIO":                 {"sim"},
		"no such file, and none that comes": {"sim", "nosuch"},
		"want one of ours":                  {"sim", file, "--policy", "mine"},
		"or --report alone":                 {"sim", file, "--report", t.TempDir()},
	} {
		if r := whorl(t, "", nil, args...); r.code != exitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%v: %d %q, want %q", args, r.code, r.err, want)
		}
	}
}
