package weights

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"whorl/tensor"
)

func TestSafetensorsSingleFile(t *testing.T) {
	data := safetensorsBytes(t, 60,
		member{"a.weight", "F32", []int{2, 3}, 0, 24},
		member{"b", "BF16", []int{4}, 24, 32},
		member{"mask", "BOOL", []int{2, 2, 2}, 32, 40},
		member{"counter", "I64", []int{}, 40, 48},
		member{"empty", "F32", []int{0, 4}, 48, 48},
		member{"h", "F16", []int{6}, 48, 60})
	f, err := OpenSafetensors(write(t, "model.safetensors", data))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := []string{"a.weight", "b", "counter", "empty", "h", "mask"}; !slices.Equal(f.Names(), want) {
		t.Errorf("names %v, want %v", f.Names(), want)
	}
	a, err := f.Tensor("a.weight")
	if err != nil {
		t.Fatal(err)
	}
	if a.DType != tensor.F32 || !slices.Equal(a.Shape, []int{2, 3}) || a.Data[0] != 0 || len(a.Data) != 24 {
		t.Errorf("a.weight is %+v", a.Info)
	}
	if b, _ := f.Tensor("b"); b.DType != tensor.BF16 || b.Data[0] != 24 {
		t.Errorf("b is %+v", b.Info)
	}
	if mask, _ := f.Tensor("mask"); mask.Loadable {
		t.Error("a mask counts as loadable")
	} else if _, err := mask.Matrix(); err == nil {
		t.Error("a mask counts as a matrix")
	}
	if f.Touched() != 24+8+8 {
		t.Errorf("touched %d bytes, want 40", f.Touched())
	}
	if _, err := f.Tensor("c"); err == nil {
		t.Error("a tensor that does not exist was handed out")
	}
	touch(t, f)
}

func TestSafetensorsRefusesBadFiles(t *testing.T) {
	good := safetensorsBytes(t, 24, member{"a", "F32", []int{2, 3}, 0, 24})
	one := func(dtype, shape, offsets string, n int) []byte {
		return rawSafetensors(`{"a":{"dtype":`+dtype+`,"shape":`+shape+`,"data_offsets":`+offsets+`}}`, n)
	}
	tests := map[string]struct {
		data []byte
		want string
	}{
		"short":            {[]byte{1, 2, 3}, "too short"},
		"huge header":      {binary.LittleEndian.AppendUint64(nil, 1<<60), "the limit is"},
		"header cut":       {good[:30], "truncated or corrupt"},
		"data cut":         {good[:len(good)-1], "truncated or corrupt"},
		"data more":        {append(slices.Clone(good), 0), "it is damaged"},
		"not JSON":         {rawSafetensors("hello", 0), "not a JSON object"},
		"a list":           {rawSafetensors("[1]", 0), "not a JSON object"},
		"cut JSON":         {rawSafetensors(`{"a":`, 0), "bad header"},
		"unknown type":     {one(`"Q9"`, `[2]`, `[0,2]`, 2), `unknown type "Q9"`},
		"negative":         {one(`"F32"`, `[-1]`, `[0,4]`, 4), "dimension -1"},
		"fraction":         {one(`"F32"`, `[1.5]`, `[0,4]`, 4), `tensor "a"`},
		"overflow":         {one(`"F32"`, `[4294967296,4294967296]`, `[0,4]`, 4), "overflows"},
		"many dimensions":  {one(`"F32"`, `[1,1,1,1,1,1,1,1,1]`, `[0,4]`, 4), "9 dimensions"},
		"wrong size":       {one(`"F32"`, `[2]`, `[0,4]`, 4), "takes 8 bytes"},
		"backwards":        {one(`"F32"`, `[1]`, `[4,0]`, 4), "data_offsets are [4, 0]"},
		"negative offset":  {one(`"F32"`, `[1]`, `[-4,0]`, 4), "data_offsets are [-4, 0]"},
		"no offsets":       {rawSafetensors(`{"a":{"dtype":"F32","shape":[1]}}`, 4), "no data_offsets"},
		"three offsets":    {one(`"F32"`, `[1]`, `[0,4,8]`, 4), "no data_offsets pair"},
		"outside":          {one(`"F32"`, `[1]`, `[4,8]`, 4), "truncated or corrupt"},
		"far outside":      {one(`"F32"`, `[1]`, `[9223372036854775803,9223372036854775807]`, 4), "ends at byte"},
		"twice":            {rawSafetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "appears twice"},
		"overlap":          {safetensorsBytes(t, 8, member{"a", "F32", []int{1}, 0, 4}, member{"b", "F32", []int{1}, 2, 6}, member{"c", "U8", []int{1}, 7, 8}), "overlap"},
		"metadata numbers": {rawSafetensors(`{"__metadata__":{"x":1}}`, 0), "bad header"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := write(t, "model.safetensors", tt.data)
			f, err := OpenSafetensors(path)
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			oneLine(t, err, path, tt.want)
		})
	}
}

func shardFolder(t *testing.T, index string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		indexName:         []byte(index),
		"one.safetensors": safetensorsBytes(t, 8, member{"a", "F32", []int{2}, 0, 8}),
		"two.safetensors": safetensorsBytes(t, 4, member{"b", "F32", []int{1}, 0, 4}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSafetensorsShards(t *testing.T) {
	dir := shardFolder(t, `{"metadata":{"total_size":12},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}`)
	f, err := OpenSafetensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !slices.Equal(f.Names(), []string{"a", "b"}) {
		t.Errorf("names %v", f.Names())
	}
	touch(t, f)
}

func TestSafetensorsRefusesBadFolders(t *testing.T) {
	for name, tt := range map[string]struct{ index, want string }{
		"not JSON":     {`{`, "not a valid index"},
		"empty map":    {`{"weight_map":{}}`, "weight_map is empty"},
		"escape":       {`{"weight_map":{"a":"../one.safetensors"}}`, "not the name of a safetensors file"},
		"absolute":     {`{"weight_map":{"a":"/etc/passwd"}}`, "not the name of a safetensors file"},
		"missing file": {`{"weight_map":{"a":"three.safetensors"}}`, "names three.safetensors, which is not there: fetch the whole model"},
		"wrong shard":  {`{"weight_map":{"a":"two.safetensors","b":"two.safetensors"}}`, "does not hold it"},
		"not there":    {`{"weight_map":{"a":"one.safetensors","c":"two.safetensors"}}`, "does not hold it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shardFolder(t, tt.index)
			f, err := OpenSafetensors(dir)
			if err == nil {
				f.Close()
				t.Fatal("opened")
			}
			oneLine(t, err, dir, tt.want)
		})
	}
	empty := t.TempDir()
	if _, err := OpenSafetensors(empty); err == nil {
		t.Error("an empty folder opened")
	} else {
		oneLine(t, err, empty, "neither model.safetensors nor")
	}
	if _, err := OpenSafetensors(write(t, "e.safetensors", nil)); err == nil {
		t.Error("an empty file opened")
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safetensorsBytes(f, 24, member{"a", "F32", []int{2, 3}, 0, 24}))
	f.Add(rawSafetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{}}`, 4))
	f.Add(rawSafetensors(`{"a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &File{format: Safetensors, entries: map[string]entry{}, parts: []*mapping{{data: data}}}
		if file.addSafetensors(t.Context(), 0) != nil || file.finish() != nil {
			return
		}
		touch(t, file)
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"weight_map":{"a":"one.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":".."}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, want, err := parseIndex("dir", raw)
		if err != nil {
			return
		}
		for _, file := range files {
			if filepath.Dir(file) != "dir" {
				t.Fatalf("%q leaves the folder", file)
			}
		}
		if len(want) == 0 {
			t.Fatal("an index of nothing was accepted")
		}
	})
}
