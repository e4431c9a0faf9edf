package model_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"whorl/content"
	"whorl/model"
)

// Contents are the roots of all blocks and of the head; asking for them reads every tensor
// once, and asking for a root again reads nothing.
func TestContents(t *testing.T) {
	for _, path := range []string{toyPath, "testdata/pair", "testdata/pair/model.gguf", "testdata/mixtral", "testdata/bloom", "testdata/gemma3"} {
		ck := open(t, path)
		var last, sum atomic.Int64
		opening := ck.BytesRead() // rotation factors of a GGUF file, which are configuration
		got, err := ck.Contents(t.Context(), func(done, total int64) {
			sum.Store(total)
			last.Store(max(last.Load(), done))
		})
		if err != nil {
			t.Fatal(err)
		}
		if last.Load() != sum.Load() || ck.BytesRead()-opening != sum.Load() {
			t.Errorf("%s: told of %d bytes of %d, read %d", path, last.Load(), sum.Load(), ck.BytesRead()-opening)
		}
		head, err := ck.HeadRoot()
		if err != nil || head != got.Head || len(got.Blocks) != ck.Config.Layers {
			t.Errorf("%s: head %s, want %s; %d blocks (%v)", path, head, got.Head, len(got.Blocks), err)
		}
		for i, want := range got.Blocks {
			if root, err := open(t, path).BlockRoot(i); err != nil || root != want {
				t.Errorf("%s: block %d is %s alone and %s among all (%v)", path, i, root, want, err)
			}
		}
		if ck.BytesRead()-opening != sum.Load() {
			t.Errorf("%s: roots that were known are read again", path)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := open(t, toyPath).Contents(ended, nil); !errors.Is(err, why) {
		t.Errorf("a cancelled call: %v", err)
	}
}

// Roots are of what a file stores: these must stay, for they are in manifests.
func TestContentsGolden(t *testing.T) {
	got, err := open(t, toyPath).Contents(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const block0, head = "7d520e76958f3a04e63ae7296c0bb8d65373eed51b639d141d45be12bfdf8241", "1c1fc7cf9197f593a4cae24ff559723e62f3f1576bc1bdd7c634965b3c449ab0"
	if got.Blocks[0].String() != block0 || got.Head.String() != head {
		t.Errorf("block 0 is %s, the head %s; want %s and %s", got.Blocks[0], got.Head, block0, head)
	}
}

func TestHeadRoot(t *testing.T) {
	root := func(path string) content.Hash {
		h, err := open(t, path).HeadRoot()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	dir := copyModel(t, toyPath)
	bare := copyModel(t, toyPath)
	withoutPrefix(t, filepath.Join(bare, "model.safetensors"))
	want := root(toyPath)
	if root(dir) != want || root(bare) != want {
		t.Error("the root depends on the path or on a prefix")
	}
	flipBit(t, filepath.Join(dir, "model.safetensors"), "model.embed_tokens.weight")
	if root(dir) == want {
		t.Error("a flipped bit of the embeddings changes no root")
	}
}

// The cache knows a file until anybody writes to it, and never gets in the way.
func TestContentsCache(t *testing.T) {
	cache := model.ContentsCache(filepath.Join(t.TempDir(), "not", "there yet"))
	dir := copyModel(t, toyPath)
	want, err := open(t, dir).Contents(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ck := open(t, dir)
	if got, ok, err := cache.Load(ck); ok || err != nil {
		t.Errorf("an empty cache knows %v (%v)", got, err)
	}
	if err := cache.Save(ck, want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := cache.Load(open(t, dir))
	if err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v %t %v, want %v", got, ok, err, want)
	}
	if _, ok, err := cache.Load(open(t, copyModel(t, toyPath))); ok || err != nil {
		t.Errorf("a copy elsewhere is taken for the file (%v)", err)
	}
	if _, ok, _ := model.ContentsCache("").Load(ck); ok || model.ContentsCache("").Save(ck, want) != nil {
		t.Error("no cache knows something")
	}
	flipBit(t, filepath.Join(dir, "model.safetensors"), "model.layers.3.mlp.up_proj.weight")
	if _, ok, err := cache.Load(open(t, dir)); ok || err != nil {
		t.Errorf("a changed file is taken for what it was (%v)", err)
	}
	files, err := os.ReadDir(string(cache))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files in the cache (%v)", len(files), err)
	}
	path := filepath.Join(string(cache), files[0].Name())
	for _, bad := range []string{"", "{", `{"version":1,"files":[]}`, strings.Repeat(" ", 5<<20)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok, _ := cache.Load(ck); ok {
			t.Errorf("%d bytes of rubbish are taken for a cache", len(bad))
		}
	}
}
