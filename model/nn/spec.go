package nn

import (
	"fmt"

	"whorl/tensor"
)

// Spec describes the graph of a decoder block:
//
//	x += O·attend(rope(Q·n), rope(K·n), V·n)   with n = norm(x)
//	x += Down·(act(Gate·n) * Up·n)             with n = norm(x)
//
// With QKNorm the heads of Q·n and of K·n are normalised one by one before the rotation.
type Spec struct {
	Hidden, FFN             int
	Heads, KVHeads, HeadDim int
	NormEps                 float32
	Activation              tensor.Activation
	Rope                    Rope
	AttnBias                bool // biases on Q, K, V and O
	QKVBias                 bool // biases on Q, K and V, not on O
	MLPBias                 bool // biases on Gate, Up and Down
	QKNorm                  bool // norms over each head of the queries and of the keys
}

// Param names a parameter of a block by what it does in the graph.
type Param uint8

// The parameters, in the canonical order of digests.
const (
	AttnNorm Param = iota
	Q
	K
	V
	QNorm
	KNorm
	O
	MLPNorm
	Gate
	Up
	Down
	NumParams
)

var paramNames = [NumParams]string{"attn_norm", "q", "k", "v", "q_norm", "k_norm", "o", "mlp_norm", "gate", "up", "down"}

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
	list = append(list, Need{Param: AttnNorm, Cols: s.Hidden})
	linear(Q, q, s.Hidden, s.AttnBias || s.QKVBias)
	linear(K, kv, s.Hidden, s.AttnBias || s.QKVBias)
	linear(V, kv, s.Hidden, s.AttnBias || s.QKVBias)
	if s.QKNorm {
		list = append(list, Need{Param: QNorm, Cols: s.HeadDim}, Need{Param: KNorm, Cols: s.HeadDim})
	}
	linear(O, s.Hidden, q, s.AttnBias)
	list = append(list, Need{Param: MLPNorm, Cols: s.Hidden})
	linear(Gate, s.FFN, s.Hidden, s.MLPBias)
	linear(Up, s.FFN, s.Hidden, s.MLPBias)
	linear(Down, s.Hidden, s.FFN, s.MLPBias)
	return list
}
