package nn_test

import (
	"strings"
	"testing"

	"whorl/model/nn"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

var spec = nn.Spec{
	Hidden: 64, FFN: 96, Heads: 4, KVHeads: 2, HeadDim: 16, NormEps: 1e-5, Activation: tensor.SiLU,
	Rope:     nn.Rope{Kind: nn.RopeDefault, Theta: 10000, Dim: 16},
	AttnBias: true, MLPBias: true,
}

func openCPU(t *testing.T) tensor.Device {
	t.Helper()
	dev, err := cpu.Open(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// params loads a value for everything that the spec needs: F32 zeros for matrices (what a
// step allocates does not depend on them), ones for vectors.
func params(t *testing.T, dev tensor.Device, s nn.Spec) nn.Params {
	t.Helper()
	var p nn.Params
	for _, need := range s.Needs() {
		if need.Vector() {
			ones := make([]float32, need.Cols)
			for i := range ones {
				ones[i] = 1
			}
			v, err := dev.LoadVector(ones)
			if err != nil {
				t.Fatal(err)
			}
			p.SetVector(need, v)
			continue
		}
		w, err := dev.Load(tensor.Matrix{
			DType: tensor.F32, Rows: need.Rows, Cols: need.Cols, Data: make([]byte, 4*need.Values()),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.SetMatrix(s, need, w)
	}
	return p
}

func TestStepAllocatesNothing(t *testing.T) {
	mixture := spec
	mixture.MLPBias, mixture.Experts, mixture.TopK, mixture.Renormalise = false, 5, 2, true
	for name, s := range map[string]nn.Spec{"dense": spec, "mixture": mixture} {
		t.Run(name, func(t *testing.T) { stepAllocatesNothing(t, s) })
	}
}

func stepAllocatesNothing(t *testing.T, spec nn.Spec) {
	dev := openCPU(t)
	rope, err := dev.NewRope(spec.Rope.Spec(spec.HeadDim))
	if err != nil {
		t.Fatal(err)
	}
	block, err := nn.NewBlock(dev, spec, rope, params(t, dev, spec))
	if err != nil {
		t.Fatal(err)
	}
	ws, err := nn.NewWorkspace(dev, 4, spec)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := dev.NewKV(tensor.KVSpec{Layers: 1, KVHeads: spec.KVHeads, HeadDim: spec.HeadDim, Pages: 2})
	if err != nil {
		t.Fatal(err)
	}
	batch := &tensor.Batch{
		Rows: []tensor.Row{{Seq: 0, Pos: 3}, {Seq: 1, Pos: 7}, {Seq: 1, Pos: 8}},
		Seqs: []tensor.KVView{{Pages: []int32{0}}, {Pages: []int32{1}}},
	}
	step := func() { block.Forward(ws, batch, ws.X, kv, 0, tensor.Act8) }
	step() // a device may make room at the first step of a shape
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("a step of a block makes %v allocations", n)
	}
	if err := dev.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestBlockNamesMissingParameters(t *testing.T) {
	dev := openCPU(t)
	for _, spoil := range []struct {
		want string
		do   func(*nn.Params)
	}{
		{"parameter up is missing", func(p *nn.Params) { p.Weight[nn.Up] = nil }},
		{"parameter mlp_norm is missing", func(p *nn.Params) { p.Gain[nn.MLPNorm] = nil }},
		{"parameter k is missing", func(p *nn.Params) { p.Bias[nn.K] = nil }},
	} {
		p := params(t, dev, spec)
		spoil.do(&p)
		if _, err := nn.NewBlock(dev, spec, nil, p); err == nil || !strings.Contains(err.Error(), spoil.want) {
			t.Errorf("%v, want %q", err, spoil.want)
		}
	}
	if _, err := nn.NewWorkspace(dev, 0, spec); err == nil {
		t.Error("a workspace of no rows was made")
	}
}
