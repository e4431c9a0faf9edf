package model_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// wide are models whose rows every quantised format takes. Their weights are not committed:
// see testdata/make_wide.py.
var wide = []string{"llamawide", "mistralwide", "mixtralwide", "qwen2wide", "qwen3wide", "bloomwide", "falconwide"}

// drawn is a tensor of a wide model: values are One + odd * Step with random odd numbers of
// Bits bits and a sign, which bfloat16 holds exactly.
type drawn struct {
	Name  string
	Shape []int
	One   float32
	Bits  int
	Step  float32
}

// writeWide makes the folder of a wide model as the script made it for transformers.
func writeWide(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name, "weights.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []drawn
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	type info struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, data := map[string]info{}, []byte(nil)
	for i, d := range list {
		begin := len(data)
		data = d.draw(data, i)
		header[d.Name] = info{"BF16", d.Shape, [2]int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	dir := t.TempDir()
	config, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "model.safetensors"), append(append(file, text...), data...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// draw appends the values of the tensor of a place in the list: the counter of SplitMix64.
func (d *drawn) draw(to []byte, place int) []byte {
	n := 1
	for _, width := range d.Shape {
		n *= width
	}
	for i := range n {
		z := (uint64(place+1)<<32 + uint64(i)) * 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		odd := 2*float32(z>>(64-d.Bits)) - float32(int(1)<<d.Bits-1)
		to = binary.LittleEndian.AppendUint16(to, uint16(math.Float32bits(d.One+odd*d.Step)>>16))
	}
	return to
}
