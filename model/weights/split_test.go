package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// splitKeys are the three keys of a part, in the types that writers use.
func (b *ggufBuilder) splitKeys(no, count uint16, tensors uint32) *ggufBuilder {
	b.key(splitNo, kindU16).bytes(byte(no), byte(no>>8))
	b.key(splitCount, kindU16).bytes(byte(count), byte(count>>8))
	return b.key(splitTensors, kindI32).u32(tensors)
}

// honestParts are three files: the first has no tensors, the others four in all.
func honestParts() [][]byte {
	return [][]byte{
		newGGUF(3, 0, 4).key("general.name", kindString).str("tiny").splitKeys(0, 3, 4).buf,
		newGGUF(3, 2, 3).splitKeys(1, 3, 4).tensor("a", 0, 0, 8).tensor("b", 3, 32, 64, 2).data(32, 112),
		newGGUF(3, 2, 4).key(alignmentKey, kindU32).u32(64).splitKeys(2, 3, 4).tensor("c", 0, 0, 4).tensor("d", 0, 64, 4).data(64, 80),
	}
}

// writeParts gives the folder and the path of a part, from 1.
func writeParts(t testing.TB, parts [][]byte) (dir string, path func(int) string) {
	t.Helper()
	dir = t.TempDir()
	path = func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", i, len(parts))) }
	for i, data := range parts {
		if data == nil {
			continue
		}
		if err := os.WriteFile(path(i+1), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, path
}

func TestSplitGGUF(t *testing.T) {
	dir, path := writeParts(t, honestParts())
	for i := range 3 {
		f, err := OpenGGUF(path(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		if name, _ := f.Metadata().String("general.name"); name != "tiny" || len(f.Names()) != 4 || GGUFName(f.Path()) != "m" {
			t.Errorf("by part %d: the name %q, tensors %q, a model %q", i+1, name, f.Names(), GGUFName(f.Path()))
		}
		if f.Touched() != 0 {
			t.Errorf("touched %d bytes before any tensor", f.Touched())
		}
		for name, want := range map[string]byte{"a": 0, "b": 32, "c": 0, "d": 64} {
			if x, err := f.Tensor(name); err != nil || x.Data[0] != want {
				t.Errorf("%s begins with %d (%v), want %d", name, x.Data[0], err, want)
			}
		}
		touch(t, f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := FindGGUF(dir); err != nil || found != path(1) {
		t.Errorf("the folder's file is %s, %v", found, err)
	}
	if found, err := FindGGUF(t.TempDir()); err != nil || found != "" {
		t.Errorf("an empty folder's file is %q, %v", found, err)
	}
}

// A split in one part is a whole file, with the keys or without.
func TestSplitInOne(t *testing.T) {
	for _, data := range [][]byte{
		newGGUF(3, 1, 3).splitKeys(0, 1, 1).tensor("a", 0, 0, 8).data(32, 32),
		newGGUF(3, 1, 0).tensor("a", 0, 0, 8).data(32, 32),
	} {
		for _, name := range []string{"m.gguf", "m-00001-of-00001.gguf"} {
			f, err := OpenGGUF(write(t, name, data))
			if err != nil {
				t.Fatal(err)
			}
			if GGUFName(f.Path()) != "m" {
				t.Errorf("%s is named %s", name, GGUFName(f.Path()))
			}
			f.Close()
		}
	}
}

func TestSplitRefusesBadParts(t *testing.T) {
	second := func(keys uint64) *ggufBuilder { return newGGUF(3, 2, keys) }
	tensors := func(b *ggufBuilder) []byte {
		return b.tensor("a", 0, 0, 8).tensor("b", 3, 32, 64, 2).data(32, 112)
	}
	tests := map[string]struct {
		part int // that is replaced, from 1
		data []byte
		want string
	}{
		"missing":          {2, nil, "of its 3 parts DIR/m-00002-of-00003.gguf is missing"},
		"last missing":     {3, nil, "of its 3 parts DIR/m-00003-of-00003.gguf is missing"},
		"empty":            {2, []byte{}, "the file is empty"},
		"cut":              {2, honestParts()[1][:200], "m-00002-of-00003.gguf: tensor"},
		"other order":      {2, tensors(second(3).splitKeys(2, 3, 4)), "split.no is 2, but by its name the file is part 2 of 3, which is 1 there"},
		"twice the first":  {2, honestParts()[0], "split.no is 0, but by its name"},
		"other count":      {2, tensors(second(3).splitKeys(1, 4, 4)), "split.count is 4, but by its name the file is part 2 of 3"},
		"hostile count":    {2, tensors(second(3).splitKeys(1, 65535, 4)), "split.count is 65535, but"},
		"count 0":          {1, newGGUF(3, 0, 3).splitKeys(0, 0, 4).buf, "split.count is 0, but"},
		"count 1":          {1, newGGUF(3, 0, 3).splitKeys(0, 1, 4).buf, "split.count is 1, but"},
		"negative count":   {1, newGGUF(3, 0, 1).key(splitCount, kindI16).bytes(0xfd, 0xff).buf, "split.count is -3, but"},
		"huge count":       {1, newGGUF(3, 0, 1).key(splitCount, kindU64).u64(1<<64 - 1).buf, "split.count is 18446744073709551615, but"},
		"count of text":    {1, newGGUF(3, 0, 1).key(splitCount, kindString).str("3").buf, "split.count is of type string, but"},
		"no number":        {1, newGGUF(3, 0, 1).key(splitCount, kindU8).bytes(3).buf, "part 1 of 3, but the metadata key split.no is missing"},
		"no keys":          {2, tensors(second(0)), "part 2 of 3, but the metadata key split.count is missing"},
		"no total":         {2, tensors(second(2).key(splitNo, kindU8).bytes(1).key(splitCount, kindU8).bytes(3)), "split.tensors.count is missing, want a number of tensors"},
		"other total":      {2, tensors(second(3).splitKeys(1, 3, 5)), "split.tensors.count is 5, but 4 in the first part"},
		"too few":          {2, newGGUF(3, 1, 3).splitKeys(1, 3, 4).tensor("a", 0, 0, 8).data(32, 32), "split.tensors.count is 4, but there are 3 tensors"},
		"duplicate":        {2, newGGUF(3, 2, 3).splitKeys(1, 3, 4).tensor("a", 0, 0, 8).tensor("c", 0, 32, 8).data(32, 64), `m-00003-of-00003.gguf: tensor "c" appears twice`},
		"other model":      {2, tensors(second(4).key("general.name", kindString).str("tony").splitKeys(1, 3, 4)), `"general.name" is not what it is in the first part`},
		"key of its own":   {2, tensors(second(4).key("llama.rope.scale", kindU8).bytes(1).splitKeys(1, 3, 4)), `"llama.rope.scale" is not what it is in the first part`},
		"other text":       {2, []byte("a file that is no GGUF at all"), "m-00002-of-00003.gguf: not a GGUF file"},
		"alignment":        {2, tensors(second(4).key(alignmentKey, kindU32).u32(24).splitKeys(1, 3, 4)), "general.alignment is 24"},
		"over the file":    {2, second(3).splitKeys(1, 3, 4).tensor("a", 0, 0, 8).tensor("b", 3, 96, 64, 2).data(32, 112), `tensor "b" ends at byte`},
		"the same in both": {2, newGGUF(3, 2, 3).splitKeys(1, 3, 4).tensor("a", 0, 0, 8).tensor("b", 0, 0, 8).data(32, 64), `tensors "a" and "b" overlap`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parts := honestParts()
			parts[tt.part-1] = tt.data
			dir, path := writeParts(t, parts)
			f, err := OpenGGUF(path(1))
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			oneLine(t, err, dir, strings.ReplaceAll(tt.want, "DIR", dir))
		})
	}
}

// Names that tell of parts which cannot be, and parts under other names.
func TestSplitRefusesBadNames(t *testing.T) {
	whole := newGGUF(3, 1, 0).tensor("a", 0, 0, 8).data(32, 32)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"m-00000-of-00003.gguf": {whole, "the name says part 0 of 3"},
		"m-00004-of-00003.gguf": {whole, "the name says part 4 of 3"},
		"m-00001-of-65535.gguf": {whole, "the name says 65535 parts, the limit is 4096"},
		"m-00001-of-04096.gguf": {whole, "of its 4096 parts 4095 are missing, the first of them"},
		"renamed.gguf":          {honestParts()[1], "one part of a split of 3 files, whose names must end in -00001-of-00003.gguf and so on"},
		"m-00001-of-00001.gguf": {honestParts()[1], "one part of a split of 3 files"},
		"one.gguf":              {newGGUF(3, 1, 3).splitKeys(0, 1, 2).tensor("a", 0, 0, 8).data(32, 32), "split.tensors.count is 2, but there are 1 tensors"},
		"second.gguf":           {newGGUF(3, 1, 3).splitKeys(1, 1, 1).tensor("a", 0, 0, 8).data(32, 32), "split.no is 1, but"},
	} {
		path := write(t, name, c.data)
		f, err := OpenGGUF(path)
		if err == nil {
			f.Close()
			t.Errorf("%s opened", name)
			continue
		}
		oneLine(t, err, path, c.want)
	}
}

func FuzzSplitGGUF(f *testing.F) {
	p := honestParts()
	f.Add(p[0], p[1], p[2])
	f.Add(p[1], p[0], p[2])
	f.Add(p[0][:50], p[1], p[2][:90])
	f.Add(newGGUF(3, 0, 3).splitKeys(0, 65535, 1).buf, p[1], p[1])
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		file := &File{format: GGUF, entries: map[string]entry{}, parts: []*mapping{{data: a}, {data: b}, {data: c}}}
		for i := range file.parts {
			if file.addGGUF(t.Context(), i, len(file.parts)) != nil {
				return
			}
		}
		if file.checkTotal() != nil || file.finish() != nil {
			return
		}
		touch(t, file)
		if n, ok := file.meta.Int(splitTensors); !ok || n != int64(len(file.names)) {
			t.Fatalf("%d tensors where %d are promised", len(file.names), n)
		}
	})
}
