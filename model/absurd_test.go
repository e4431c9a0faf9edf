package model_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"whorl/model"
	"whorl/model/families"
	"whorl/model/nn"
)

// Whatever number a configuration has in the place of another, reading it ends in an error
// or in a model whose size can be counted.
func TestAbsurdNumbers(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/config*.json")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d configurations, %v", len(paths), err)
	}
	refused := 0
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		for name, v := range fields {
			if _, number := v.(float64); !number {
				continue
			}
			for _, absurd := range []float64{-1, 0, 1 << 20, 1<<31 - 1, 1e300} {
				changed := maps.Clone(fields)
				changed[name] = absurd
				text, err := json.Marshal(changed)
				if err != nil {
					t.Fatal(err)
				}
				o, err := model.OutlineOf("absurd", path, text, families.All())
				if err != nil {
					refused++
				} else if n := o.Params(); n < 1 {
					t.Errorf("%s: with %s %v the model has %d parameters", path, name, absurd, n)
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d configurations were refused", refused)
	}
}

// Blocks of too many kinds are no blocks of one kind.
func TestTooManyKindsOfBlocks(t *testing.T) {
	c := open(t, "testdata/qwen2").Config
	c.Layers = 100
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.EachBlock(func(i int, s *nn.Spec) { s.Window = i + 1 })
	if c.Validate() == nil {
		t.Errorf("%d kinds and %d others pass", len(c.Kinds), len(c.Others))
	}
}
