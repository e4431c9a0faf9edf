package model_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"whorl/content"
	"whorl/model"
	"whorl/model/nn"
	"whorl/tensor"
)

const toyPath = "../internal/swarmtest/testdata/toy"

// Loading a block reads that block and nothing else; so does its digest; the head reads no
// block.
func TestLoadReadsOnlyWhatItLoads(t *testing.T) {
	dev := openDevice(t, 1)
	for _, path := range []string{toyPath, "testdata/scaled", "testdata/quants/model.gguf", "testdata/mixtralquants/model.gguf"} {
		ck := open(t, path)
		if ck.BytesRead() != 0 && !strings.HasSuffix(path, ".gguf") {
			t.Errorf("%s: opening read %d bytes of tensors", path, ck.BytesRead())
		}
		for i := range ck.Config.Layers {
			want, err := ck.BlockBytes(i, model.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if path == "testdata/scaled" { // vectors lie there in two bytes and are loaded in four
				for _, need := range ck.Config.Block(i).Needs() {
					if need.Vector() {
						want -= 2 * need.Values()
					}
				}
			}
			before := ck.BytesRead()
			b, err := ck.LoadBlock(dev, i, model.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if read := ck.BytesRead() - before; read != want {
				t.Errorf("%s: loading block %d read %d bytes, want %d", path, i, read, want)
			}
			if b.Bytes() < want {
				t.Errorf("%s: block %d holds %d bytes, want at least %d", path, i, b.Bytes(), want)
			}
			before = ck.BytesRead()
			if _, err := ck.BlockRoot(i); err != nil {
				t.Fatal(err)
			}
			if read := ck.BytesRead() - before; read != want {
				t.Errorf("%s: the root of block %d read %d bytes, want %d", path, i, read, want)
			}
		}
	}
	ck := open(t, toyPath)
	if _, err := ck.LoadHead(dev, model.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	if want, _ := ck.HeadBytes(model.LoadOptions{}); ck.BytesRead() != want || want != 4*(384*64+64) {
		t.Errorf("loading the head read %d bytes, want %d", ck.BytesRead(), want)
	}
}

func TestSizes(t *testing.T) {
	ck := open(t, "testdata/quants/model.gguf")
	// hidden 64, ffn 96, 4 heads of 16 on 2, biases in attention
	const matrices, biases, norms = 64*64 + 2*32*64 + 64*64 + 3*64*96, 64 + 32 + 32 + 64, 2 * 64
	if got := ck.BlockParams(0); got != matrices+biases+norms {
		t.Errorf("%d parameters, want %d", got, matrices+biases+norms)
	}
	for i, perGroup := range []int64{34, 18, 20, 64} {
		want := int64(matrices)/32*perGroup + 4*(biases+norms)
		if got, err := ck.BlockBytes(i, model.LoadOptions{}); err != nil || got != want {
			t.Errorf("block %d has %d bytes (%v), want %d", i, got, err, want)
		}
	}
	if _, err := ck.BlockBytes(4, model.LoadOptions{}); err == nil {
		t.Error("block 4 of 4 has a size")
	}
	float := open(t, "testdata/pair")
	for name, perGroup := range map[string]int64{"f32": 128, "bf16": 64, "f16": 64} {
		params := float.BlockParams(0)
		want := (params-2*64)/32*perGroup + 4*2*64
		if got, err := float.BlockBytes(0, model.LoadOptions{DType: name}); err != nil || got != want {
			t.Errorf("%s: %d bytes (%v), want %d", name, got, err, want)
		}
	}
}

func TestClass(t *testing.T) {
	const f32, bf16, f16, q = "testdata/pair", "testdata/scaled", "testdata/linear", "testdata/mixed/model.gguf"
	tests := []struct {
		path, dtype, quant string
		want               model.Class // zero: an error
		err                string
	}{
		{f32, "", "", model.Class{DType: "f32", Quant: "none"}, ""},
		{f32, "auto", "none", model.Class{DType: "f32", Quant: "none"}, ""}, // never rounded unasked
		{f32, "bfloat16", "none", model.Class{DType: "bf16", Quant: "none"}, ""},
		{f32, "f16", "q8_0", model.Class{DType: "f16", Quant: "q8_0"}, ""},
		{f32, "auto", "q4_0", model.Class{DType: "f32", Quant: "q4_0"}, ""},
		{bf16, "auto", "", model.Class{DType: "bf16", Quant: "none"}, ""},
		{bf16, "float32", "", model.Class{DType: "f32", Quant: "none"}, ""},
		{f16, "auto", "", model.Class{DType: "f16", Quant: "none"}, ""},
		{q, "auto", "none", model.Class{DType: "f32", Quant: "q6_k"}, ""},
		{q, "float32", "q6_k", model.Class{DType: "f32", Quant: "q6_k"}, ""},

		{f32, "int8", "", model.Class{}, `dtype "int8" is not supported: use auto, float32, bfloat16 or float16`},
		{f32, "q4_0", "", model.Class{}, `dtype "q4_0" is not supported`},
		{f32, "", "int3", model.Class{}, `quant "int3" is not supported: use none or`},
		{bf16, "", "q8_0", model.Class{}, "quant q8_0 does not fit scaled: self_attn.q_proj.weight"}, // rows of 48
		{f32, "", "q4_k", model.Class{}, "no whole number of groups of 256"},
		{q, "bf16", "", model.Class{}, "dtype bf16: the weights of model are stored as q6_k: use auto"},
		{q, "", "q4_0", model.Class{}, `quant "q4_0": the weights of model are stored as q6_k`},
	}
	for _, tt := range tests {
		got, err := open(t, tt.path).Class(model.LoadOptions{DType: tt.dtype, Quant: tt.quant})
		if tt.err == "" && (err != nil || got != tt.want) {
			t.Errorf("%s %q %q: %+v, %v; want %+v", tt.path, tt.dtype, tt.quant, got, err, tt.want)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s %q %q: error %v, want %q", tt.path, tt.dtype, tt.quant, err, tt.err)
		}
	}
}

// Types that hold the stored values exactly give the same bits; rounding gives others, near.
func TestDTypes(t *testing.T) {
	dev := openDevice(t, 2)
	run := func(path, dtype, quant string) []float32 {
		r := newRig(t, path, dev, model.LoadOptions{DType: dtype, Quant: quant})
		p := ids(20, 1)
		return r.logits(tensor.ActF32, r.hidden(tensor.ActF32, nil, part{r.sequence(len(p)), p}))
	}
	for path, stored := range map[string]string{"testdata/scaled": "bf16", "testdata/linear": "f16"} {
		want := run(path, "auto", "none")
		if !sameBits(run(path, stored, "none"), want) || !sameBits(run(path, "f32", "none"), want) {
			t.Errorf("%s: auto, %s and f32 are not the same", path, stored)
		}
	}
	exact := run("testdata/pair", "auto", "none")
	for _, tt := range []struct {
		dtype, quant string
		low, high    float64 // part of the logits' size by which they move
	}{
		{"f16", "none", 1e-6, 0.01},
		{"bf16", "none", 1e-4, 0.05},
		{"auto", "q8_0", 1e-4, 0.1},
		{"auto", "q4_1", 1e-3, 0.5},
		{"auto", "q4_0", 1e-3, 0.5},
		{"bf16", "q8_0", 1e-4, 0.1},
	} {
		if d := distance(run("testdata/pair", tt.dtype, tt.quant), exact); !(d > tt.low && d < tt.high) {
			t.Errorf("dtype %s, quant %s: logits move by %.2g of their size, want %g to %g", tt.dtype, tt.quant, d, tt.low, tt.high)
		}
	}
}

// distance is |a-b| / |b|.
func distance(a, b []float32) float64 {
	var diff, size float64
	for i := range a {
		d := float64(a[i] - b[i])
		diff += d * d
		size += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(diff / size)
}

func TestBlockRoot(t *testing.T) {
	digest := func(path string, i int) content.Hash {
		t.Helper()
		d, err := open(t, path).BlockRoot(i)
		if err != nil || d.IsZero() {
			t.Fatalf("%s: %s, %v", path, d, err)
		}
		return d
	}
	a := digest(toyPath, 0)
	if digest(toyPath, 0) != a {
		t.Error("two readings of a block differ")
	}
	if digest(toyPath, 1) == a {
		t.Error("two blocks have one root")
	}
	dir := copyModel(t, toyPath)
	if digest(dir, 0) != a {
		t.Error("the root depends on the path")
	}
	flipBit(t, filepath.Join(dir, "model.safetensors"), "model.layers.3.mlp.up_proj.weight")
	for i := range 8 {
		if changed := digest(dir, i) != digest(toyPath, i); changed != (i == 3) {
			t.Errorf("a flipped bit in block 3: the root of block %d changed: %v", i, changed)
		}
	}
	// The same values under another type are other stored weights.
	if digest("testdata/pair", 0) == digest("testdata/pair/model.gguf", 0) {
		t.Error("permuted rows have the root of those in order")
	}
	if _, err := open(t, toyPath).BlockRoot(8); err == nil {
		t.Error("block 8 of 8 has a root")
	}
}

// Both formats and both forms of config.json give one configuration and one hash.
func TestOneConfigFromAllSources(t *testing.T) {
	for _, name := range []string{"scaled", "linear", "pair"} {
		dir := copyModel(t, filepath.Join("testdata", name))
		want := open(t, dir).Config
		if err := os.Rename(filepath.Join(dir, "config.v4.json"), filepath.Join(dir, "config.json")); err != nil {
			t.Fatal(err)
		}
		got := open(t, dir).Config
		if !reflect.DeepEqual(got, want) || got.Hash() != want.Hash() {
			t.Errorf("%s: in the form of transformers 4\n%+v\nand of 5\n%+v", name, got, want)
		}
	}
	a, b := open(t, "testdata/pair").Config, open(t, "testdata/pair/model.gguf").Config
	if !reflect.DeepEqual(a, b) || a.Hash() != b.Hash() {
		t.Errorf("from safetensors\n%+v\nfrom GGUF\n%+v", a, b)
	}
	if r := open(t, "testdata/scaled/model.gguf").Config.Rope; r.Kind != nn.RopeFactors {
		t.Errorf("factors of an unpublished scaling became %+v", r)
	}
}

// Every field but the context limit alters the hash.
func TestHashCoversEveryField(t *testing.T) {
	base := open(t, "testdata/pair").Config
	seen := map[string]string{base.Hash(): "nothing"}
	v := reflect.ValueOf(&base).Elem()
	check := func(path string, field reflect.Value) {
		old := reflect.ValueOf(field.Interface())
		switch field.Kind() {
		case reflect.Int, reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Uint8:
			field.SetUint(field.Uint() + 1)
		case reflect.Float32:
			field.SetFloat(field.Float() + 1)
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		default:
			t.Fatalf("%s: teach the test to change a %s", path, field.Kind())
		}
		hash := base.Hash()
		if other, dup := seen[hash]; dup != (path == "MaxPositions") {
			t.Errorf("a change of %s and of %s have one hash", path, other)
		}
		seen[hash] = path
		field.Set(old)
	}
	var each func(path string, v reflect.Value)
	each = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			if v.Field(i).Kind() == reflect.Struct {
				each(name+".", v.Field(i))
			} else {
				check(name, v.Field(i))
			}
		}
	}
	each("", v)
}

// flipBit changes a tensor of a safetensors file.
func flipBit(t *testing.T, file, tensor string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		Offsets []int `json:"data_offsets"`
	}
	if err := json.Unmarshal(bytes.ReplaceAll(raw[8:8+n], []byte(`"__metadata__":{"format":"pt"},`), nil), &header); err != nil {
		t.Fatal(err)
	}
	raw[8+int(n)+header[tensor].Offsets[0]+5] ^= 4
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
