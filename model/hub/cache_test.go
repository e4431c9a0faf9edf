package hub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"whorl/internal/fakehub"
)

// The budget holds: who was used longest ago goes, never what is open and never what another
// client fetched.
func TestDiskBudget(t *testing.T) {
	f := fakehub.New(t)
	for i := range 4 {
		f.Put(fmt.Sprintf("o/m%d", i), map[string][]byte{"config.json": []byte("{}"), "model.safetensors": random(4*chunkSize, uint64(10+i))})
	}
	cache := t.TempDir()
	h := gear(t, f, func(c *Config) { c.Cache, c.MaxDisk = cache, 10*chunkSize })
	fetch := func(i int) *Snapshot {
		t.Helper()
		s := must(h.Open(t.Context(), name(t, fmt.Sprintf("o/m%d", i))))(t)
		if err := s.FillAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	there := func(i int) bool {
		paths, _ := filepath.Glob(filepath.Join(cache, fmt.Sprintf("models--o--m%d", i), "snapshots", "*", "model.safetensors"))
		return len(paths) == 1
	}
	fetch(0).Close()
	fetch(1).Close()
	old := time.Now().Add(-time.Hour)
	marks, _ := filepath.Glob(filepath.Join(cache, "models--o--m1", ".whorl", "*.used"))
	for _, m := range marks {
		os.Chtimes(m, old, old)
	}
	two := fetch(2)
	if !there(0) || there(1) || !there(2) {
		t.Errorf("after the third: %v %v %v, want the first and the third", there(0), there(1), there(2))
	}
	zero := must(h.Open(t.Context(), name(t, "o/m0")))(t)
	s := must(h.Open(t.Context(), name(t, "o/m3")))(t)
	if err := s.FillAll(t.Context()); !errors.Is(err, ErrDisk) {
		t.Errorf("all is open, and a fourth: %v", err)
	}
	if !there(0) || !there(2) {
		t.Error("a file that is open was deleted")
	}
	zero.Close()
	if err := s.FillAll(t.Context()); err != nil {
		t.Errorf("once the first is closed: %v", err)
	}
	if there(0) || !there(3) {
		t.Errorf("the first is there: %v, the fourth: %v", there(0), there(3))
	}
	s.Close()
	two.Close()
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, ".cache/huggingface/token"), "hf_file\n")
	write(filepath.Join(home, "other/token"), "other")
	write(filepath.Join(home, "spaces"), "a b")
	const hub = ".cache/huggingface/hub"
	for _, c := range []struct {
		env                    map[string]string
		endpoint, cache, token string
		offline                bool
	}{
		{nil, DefaultEndpoint, hub, "hf_file", false},
		{map[string]string{"HF_ENDPOINT": "http://127.0.0.1:1/", "HF_TOKEN": " mine ", "HF_HUB_OFFLINE": "1"}, "http://127.0.0.1:1", hub, "mine", true},
		{map[string]string{"HF_HOME": "~/other"}, DefaultEndpoint, "other/hub", "other", false},
		{map[string]string{"HF_HOME": home + "/other", "HF_HUB_CACHE": "~/c", "TRANSFORMERS_OFFLINE": "yes"}, DefaultEndpoint, "c", "other", true},
		{map[string]string{"XDG_CACHE_HOME": home + "/x", "HF_TOKEN_PATH": home + "/other/token"}, DefaultEndpoint, "x/huggingface/hub", "other", false},
		{map[string]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_HUB_OFFLINE": "0"}, DefaultEndpoint, hub, "", false},
	} {
		got, err := FromEnv(func(k string) string { return c.env[k] }, home)
		if err != nil {
			t.Errorf("%v: %v", c.env, err)
			continue
		}
		if got.Endpoint != c.endpoint || got.Cache != filepath.Join(home, c.cache) || got.Token != c.token || got.Offline != c.offline {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
	for _, env := range []map[string]string{{"HF_ENDPOINT": "huggingface.co"}, {"HF_TOKEN_PATH": home + "/spaces"}, {"HF_TOKEN_PATH": home}} {
		if got, err := FromEnv(func(k string) string { return env[k] }, home); err == nil {
			t.Errorf("%v is taken: %+v", env, got)
		}
	}
}

// What the cache holds is told, and goes on demand, but for what is open.
func TestModels(t *testing.T) {
	f := fakehub.New(t)
	f.Put("o/m", sharded())
	f.Put("o/n", map[string][]byte{"config.json": []byte("{}"), "model.safetensors": random(2*chunkSize, 30)})
	h := gear(t, f)
	part := must(h.Open(t.Context(), name(t, "o/m")))(t)
	if err := part.Fill(t.Context(), filepath.Join(part.Path, "model-00001-of-00002.safetensors"), [][2]int64{{0, 3 * chunkSize}}); err != nil {
		t.Fatal(err)
	}
	whole := must(h.Open(t.Context(), name(t, "o/n")))(t)
	if err := whole.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole.Close()
	list := must(h.Models())(t)
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	for _, m := range list {
		switch {
		case m.Repo == "o/m" && !m.Whole && m.Ours && m.Revision == "main" && m.Bytes >= 3*chunkSize && m.Bytes < 5*chunkSize && m.Size == 43*chunkSize+17:
		case m.Repo == "o/n" && m.Whole && m.Ours && m.Files == 2 && m.Bytes >= 2*chunkSize:
		default:
			t.Errorf("%+v", m)
		}
	}
	if n, stayed := h.Remove(name(t, "o/n@main"), false); n < 2*chunkSize || stayed != 0 {
		t.Errorf("%d bytes went, %d files stayed", n, stayed)
	}
	if n, stayed := h.Remove(name(t, "o/m"), false); n != 0 || stayed == 0 {
		t.Errorf("of what is open %d bytes went, %d files stayed", n, stayed)
	}
	part.Close()
	if n, stayed := h.Remove(name(t, "o/m"), false); n == 0 || stayed != 0 {
		t.Errorf("afterwards %d bytes went, %d files stayed", n, stayed)
	}
	if list := must(h.Models())(t); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
	// What another client fetched has no mark of ours: it goes where somebody says so.
	other := must(h.Open(t.Context(), name(t, "o/n")))(t)
	if err := other.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Close()
	for _, mark := range must(filepath.Glob(filepath.Join(place{cache: h.cfg.Cache, repo: "o/n"}.mine(), "*.used")))(t) {
		os.Remove(mark)
	}
	if n, stayed := h.Remove(name(t, "o/n"), false); n != 0 || stayed == 0 {
		t.Errorf("of another client's %d bytes went, %d files stayed", n, stayed)
	}
	if n, stayed := h.Remove(name(t, "o/n"), true); n < 2*chunkSize || stayed != 0 {
		t.Errorf("of another client's, on demand, %d bytes went, %d files stayed", n, stayed)
	}
	again := must(h.Open(t.Context(), name(t, "o/n")))(t)
	defer again.Close()
	if err := again.FillAll(t.Context()); err != nil {
		t.Errorf("fetched again: %v", err)
	}
}
