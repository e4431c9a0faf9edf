package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// brief makes every slice as short as can be: numbers mean nothing, their names do.
var brief = []string{"--slice", "0.000001", "--memory", "4MiB", "--repeat", "1", "--threads", "2"}

func TestBenchModelJSON(t *testing.T) {
	args := append([]string{"bench", "model", toy, "--json", "--prefill", "16", "--decode", "8", "--batch", "2,3"}, brief...)
	var got map[string]json.RawMessage
	whorl(t, "", nil, args...).last(t, &got)
	want := []string{
		"batch", "decode_gb_s", "decode_share", "decode_tok_s", "dot_gflop_s", "format", "load_s", "memory_gb_s", "notes",
		"peak_rss_mb", "prefill_gflop_s", "prefill_share", "prefill_tok_s", "shape", "threads",
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	var batch map[string]float64
	if err := json.Unmarshal(got["batch"], &batch); err != nil || len(batch) != 2 || batch["2"] <= 0 || batch["3"] <= 0 {
		t.Errorf("batch %s, %v", got["batch"], err)
	}
	if string(got["threads"]) != "2" || string(got["shape"]) != `"toy"` {
		t.Errorf("threads %s, shape %s", got["threads"], got["shape"])
	}
}

func TestBenchModelTable(t *testing.T) {
	args := append([]string{"bench", "model", toy, "--prefill", "16", "--decode", "8", "--batch", "2"}, brief...)
	text := whorl(t, "", nil, args...).ok(t).stdout
	for _, part := range []string{"toy ", "2 threads", "decode ", "prefill ", "decode of 2 at once", "GB/s", "share", "only a hint"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestBenchKernelsJSON(t *testing.T) {
	args := append([]string{"bench", "kernels", "--json", "--format", "q4_0", "--rows", "1,2", "--weights", "1MB"}, brief...)
	var got struct {
		Threads int              `json:"threads"`
		Kernels []map[string]any `json:"kernels"`
	}
	whorl(t, "", nil, args...).last(t, &got)
	if got.Threads != 2 || len(got.Kernels) != 6 {
		t.Fatalf("%+v", got)
	}
	want := []string{"dot_share", "format", "gb_s", "gflop_s", "in", "memory_share", "out", "rows"}
	if keys := slices.Sorted(maps.Keys(got.Kernels[0])); !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
}

func TestBenchTraining(t *testing.T) {
	args := append([]string{"bench", "training", "--shape", "135m", "--rows", "9", "--format", "bf16"}, brief...)
	text := whorl(t, "", nil, args...).ok(t).stdout
	if !strings.Contains(text, "135m, 2 threads, sequences of 9\n") || !strings.Contains(text, "\nbf16 ") {
		t.Errorf("a table:\n%s", text)
	}
	var got struct {
		Rows    int              `json:"rows"`
		Formats []map[string]any `json:"formats"`
	}
	whorl(t, "", nil, append(args, "--json")...).last(t, &got)
	if got.Rows != 9 || len(got.Formats) != 1 {
		t.Fatalf("%+v", got)
	}
	want := []string{"backward_tok_s", "both_share", "both_tok_s", "format", "forward_share", "forward_tok_s"}
	if keys := slices.Sorted(maps.Keys(got.Formats[0])); !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
}

func TestBenchWrongUse(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"bench", []string{"bench model", "bench kernels", "bench training", "bench serving", "bench quality"}},
		{"bench model", []string{"--shape", "135m", "MODEL"}},
		{"bench model --shape 7b", []string{"7b", "1.1b"}},
		{"bench model --shape 135m --format nf3", []string{"nf3", "q4_0"}},
		{"bench model --shape 135m --format q2_k", []string{"q2_k", "q4_0"}},
		{"bench model --shape 135m " + toy, []string{"--shape", "MODEL"}},
		{"bench model " + toy + " --format q4_0", []string{"--format", "--quant"}},
		{"bench model " + toy + " --quant q2_k", []string{"q2_k", "int8", "q8_0"}},
		{"bench model nowhere", []string{"nowhere"}},
		{"bench model " + toy + " --prefill 100000", []string{"100000"}},
		{"bench model " + toy + " --prefill 8 --decode 0", []string{"context 0"}},
		{"bench model --shape 135m --batch 0", []string{"batch of 0"}},
		{"bench model --shape 135m --batch x", []string{"--batch"}},
		{"bench model --shape 135m --repeat 0", []string{"--repeat"}},
		{"bench model --shape 135m --slice 0", []string{"--slice"}},
		{"bench model --shape 135m --memory 1", []string{"--memory", "4MiB"}},
		{"bench model --shape 135m --device cuda", []string{"--device"}},
		{"bench kernels --rows 0", []string{"--rows"}},
		{"bench kernels --format q2_k", []string{"q2_k"}},
		{"bench training --rows 0", []string{"--rows 0"}},
		{"bench training --shape 7b", []string{"--shape", "7b", "1.1b"}},
		{"bench training --format q2_k", []string{"q2_k"}},
	} {
		r := whorl(t, "", nil, strings.Fields(c.args)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.err, "\n") != 1 {
			t.Errorf("whorl %s: exit code %d, stdout %q\n%s", c.args, r.code, r.stdout, r.err)
		}
		for _, part := range c.want {
			if !strings.Contains(r.err, part) {
				t.Errorf("whorl %s: %q does not name %q", c.args, r.err, part)
			}
		}
	}
}
