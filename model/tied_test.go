package model_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/model"
	"whorl/tensor"
)

// Files that hold an LM head although their configuration ties it to the embeddings: equal
// ones are one table, others are refused before the head is loaded.
func TestHeadBesideTiedEmbeddings(t *testing.T) {
	dev := openDevice(t, 1)
	const path = "testdata/qwen2" // tied, in BF16
	alone := newRig(t, path, dev, model.LoadOptions{})
	prompt := ids(9, 1)
	want := alone.logits(tensor.ActF32, alone.hidden(tensor.ActF32, nil, part{alone.sequence(len(prompt)), prompt}))
	hidden, vocab := alone.ck.Config.Hidden, alone.ck.Config.Vocab
	for _, c := range []struct {
		name, dtype string
		shape       []int
		change      func(table []byte) []byte
		want        string
	}{
		{"equal", "BF16", []int{vocab, hidden}, func(b []byte) []byte { return b }, ""},
		{"equal, in F32", "F32", []int{vocab, hidden}, widened, ""},
		{"one bit", "BF16", []int{vocab, hidden}, func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			`tensor "lm_head.weight" differs from "model.embed_tokens.weight", to which tie_word_embeddings ties it: set that to false`},
		{"a bit in F32", "F32", []int{vocab, hidden}, func(b []byte) []byte { b = widened(b); b[0] ^= 1; return b }, "differs from"},
		{"short", "BF16", []int{vocab - 1, hidden}, func(b []byte) []byte { return b[2*hidden:] }, `tensor "lm_head.weight" has the shape`},
		{"whole numbers", "I16", []int{vocab, hidden}, func(b []byte) []byte { return b }, `tensor "lm_head.weight" has the type I16`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyModel(t, path)
			addTensor(t, filepath.Join(dir, "model.safetensors"), "lm_head.weight", c.dtype, c.shape, "model.embed_tokens.weight", c.change)
			if c.want != "" {
				ck := open(t, dir)
				if _, err := ck.LoadHead(dev, model.LoadOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want an error with %s", err, c.want)
				}
				return
			}
			r := newRig(t, dir, dev, model.LoadOptions{})
			if r.head.Bytes() != alone.head.Bytes() {
				t.Errorf("the head holds %d bytes, want %d", r.head.Bytes(), alone.head.Bytes())
			}
			got := r.logits(tensor.ActF32, r.hidden(tensor.ActF32, nil, part{r.sequence(len(prompt)), prompt}))
			if !sameBits(got, want) {
				t.Error("other logits than without the tensor")
			}
		})
	}
}

// A bias of a module of the head that the graph does not add is refused, and what belongs to
// no module of the text model is passed over.
func TestSurplusBesideTheHead(t *testing.T) {
	for name, want := range map[string]string{
		"lm_head.bias":                    `tensor "lm_head.bias" has no place in a qwen2 model`,
		"model.norm.bias":                 `tensor "model.norm.bias" has no place in a qwen2 model`,
		"model.embed_tokens.weight_scale": `tensor "model.embed_tokens.weight_scale" has no place in a qwen2 model`,
		"visual.proj.bias":                "",
	} {
		dir := copyModel(t, "testdata/qwen2")
		data := func([]byte) []byte { return make([]byte, 4) }
		addTensor(t, filepath.Join(dir, "model.safetensors"), name, "F32", []int{1}, "model.norm.weight", data)
		if want == "" {
			open(t, dir)
			continue
		}
		refused(t, dir, want)
	}
}

// widened makes F32 of BF16.
func widened(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); i += 2 {
		out = append(out, 0, 0, b[i], b[i+1])
	}
	return out
}

// addTensor appends a tensor to a safetensors file: the data of another, changed.
func addTensor(t *testing.T, file, name, dtype string, shape []int, of string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	start := 8 + binary.LittleEndian.Uint64(raw)
	header, body := map[string]json.RawMessage{}, raw[start:]
	if err := json.Unmarshal(raw[8:start], &header); err != nil {
		t.Fatal(err)
	}
	var from struct {
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(header[of], &from); err != nil {
		t.Fatal(err)
	}
	data := change(append([]byte(nil), body[from.Offsets[0]:from.Offsets[1]]...))
	entry := map[string]any{"dtype": dtype, "shape": shape, "data_offsets": []int{len(body), len(body) + len(data)}}
	if header[name], err = json.Marshal(entry); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out = append(append(append(out, text...), body...), data...)
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
}
