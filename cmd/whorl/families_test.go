package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/internal/fixture"
)

// A folder that holds config.json and safetensors, and no tokenizer, is enough to generate
// and to score by ids, whatever the family.
func TestFamiliesByIDs(t *testing.T) {
	refs, err := filepath.Glob("../../model/testdata/*/ref.json.gz")
	if err != nil || len(refs) < 10 {
		t.Fatalf("%d models: %v", len(refs), err)
	}
	for _, path := range refs {
		dir := filepath.Dir(path)
		weights, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		if len(weights) == 0 {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			bare := t.TempDir()
			index, _ := filepath.Glob(filepath.Join(dir, "*.index.json"))
			for _, file := range slices.Concat(weights, index, []string{filepath.Join(dir, "config.json")}) {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(bare, filepath.Base(file)), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			byIDs(t, bare, path)
		})
	}
}

func byIDs(t *testing.T, model, ref string) {
	want := fixture.JSON[struct {
		Prompts []struct {
			IDs, New []int32
			Margins  []float64
		}
		Scores []struct {
			IDs      []int32
			Logprobs []*float64
		}
	}](t, ref)
	p := want.Prompts[4]
	var got struct{ IDs []int32 }
	whorl(t, "", nil, "generate", model, "--local", "--ids", listOf(p.IDs), "--max-new-tokens", "16", "--ignore-eos", "--json").last(t, &got)
	for i, id := range p.New {
		if p.Margins[i] < 1e-3 {
			break // float32 cannot decide it
		}
		if i >= len(got.IDs) || got.IDs[i] != id {
			t.Errorf("ids %v, want %v", got.IDs, p.New)
			break
		}
	}
	s := want.Scores[0]
	var scored struct {
		Logprobs []*float64
	}
	whorl(t, "", nil, "score", model, "--local", "--ids", listOf(s.IDs), "--json").last(t, &scored)
	if len(scored.Logprobs) != len(s.Logprobs) {
		t.Fatalf("%d logprobs, want %d", len(scored.Logprobs), len(s.Logprobs))
	}
	for i, v := range s.Logprobs {
		if g := scored.Logprobs[i]; (v == nil) != (g == nil) || v != nil && math.Abs(*g-*v) > 1e-3 {
			t.Errorf("logprob %d is %v, want %v", i, g, v)
		}
	}
	if r := whorl(t, "", nil, "generate", model, "--local", "--prompt", "hello"); r.code == 0 || !strings.Contains(r.err, "tokenizer") {
		t.Errorf("a prompt of text without a tokenizer: exit %d, %s", r.code, r.err)
	}
}
