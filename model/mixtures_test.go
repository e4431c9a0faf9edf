package model_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/families"
	"whorl/model/weights"
	"whorl/tensor"
	"whorl/tensor/quant"
)

// mixtures are models whose widths every format of 32 columns takes.
var mixtures = []string{"testdata/mixtral", "testdata/qwen3moe"}

// Experts quantised at load are those of a model that stores what the format makes of them,
// and equal bits come out of any chunk; the router keeps its floats.
func TestMixturesQuantiseOnLoad(t *testing.T) {
	dev := openDevice(t, 2)
	prompt := ids(40, 3)
	for _, path := range mixtures {
		for _, d := range []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q4_1} {
			back := newRig(t, dequantised(t, path, d), dev, model.LoadOptions{})
			want := back.hidden(tensor.ActF32, nil, part{back.sequence(len(prompt)), prompt})
			r := newRig(t, path, dev, model.LoadOptions{Quant: d.String()})
			got := r.hidden(tensor.ActF32, nil, part{r.sequence(len(prompt)), prompt})
			if off := farthest(got, inRows(want, r.ck.Config.Hidden)); !(off <= blockTolerance) {
				t.Errorf("%s as %s: rows are off by %g of their largest value", path, d, off)
			}
			if !sameBits(inChunks(r, tensor.ActF32, prompt, 7), got) {
				t.Errorf("%s as %s: chunks of 7: other bits than one prefill", path, d)
			}
			fast := r.hidden(tensor.Act8, nil, part{r.sequence(len(prompt)), prompt})
			if !sameBits(inChunks(r, tensor.Act8, prompt, 1), fast) {
				t.Errorf("%s as %s, rows in 8 bits: step by step: other bits than one prefill", path, d)
			}
		}
	}
}

func inRows(values []float32, width int) [][]float32 {
	return slices.Collect(slices.Chunk(values, width))
}

// dequantised copies a model, as float32, with the matrices of its blocks but the routers
// brought to a format and back.
func dequantised(t *testing.T, dir string, d tensor.DType) string {
	t.Helper()
	to := copyModel(t, dir)
	file, err := weights.OpenSafetensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	header, data := map[string]any{}, []byte(nil)
	for _, name := range file.Names() {
		w, err := file.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		m := tensor.Matrix{DType: w.DType, Rows: 1, Cols: w.Shape[len(w.Shape)-1], Data: w.Data}
		if len(w.Shape) == 2 {
			m.Rows = w.Shape[0]
		}
		row := make([]float32, m.Cols)
		unpack := func(i int) []float32 { quant.UnpackRow(row, m, i); return row }
		if m.Rows > 1 && strings.Contains(name, ".layers.") && !strings.HasSuffix(name, "gate.weight") {
			if m, err = quant.PackMatrix(d, m.Rows, m.Cols, unpack); err != nil {
				t.Fatal(err)
			}
		}
		from := len(data)
		for i := range m.Rows {
			for _, v := range unpack(i) {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
		}
		header[name] = map[string]any{"dtype": "F32", "shape": w.Shape, "data_offsets": []int{from, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	raw := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if err := os.WriteFile(filepath.Join(to, "model.safetensors"), append(raw, data...), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// A mixture's file that does not hold what the graph needs is named.
func TestMixturesNameWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ dir, file, from, to, want string }{
		{"mixtral", "model.gguf", "blk.1.ffn_up_exps", "blk.1.ffn_up_expz", `tensor "blk.1.ffn_up_exps.weight" is missing`},
		{"mixtral", "model.gguf", "blk.0.ffn_gate_inp", "blk.0.ffn_gate_imp", `tensor "blk.0.ffn_gate_inp.weight" is missing`},
		{"mixtral", "model.gguf", "llama.expert_used_count", "llama.expert_shared_cnt", `metadata key "llama.expert_used_count" is missing`},
		{"mixtral", "model.gguf", "llama.expert_count", "llama.expert_kount", `metadata key "llama.expert_used_count" is 2, which is not supported in a llama model`},
		{"mixtral", "model.safetensors", "layers.1.block_sparse_moe.experts.4.w2", "layers.1.block_sparse_moe.experts.4.w4",
			`tensor "model.layers.1.block_sparse_moe.experts.4.w2.weight" is missing`},
		{"qwen3moe", "model.gguf", "blk.1.ffn_down_exps", "blk.1.ffn_down_expz", `tensor "blk.1.ffn_down_exps.weight" is missing`},
		{"qwen3moestep", "config.json", `"decoder_sparse_step": 2`, `"decoder_sparse_step": 1`, `tensor "model.layers.0.mlp.gate.weight" is missing`},
		{"mixtral", "config.json", `"num_local_experts": 5`, `"num_local_experts": 4`,
			`tensor "model.layers.0.block_sparse_moe.gate.weight" has the shape [5 32], but the configuration needs [4 32]`},
	} {
		t.Run(c.dir+" "+c.from, func(t *testing.T) {
			dir := copyModel(t, filepath.Join("testdata", c.dir))
			path := filepath.Join(dir, c.file)
			patch(t, path, c.from, c.to)
			if c.file != "model.gguf" {
				path = dir
			}
			if _, err := families.Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %s", err, c.want)
			}
		})
	}
}
