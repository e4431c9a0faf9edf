package hub

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/fakehub"
)

// python is an interpreter with the hub's own client, made by scripts/test-deps.sh.
func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../.tools/python/bin/python")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skip("not proven: the hub's Python client finds what whorl fetched, and whorl what it fetched: run scripts/test-deps.sh")
	}
	return path
}

// The cache is shared with a client that nobody here wrote, both ways.
func TestPythonClient(t *testing.T) {
	interpreter := python(t)
	f, files := fakehub.New(t), sharded()
	commit := f.Put("o/m", files)
	run := func(cache, code string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), interpreter, "-c", "from huggingface_hub import snapshot_download, hf_hub_download, scan_cache_dir\n"+code)
		cmd.Env = []string{"HF_ENDPOINT=" + f.URL, "HF_HUB_CACHE=" + cache, "HOME=" + t.TempDir(), "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_XET=1", "NO_PROXY=*", "HF_HUB_DISABLE_PROGRESS_BARS=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	const shard = "model-00002-of-00002.safetensors"
	t.Run("what whorl fetched", func(t *testing.T) {
		h := gear(t, f)
		s := must(h.Open(t.Context(), name(t, "o/m")))(t)
		defer s.Close()
		if err := s.Fill(t.Context(), filepath.Join(s.Path, "model-00001-of-00002.safetensors"), [][2]int64{{0, 100}}); err != nil {
			t.Fatal(err)
		}
		if got := run(h.cfg.Cache, `
try:
    print(hf_hub_download("o/m", "model-00001-of-00002.safetensors", local_files_only=True))
except Exception as e:
    print(type(e).__name__)`); got != "LocalEntryNotFoundError" {
			t.Errorf("of a file that is there in part: %s", got)
		}
		if err := s.FillAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		path := run(h.cfg.Cache, `print(hf_hub_download("o/m", "`+shard+`", local_files_only=True))`)
		same(t, path, files[shard], 0, len(files[shard]))
		folder := run(h.cfg.Cache, `print(snapshot_download("o/m", local_files_only=True))`)
		if filepath.Base(folder) != commit {
			t.Errorf("the snapshot is %s", folder)
		}
		if got := run(h.cfg.Cache, `
r = scan_cache_dir()
print(len(r.warnings), [x.repo_id for x in r.repos])`); got != "0 ['o/m']" {
			t.Errorf("a scan of the cache says %s", got)
		}
	})
	t.Run("what it fetched", func(t *testing.T) {
		cache := t.TempDir()
		run(cache, `snapshot_download("o/m")`)
		asked := f.Asked()
		h := gear(t, f, func(c *Config) { c.Cache, c.Offline = cache, true })
		s := must(h.Open(t.Context(), name(t, "o/m")))(t)
		defer s.Close()
		if err := s.FillAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Partly() || f.Asked() != asked {
			t.Errorf("partly %v, %d requests", s.Partly(), f.Asked()-asked)
		}
		same(t, filepath.Join(s.Path, shard), files[shard], 0, len(files[shard]))
		h.cfg.MaxDisk = 1
		if h.room(place{cache, "o/m", "x"}, 2) == nil || !exists(filepath.Join(s.Path, shard)) {
			t.Error("files of another client were deleted for room")
		}
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
