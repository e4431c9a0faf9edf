package nn

import (
	"fmt"
	"math"

	"whorl/tensor"
)

// Spec describes the graph of a decoder block. In most models it is
//
//	x += O·attend(rope(Q·n), rope(K·n), V·n)   with n = norm(x)
//	x += Down·(act(Gate·n) * Up·n)             with n = norm(x)
//
// and the fields below say how a family differs. The zero value of each is "not".
type Spec struct {
	Hidden, FFN             int // FFN: of one expert, where there are experts
	Heads, KVHeads, HeadDim int
	NormEps                 float32
	Activation              tensor.Activation
	Rope                    Rope
	AttnBias                bool // biases on Q, K, V and O
	QKVBias                 bool // biases on Q, K and V, not on O
	MLPBias                 bool // biases on Gate, Up and Down
	QKNorm                  bool // norms over each head of the queries and of the keys

	Norm         tensor.NormKind `json:",omitempty"` // of the block's norms
	NormBias     bool            `json:",omitempty"`
	QKNormWhole  bool            `json:",omitempty"` // norms over all of Q·n and all of K·n
	NoInNorm     bool            `json:",omitempty"` // attention and MLP read x itself
	OutNorm      bool            `json:",omitempty"` // what they put out is normalised before it is added
	Parallel     bool            `json:",omitempty"` // both read the block's input, not one the other's sum
	OneNorm      bool            `json:",omitempty"` // of a parallel block: the MLP reads what attention reads
	Ungated      bool            `json:",omitempty"` // the MLP is Down·act(Up·n)
	Experts      int             `json:",omitempty"` // MLPs to choose from, by a router in float32
	TopK         int             `json:",omitempty"` // of the experts, for each row
	Renormalise  bool            `json:",omitempty"` // the chosen experts' probabilities sum to one
	Scale        float32         `json:",omitempty"` // of q·k; 0: HeadDim^-1/2
	ResidualGain float32         `json:",omitempty"` // multiplies what is added to x; 0: one
	Window       int             `json:",omitempty"` // positions that a row sees, its own included; 0: all
	Softcap      float32         `json:",omitempty"` // of attention scores; 0: none
	Alibi        Alibi           `json:",omitempty"`
}

// Alibi says whether attention is biased by distance, and how the bias is rounded.
type Alibi uint8

const (
	NoAlibi   Alibi = iota
	AlibiF32        // as in BLOOM
	AlibiBF16       // as in the first Falcons
)

// Param names a parameter of a block by what it does in the graph.
type Param uint8

// The parameters. Gate, Up and Down are those of one expert where there are experts.
const (
	AttnNorm Param = iota
	Q
	K
	V
	QNorm
	KNorm
	O
	AttnOutNorm
	MLPNorm
	Router
	Gate
	Up
	Down
	MLPOutNorm
	NumParams
)

var paramNames = [NumParams]string{
	"attn_norm", "q", "k", "v", "q_norm", "k_norm", "o", "attn_out_norm", "mlp_norm", "router", "gate", "up", "down", "mlp_out_norm",
}

func (p Param) String() string {
	if p < NumParams {
		return paramNames[p]
	}
	return fmt.Sprintf("param(%d)", uint8(p))
}

// Need is one tensor that a block of some Spec must have. A matrix has Rows output
// features of Cols input features; a vector (a norm's gain, a bias) has Cols elements and
// Rows 0.
type Need struct {
	Param      Param
	Bias       bool
	Expert     int // which expert's; 0 where there are none
	Rows, Cols int
}

// Vector tells gains and biases from matrices.
func (n Need) Vector() bool { return n.Rows == 0 }

// Values is the number of parameters in the tensor.
func (n Need) Values() int64 {
	if n.Vector() {
		return int64(n.Cols)
	}
	return int64(n.Rows) * int64(n.Cols)
}

// Needs lists the tensors of a block in canonical order.
func (s Spec) Needs() []Need {
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	var list []Need
	linear := func(p Param, rows, cols int, bias bool) {
		list = append(list, Need{Param: p, Rows: rows, Cols: cols})
		if bias {
			list = append(list, Need{Param: p, Bias: true, Cols: rows})
		}
	}
	norm := func(p Param, cols int) {
		list = append(list, Need{Param: p, Cols: cols})
		if s.NormBias {
			list = append(list, Need{Param: p, Bias: true, Cols: cols})
		}
	}
	if !s.NoInNorm {
		norm(AttnNorm, s.Hidden)
	}
	linear(Q, q, s.Hidden, s.AttnBias || s.QKVBias)
	linear(K, kv, s.Hidden, s.AttnBias || s.QKVBias)
	linear(V, kv, s.Hidden, s.AttnBias || s.QKVBias)
	switch {
	case s.QKNorm:
		norm(QNorm, s.HeadDim)
		norm(KNorm, s.HeadDim)
	case s.QKNormWhole:
		norm(QNorm, q)
		norm(KNorm, kv)
	}
	linear(O, s.Hidden, q, s.AttnBias)
	if s.OutNorm {
		norm(AttnOutNorm, s.Hidden)
	}
	if !s.NoInNorm && !s.OneNorm {
		norm(MLPNorm, s.Hidden)
	}
	if s.Experts > 0 {
		linear(Router, s.Experts, s.Hidden, false)
	}
	for e := range max(s.Experts, 1) {
		first := len(list)
		if !s.Ungated {
			linear(Gate, s.FFN, s.Hidden, s.MLPBias)
		}
		linear(Up, s.FFN, s.Hidden, s.MLPBias)
		linear(Down, s.Hidden, s.FFN, s.MLPBias)
		for i := first; i < len(list); i++ {
			list[i].Expert = e
		}
	}
	if s.OutNorm {
		norm(MLPOutNorm, s.Hidden)
	}
	return list
}

// maxExperts bounds a router; published ones choose from a few hundred.
const maxExperts = 1 << 12

// Validate checks that what the Spec asks for can go together. Sizes are the caller's.
func (s Spec) Validate() error {
	switch {
	case s.AttnBias && s.QKVBias:
		return fmt.Errorf("biases of all projections of attention, and of Q, K and V only")
	case s.QKNorm && s.QKNormWhole:
		return fmt.Errorf("norms over heads of the queries, and over all of them")
	case s.OneNorm && !s.Parallel:
		return fmt.Errorf("one norm in a block whose MLP follows attention")
	case s.Parallel && (s.OutNorm || s.NoInNorm):
		return fmt.Errorf("norms of outputs in a parallel block")
	case s.NormBias && s.Norm != tensor.LayerNorm:
		return fmt.Errorf("biases of norms without a mean")
	case s.Window < 0:
		return fmt.Errorf("a window of %d positions", s.Window)
	case s.Experts < 0 || s.Experts > maxExperts:
		return fmt.Errorf("%d experts, want at most %d", s.Experts, maxExperts)
	case s.Experts > 0 && (s.TopK < 1 || s.TopK > s.Experts):
		return fmt.Errorf("%d of %d experts for a row", s.TopK, s.Experts)
	case s.Experts > 0 && (s.MLPBias || s.Ungated || s.OutNorm || s.Parallel):
		return fmt.Errorf("experts with biases, without gates, with normalised outputs or beside attention")
	case s.Alibi > AlibiBF16:
		return fmt.Errorf("ALiBi of kind %d", s.Alibi)
	}
	for _, f := range []struct {
		name string
		v    float32
	}{{"the scale of attention", s.Scale}, {"the gain of residuals", s.ResidualGain}, {"the soft cap of attention", s.Softcap}} {
		if !finite(f.v) || f.v < 0 {
			return fmt.Errorf("%s is %v", f.name, f.v)
		}
	}
	return nil
}

// scale of q·k. The reference multiplies by HeadDim ** -0.5, a float64 rounded once.
func (s Spec) scale() float32 {
	if s.Scale != 0 {
		return s.Scale
	}
	return float32(math.Pow(float64(s.HeadDim), -0.5))
}

// Outputs is the number of rows of a projection's matrix.
func (s Spec) Outputs(p Param) int {
	for _, n := range s.Needs() {
		if n.Param == p && !n.Vector() {
			return n.Rows
		}
	}
	return 0
}
