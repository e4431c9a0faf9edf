package model_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"whorl/model"
	"whorl/tensor"
)

// Types that no device computes with are loaded as others of the same values
// (TestBlocksEqualReference and others check those): what is said of them is what the file
// has, and what is planned is what memory holds.
func TestRepackedTypes(t *testing.T) {
	const path = "testdata/repacked/model.gguf"
	ck := open(t, path)
	class, err := ck.Class(model.LoadOptions{})
	if want := (model.Class{DType: "f32", Quant: "iq4_nl"}); err != nil || class != want {
		t.Errorf("class %v, %v; want %v", class, err, want)
	}
	if !ck.Quantised() {
		t.Error("the file is not known as quantised")
	}
	if _, err := ck.Class(model.LoadOptions{Quant: "q8_0"}); err == nil {
		t.Error("quantised weights are quantised again")
	}
	if _, err := ck.Class(model.LoadOptions{Quant: "iq4_nl"}); err != nil {
		t.Error(err) // as a swarm that serves it says
	}
	// wide: q 64, k and v 32, gate and up 64 rows of 256; narrow: o and down 256 rows of 64
	const wide, narrow, norms = 256 * 256, 2 * 256 * 64, 2 * 256 * 4
	for i, want := range []int64{
		wide*4 + narrow/32*34 + norms, wide/256*210 + narrow*4 + norms, wide*4 + narrow/32*34 + norms,
	} {
		if got, err := ck.BlockBytes(i, model.LoadOptions{}); err != nil || got != want {
			t.Errorf("block %d: %d bytes, %v; want %d", i, got, err, want)
		}
		if got, err := ck.Outline().BlockBytes(i, model.LoadOptions{}); err != nil || got != want {
			t.Errorf("block %d of the outline: %d bytes, %v; want %d", i, got, err, want)
		}
	}
	const table = 96 * 256
	want := map[string]model.Repacked{
		"Q2_K":   {Type: "Q2_K", As: tensor.F32, Stored: wide / 256 * 84, Held: wide * 4},
		"Q3_K":   {Type: "Q3_K", As: tensor.Q6_K, Stored: (wide + table) / 256 * 110, Held: (wide + table) / 256 * 210},
		"IQ4_XS": {Type: "IQ4_XS", As: tensor.F32, Stored: wide / 256 * 136, Held: wide * 4},
		"IQ4_NL": {Type: "IQ4_NL", As: tensor.Q8_0, Stored: 2 * narrow / 32 * 18, Held: 2 * narrow / 32 * 34},
		"Q5_1":   {Type: "Q5_1", As: tensor.F32, Stored: narrow / 32 * 24, Held: narrow * 4},
	}
	got := map[string]model.Repacked{}
	for _, r := range ck.Repacked() {
		got[r.Type] = r
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("repacked are %v, want %v", got, want)
	}
	if list := open(t, "testdata/kquants/model.gguf").Repacked(); list != nil {
		t.Errorf("of types that devices know %v are repacked", list)
	}
	block, err := ck.LoadBlock(openDevice(t, 1), 1, model.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := block.Bytes(); n < wide/256*210+narrow*4 {
		t.Errorf("a loaded block has %d bytes", n)
	}
	if read := ck.BytesRead(); read != wide/256*110+narrow/32*24+norms {
		t.Errorf("loading a block read %d bytes of the file", read)
	}
}

// Every type of GGUF that is neither computed with nor repacked is refused by its name.
func TestOtherTypesAreNamed(t *testing.T) {
	const tensorName = "blk.0.attn_q.weight" // Q2_K, whose rows of 256 all these types fit
	raw, err := os.ReadFile("testdata/repacked/model.gguf")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, []byte(tensorName)) + len(tensorName) + 4 + 2*8 // behind name and dimensions: type, offset
	if kind := binary.LittleEndian.Uint32(raw[at:]); kind != 10 {
		t.Fatalf("the type of %s is %d, want 10", tensorName, kind)
	}
	// Its bytes move to the end, where there is room for the largest of these types.
	binary.LittleEndian.PutUint64(raw[at+4:], uint64(len(raw)/32*32))
	raw = append(raw, make([]byte, len(raw)+64*256*8)...)
	path := filepath.Join(t.TempDir(), "m.gguf")
	write := func(kind uint32) {
		binary.LittleEndian.PutUint32(raw[at:], kind)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(10)
	open(t, path)
	for kind, name := range map[uint32]string{
		9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 24: "I8", 25: "I16", 26: "I32",
		27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
	} {
		write(kind)
		refused(t, path, `tensor "`+tensorName+`" has the type `+name+", which is not supported: supported are F32, ")
	}
	write(99)
	refused(t, path, `tensor "`+tensorName+`" has the unknown type 99`)
}
