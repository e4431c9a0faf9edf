package hub

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/fakehub"
)

// Of an adapter's repository two files are fetched, whole and checked; without a hub the copy in
// the cache will do.
func TestAdapter(t *testing.T) {
	f := fakehub.New(t)
	files := map[string][]byte{
		adapterConfig: []byte(`{"r":8}`), adapterWeights: random(2*chunkSize+5, 7), "tokenizer.json": random(9<<10, 8), "README.md": []byte("no"),
		"config.json": []byte(`{}`), "model.safetensors": random(5<<10, 9), "runs/adapter_model.safetensors": random(5<<10, 10),
	}
	commit := f.Put("o/a", files)
	h := gear(t, f)
	s := must(h.OpenAdapter(t.Context(), name(t, "o/a")))(t)
	for _, x := range []string{adapterConfig, adapterWeights} {
		same(t, filepath.Join(s.Path, x), files[x], 0, len(files[x]))
	}
	if want := int64(len(files[adapterConfig]) + len(files[adapterWeights])); f.Sent("") != want || s.Commit != commit || s.Partly() {
		t.Errorf("%d bytes were sent, want %d; commit %s, partly %v", f.Sent(""), want, s.Commit, s.Partly())
	}
	s.Close()
	asked := f.Asked()
	again := must(gear(t, f, func(c *Config) { c.Cache, c.Offline = h.cfg.Cache, true }).OpenAdapter(t.Context(), name(t, "o/a")))(t)
	again.Close()
	if f.Asked() != asked {
		t.Errorf("%d requests offline", f.Asked()-asked)
	}
}

func TestNoAdapter(t *testing.T) {
	f := fakehub.New(t)
	config, weights := []byte(`{"r":8}`), random(chunkSize+5, 7)
	f.Put("o/model", map[string][]byte{"config.json": config, "model.safetensors": weights})
	f.Put("o/pickle", map[string][]byte{adapterConfig: config, adapterPickle: weights})
	f.Put("o/half", map[string][]byte{adapterConfig: config})
	f.Put("o/gated", map[string][]byte{adapterConfig: config, adapterWeights: weights})
	f.Protect("o/gated", "secret", true)
	f.Put("o/wrong", map[string][]byte{adapterConfig: config, adapterWeights: weights})
	f.Fail(func(r *http.Request, file string) *fakehub.Fault {
		if file == adapterWeights && strings.HasSuffix(f.CDN, r.Host) && strings.Contains(r.URL.Path, "wrong") {
			return &fakehub.Fault{Flip: true}
		}
		return nil
	})
	h := gear(t, f)
	for _, c := range []struct {
		name, says string
		want       error
	}{
		{"o/nowhere", "has no model o/nowhere", ErrNotFound},
		{"o/a:x.gguf", "leave out :x.gguf", ErrNotFound},
		{"o/model", "holds no adapter_config.json", ErrNotFound},
		{"o/pickle", "a pickle", ErrNotFound},
		{"o/half", "holds no adapter_model.safetensors", ErrNotFound},
		{"o/gated", "accept its terms", ErrGated},
		{"o/wrong", "has the hash", ErrDamaged},
	} {
		s, err := h.OpenAdapter(t.Context(), name(t, c.name))
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(h.cfg.Cache, "models--o--wrong", "snapshots", "*", adapterWeights)); len(found) != 0 {
		t.Errorf("wrong bytes are taken for an adapter: %v", found)
	}
	if _, err := os.Stat(filepath.Join(h.cfg.Cache, "models--o--nowhere")); err == nil {
		t.Error("what is not at the hub has a folder")
	}
}
