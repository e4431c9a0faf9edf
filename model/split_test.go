package model_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"whorl/model"
	"whorl/model/families"
	"whorl/tensor"
)

// splits are split files with the folder of the whole file.
var splits = map[string]string{"split": "testdata/gemma2q", "splitbare": "testdata/falcon"}

// A split GGUF, by any of its parts or by its folder, is the file that was split: to the bit
// of hidden states and logits, in digests, class and plan.
func TestSplitIsTheWholeFile(t *testing.T) {
	dev := openDevice(t, 2)
	prompt := ids(60, 7)
	for name, from := range splits {
		dir := filepath.Join("testdata", name)
		whole := newRig(t, from+"/model.gguf", dev, model.LoadOptions{})
		hidden := whole.hidden(tensor.Act8, nil, part{whole.sequence(len(prompt)), prompt})
		logits := whole.logits(tensor.Act8, hidden)
		greedy := whole.greedy(tensor.Act8, prompt[:9], 16)
		paths, err := filepath.Glob(dir + "/*.gguf")
		if err != nil || len(paths) != 3 {
			t.Fatalf("%s: parts %q, %v", dir, paths, err)
		}
		for _, path := range append(paths, dir) {
			r := newRig(t, path, dev, model.LoadOptions{})
			if r.ck.Name != "tiny" || !reflect.DeepEqual(r.ck.Config, whole.ck.Config) {
				t.Errorf("%s: %s, %+v; want tiny, %+v", path, r.ck.Name, r.ck.Config, whole.ck.Config)
			}
			h := r.hidden(tensor.Act8, nil, part{r.sequence(len(prompt)), prompt})
			if !sameBits(h, hidden) || !sameBits(r.logits(tensor.Act8, h), logits) {
				t.Errorf("%s: other hidden states or logits than those of the whole file", path)
			}
			if got := r.greedy(tensor.Act8, prompt[:9], 16); !slices.Equal(got, greedy) {
				t.Errorf("%s: ids %v, want %v", path, got, greedy)
			}
			sameStorage(t, path, r.ck, whole.ck)
		}
	}
}

// sameStorage compares what servers announce and plan by.
func sameStorage(t *testing.T, path string, got, want *model.Checkpoint) {
	t.Helper()
	gotClass, err1 := got.Class(model.LoadOptions{})
	wantClass, err2 := want.Class(model.LoadOptions{})
	if err1 != nil || err2 != nil || gotClass != wantClass || got.Config.Hash() != want.Config.Hash() {
		t.Errorf("%s: class %v (%v), want %v (%v)", path, gotClass, err1, wantClass, err2)
	}
	o, err := families.Outline(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Config.Layers {
		a, err1 := got.BlockRoot(i)
		b, err2 := want.BlockRoot(i)
		if err1 != nil || err2 != nil || a != b {
			t.Errorf("%s: the digest of block %d is %s (%v), want %s (%v)", path, i, a, err1, b, err2)
		}
		n, err1 := o.BlockBytes(i, model.LoadOptions{})
		m, err2 := want.BlockBytes(i, model.LoadOptions{})
		if err1 != nil || err2 != nil || n != m {
			t.Errorf("%s: block %d is planned with %d bytes (%v), want %d (%v)", path, i, n, err1, m, err2)
		}
	}
}

// A server of one block reads no tensor of another, wherever the parts are cut.
func TestSplitReadsOneBlock(t *testing.T) {
	dev := openDevice(t, 1)
	for name, from := range splits {
		read := func(path string) int64 {
			ck := open(t, path)
			if _, err := ck.LoadBlock(dev, 1, model.LoadOptions{}); err != nil {
				t.Fatal(err)
			}
			return ck.BytesRead()
		}
		split, whole := read(filepath.Join("testdata", name)), read(from+"/model.gguf")
		st, err := os.Stat(from + "/model.gguf")
		if err != nil {
			t.Fatal(err)
		}
		if split != whole || split == 0 || split > st.Size()/2 {
			t.Errorf("%s: a block reads %d bytes, of the whole file of %d it reads %d", name, split, st.Size(), whole)
		}
	}
}

// What a folder holds is opened if it is one model; else the choice is the user's.
func TestFoldersOfGGUF(t *testing.T) {
	put := func(dir string, files map[string]string) {
		for to, from := range files {
			raw, err := os.ReadFile(filepath.Join("testdata", from))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, to), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	put(dir, map[string]string{"tiny-llama.Q8_0.gguf": "yarnkeys/model.gguf"})
	if ck := open(t, dir); ck.Name != "tiny-llama.Q8_0" || ck.Path != filepath.Join(dir, "tiny-llama.Q8_0.gguf") {
		t.Errorf("%s holds %s at %s", dir, ck.Name, ck.Path)
	}
	put(dir, map[string]string{"config.json": "yarnkeys/config.json"}) // as many repositories have it
	if ck := open(t, dir); ck.Source != "gguf" {
		t.Errorf("a configuration without safetensors opens as %s", ck.Source)
	}
	put(dir, map[string]string{"model.safetensors": "yarnkeys/model.safetensors"})
	if ck := open(t, dir); ck.Source != "safetensors" {
		t.Errorf("a folder of safetensors opens as %s", ck.Source)
	}

	several := t.TempDir()
	put(several, map[string]string{
		"b.gguf": "yarnkeys/model.gguf", "a-00002-of-00003.gguf": "split/tiny-00002-of-00003.gguf", "a-00003-of-00003.gguf": "split/tiny-00003-of-00003.gguf",
	})
	refused(t, several, several+" holds 2 GGUF models: give the path of one of a-00002-of-00003.gguf, b.gguf")
	if _, err := families.Outline(several); err == nil {
		t.Error("a folder of two models has an outline")
	}
	refused(t, filepath.Join(several, "a-00003-of-00003.gguf"), "of its 3 parts "+several+"/a-00001-of-00003.gguf is missing")
	refused(t, filepath.Join(several, "a-00001-of-00003.gguf"), "no such file")
}
