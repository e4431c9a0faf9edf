package swarmtest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"whorl/client"
)

// roped is a line of testdata/toy_ropes.json: TOY with another rotation, and what the
// library makes of one forward of all ids.
type roped struct {
	Context  int            `json:"max_position_embeddings"`
	Rope     map[string]any `json:"rope_parameters"`
	IDs      []int32
	Logprobs []float64
}

// model writes TOY with the rotation.
func (c *roped) model(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "toy")
	if err := os.CopyFS(dir, os.DirFS(toy)); err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err == nil {
		err = json.Unmarshal(b, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	config["max_position_embeddings"], config["rope_parameters"] = c.Context, c.Rope
	b, _ = json.Marshal(config)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A rotation that depends on the length is that of the session's, on every stage, in every
// chunk, whoever steps in: what transformers gives in one forward of that length.
func TestToyRopesEqualLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := os.ReadFile("testdata/toy_ropes.json")
		if err != nil {
			t.Fatal(err)
		}
		var cases []roped
		if err := json.Unmarshal(b, &cases); err != nil {
			t.Fatal(err)
		}
		if len(cases) < 4 {
			t.Fatalf("only %d cases", len(cases))
		}
		for i, c := range cases {
			r := openModel(t, c.model(t))
			w := r.world(3, 2, 1)
			head := r.head(1)
			e := w.Engine(head, head.Vocab(), func(cfg *client.Config) { cfg.MaxLength = 256 })
			for _, chunk := range []int{0, 7} {
				s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: len(c.IDs), PrefillChunk: chunk})
				if err != nil {
					t.Fatal(err)
				}
				if chunk > 0 {
					w.Server(s.Route()[1].Peer).Node.Kill()
				}
				score, err := s.Score(t.Context(), c.IDs)
				s.Close()
				if err != nil {
					t.Fatal(err)
				}
				for j, want := range c.Logprobs {
					if got := score.Logprobs[j+1]; math.Abs(got-want) > 1e-4*max(1, math.Abs(want)) {
						t.Fatalf("case %d, %s, %d positions, chunks of %d: log-probability %d is %v, want %v", i, c.Rope["rope_type"], len(c.IDs), chunk, j+1, got, want)
					}
				}
			}
		}
	})
}
