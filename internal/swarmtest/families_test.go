package swarmtest

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/internal/fixture"
	"whorl/model/weights"
)

const fixtures = "../../model/testdata"

// recorded is what the reference library answered, in a model's ref.json.gz.
type recorded struct {
	Prompts []struct {
		IDs, New []int32
		Margins  []float64
	}
}

// A tiny model of every family gives the ids of the reference library in every layout: one
// server, two, and one for each block.
func TestFamiliesInEveryLayout(t *testing.T) {
	refs, err := filepath.Glob(filepath.Join(fixtures, "*", "ref.json.gz"))
	if err != nil || len(refs) < 10 {
		t.Fatalf("%d models: %v", len(refs), err)
	}
	for _, ref := range refs {
		dir := filepath.Dir(ref)
		if !weights.HasSafetensors(dir) {
			continue // a GGUF alone, or a reference alone: its family has a folder with both
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				prompts := fixture.JSON[recorded](t, ref).Prompts
				prompts = slices.Concat(prompts[2:3], prompts[3:6]) // the third is the longest
				r := openModel(t, dir)
				for _, n := range slices.Compact([]int{1, 2, r.ck.Config.Layers}) {
					_, e := r.engine(n, 1)
					for i, p := range prompts {
						steps := len(p.New) // up to the first step that float32 cannot decide
						if k := slices.IndexFunc(p.Margins, func(m float64) bool { return m < 1e-3 }); k >= 0 {
							steps = k
						}
						// All of them, since the length may decide the rotation.
						got, _ := r.run(e, client.SessionOptions{}, p.IDs, len(p.New))
						if len(got) != len(p.New) || !slices.Equal(got[:steps], p.New[:steps]) {
							t.Errorf("%d servers, prompt %d:\n got %v\nwant %v", n, i, got, p.New[:steps])
						}
					}
				}
			})
		})
	}
}
