package hub

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"whorl/content"
	"whorl/internal/fakehub"
)

const treeKey = "0123456789abcdef0123456789abcdef01234567"

// treed are files by name, as they are named among peers.
func treed(files map[string][]byte) (out []File) {
	for name, data := range files {
		out = append(out, File{Path: name, Size: int64(len(data)), Hash: content.Tree(data).String(), Tree: true})
	}
	slices.SortFunc(out, func(a, b File) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return out
}

// origin gives chunks of files in memory and counts them.
type origin struct {
	files map[string][]byte
	mu    sync.Mutex     // guards given
	given map[string]int // chunks, by file
	fail  error          // after so many chunks in all
	after int
}

func (o *origin) fetch(_ context.Context, f File, chunks []int, write Write) error {
	for _, c := range chunks {
		o.mu.Lock()
		n := 0
		for _, k := range o.given {
			n += k
		}
		if o.fail != nil && n >= o.after {
			o.mu.Unlock()
			return o.fail
		}
		o.given[f.Path]++
		o.mu.Unlock()
		from, to := run{c, c + 1}.bytes(f.Size)
		if err := write(c, content.Tree(o.files[f.Path][from:to]), o.files[f.Path][from:to]); err != nil {
			return err
		}
	}
	return nil
}

func modelFiles() map[string][]byte {
	all := sharded()
	return map[string][]byte{
		"config.json": all["config.json"], "tokenizer.json": all["tokenizer.json"], weightsIndex: all[weightsIndex],
		"model-00001-of-00002.safetensors": all["model-00001-of-00002.safetensors"], "model-00002-of-00002.safetensors": all["model-00002-of-00002.safetensors"],
	}
}

// Files of peers: only what is asked for comes, none of it twice, also after a restart and
// after a transfer that broke off; others may read what is there; a whole one becomes a blob.
func TestFilesOfPeers(t *testing.T) {
	f, files := fakehub.New(t), modelFiles()
	o := &origin{files: files, given: map[string]int{}}
	h := gear(t, f)
	s := must(h.OpenTrees(t.Context(), treeKey, treed(files), o.fetch))(t)
	same(t, filepath.Join(s.Path, "config.json"), files["config.json"], 0, len(files["config.json"]))
	const shard = "model-00001-of-00002.safetensors"
	if !s.Partly() || o.given[shard] != 0 {
		t.Errorf("%v chunks came before they were asked for", o.given)
	}
	path := filepath.Join(s.Path, shard)
	if err := s.Fill(t.Context(), path, [][2]int64{{3*chunkSize + 5, 7 * chunkSize}}); err != nil {
		t.Fatal(err)
	}
	same(t, path, files[shard], 3*chunkSize, 7*chunkSize)
	if o.given[shard] != 4 {
		t.Errorf("%d chunks came for 4", o.given[shard])
	}
	var held *Holding
	for _, x := range s.Holdings() {
		if x.File.Path == shard {
			held = x
		}
	}
	got := make([]byte, 100)
	if held.Has(2) || !held.Has(3) || !held.Has(6) || held.Has(7) || held.Has(-1) || held.Has(41) {
		t.Error("it says that it holds other chunks than it does")
	}
	if _, err := held.ReadAt(got, 6*chunkSize); err != nil || !bytes.Equal(got, files[shard][6*chunkSize:][:100]) {
		t.Errorf("what others read is wrong (%v)", err)
	}
	broke := errors.New("gone")
	o.fail, o.after = broke, 20
	if err := s.FillAll(t.Context()); !errors.Is(err, broke) {
		t.Errorf("the peers go: %v", err)
	}
	s.Close()

	o.fail = nil
	again := must(gear(t, f, func(c *Config) { c.Cache = h.cfg.Cache }).OpenTrees(t.Context(), treeKey, treed(files), o.fetch))(t)
	defer again.Close()
	if err := again.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		same(t, filepath.Join(again.Path, name), data, 0, len(data))
		if want := (len(data) + chunkSize - 1) / chunkSize; o.given[name] != want {
			t.Errorf("%d chunks of %s came, which has %d", o.given[name], name, want)
		}
	}
	if again.Partly() {
		t.Error("all is here and it counts as a part")
	}
	if to, err := os.Readlink(filepath.Join(again.Path, shard)); err != nil || filepath.Base(filepath.Dir(to)) != "blobs" {
		t.Errorf("a whole file lies at %s (%v)", to, err)
	}
	models := must(h.Models())(t)
	if len(models) != 1 || models[0].Repo != "whorl/"+treeKey || !models[0].Ours || !models[0].Whole {
		t.Errorf("%+v", models)
	}
	offline := must(gear(t, f, func(c *Config) { c.Cache, c.Offline = h.cfg.Cache, true }).OpenTrees(t.Context(), treeKey, treed(files), nil))(t)
	offline.Close()
}

// What a disk changed is found before a part becomes a blob.
func TestDamagedOnDisk(t *testing.T) {
	files := map[string][]byte{"m.gguf": random(3*chunkSize, 9)}
	o := &origin{files: files, given: map[string]int{}}
	s := must(gear(t, fakehub.New(t)).OpenTrees(t.Context(), treeKey, treed(files), o.fetch))(t)
	defer s.Close()
	if err := s.Fill(t.Context(), s.Path, [][2]int64{{0, 2 * chunkSize}}); err != nil {
		t.Fatal(err)
	}
	p := s.parts["m.gguf"]
	if _, err := p.data.WriteAt([]byte{^files["m.gguf"][5]}, 5); err != nil {
		t.Fatal(err)
	}
	if err := s.FillAll(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a changed byte: %v", err)
	}
	if err := s.FillAll(t.Context()); err != nil {
		t.Errorf("fetched again: %v", err)
	}
	same(t, s.Path, files["m.gguf"], 0, 3*chunkSize)
}

func TestFilesOfPeersRefused(t *testing.T) {
	h := gear(t, fakehub.New(t))
	good := treed(map[string][]byte{"a.gguf": random(10, 1)})[0]
	for _, bad := range []struct {
		key  string
		edit func(*File)
	}{
		{"../../etc", func(*File) {}}, {"short", func(*File) {}}, {treeKey, func(f *File) { f.Path = "../a.gguf" }}, {treeKey, func(f *File) { f.Path = ".a.gguf" }},
		{treeKey, func(f *File) { f.Size = -1 }}, {treeKey, func(f *File) { f.Hash = f.Hash[:40] }}, {treeKey, func(f *File) { f.Tree = false }}, {treeKey, func(f *File) { f.Hash = "../x" }},
	} {
		f := good
		bad.edit(&f)
		if s, err := h.OpenTrees(t.Context(), bad.key, []File{f}, nil); err == nil {
			s.Close()
			t.Errorf("%q with %+v is opened", bad.key, f)
		}
	}
	if left, _ := os.ReadDir(h.cfg.Cache); len(left) != 0 {
		t.Errorf("it left %v behind", left)
	}
}

// A disk that is full ends a transfer among peers with a clear error, and nothing half written
// is taken for whole.
func TestDiskFullOfPeers(t *testing.T) {
	dir := smallDisk(t, 8)
	files := map[string][]byte{"m.gguf": random(6*chunkSize, 9)}
	other := filepath.Join(dir, "other")
	o := &origin{files: files, given: map[string]int{}}
	s := must(gear(t, fakehub.New(t), func(c *Config) { c.Cache = filepath.Join(dir, "hub") }).OpenTrees(t.Context(), treeKey, treed(files), func(ctx context.Context, f File, chunks []int, write Write) error {
		os.WriteFile(other, random(6<<20, 1), 0o600) // somebody takes the room that was there
		return o.fetch(ctx, f, chunks, write)
	}))(t)
	defer s.Close()
	if err := s.FillAll(t.Context()); !errors.Is(err, ErrDisk) {
		t.Errorf("a full disk: %v", err)
	}
	os.Remove(other)
	s.from = o.fetch
	if err := s.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, s.Path, files["m.gguf"], 0, 6*chunkSize)
}
