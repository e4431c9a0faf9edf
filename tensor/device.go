package tensor

import "fmt"

// Opaque handles. Their layout belongs to the device that made them; handing one to
// another device is a programmer's error and may panic.
type (
	// Weight is a loaded matrix in the layout the device wants.
	Weight interface {
		Rows() int    // output features
		Cols() int    // input features
		DType() DType // as stored, before repacking
		Bytes() int64 // memory held
	}
	// Vector is a loaded run of float32: a norm's gain, a bias.
	Vector interface{ Len() int }
	// Buffer is workspace: Rows × Cols float32, row-major.
	Buffer interface {
		Rows() int
		Cols() int
	}
	// Act is rows made ready to meet weights: the floats and, lazily, their
	// quantised forms.
	Act interface{ Cols() int }
	// Rope is the rotation table of one RopeSpec.
	Rope interface{ RotaryDim() int }
	// KV is a pool of pages of keys and values for the layers of a span.
	KV interface {
		Pages() int
		PageBytes() int64 // memory of one page over all layers
	}
)

// Info names a device.
type Info struct {
	Name       string // "cpu"
	Tier       string // "avx512", "avx2", "generic", ...
	Arithmetic string // "exact1": equal names round equally
	Threads    int
}

// PageFreer is a device that can give the memory of pages of a KV pool back to the system. What
// the pages hold is lost: they read as zeros until they are written again. Nobody may use these
// pages meanwhile; ops on others may go on.
type PageFreer interface{ FreePages(kv KV, pages []int32) }

// RowGrouper is a device on which so many rows of one sequence that follow each other are attended
// at about the cost of one: what asks it for few rows of a long past asks for multiples.
type RowGrouper interface{ RowGroup(heads, kvHeads int) int }

// KVSpec sizes a KV pool. DType is how keys and values are held: F32, or BF16, to which
// they are rounded when they are written.
type KVSpec struct {
	Layers, KVHeads, HeadDim, Pages int
	DType                           DType
}

// CheckKVDType says whether a KV pool can hold its keys and values as d.
func CheckKVDType(d DType) error {
	if d != F32 && d != BF16 {
		return fmt.Errorf("a KV cache of %v is not supported: use f32 or bf16", d)
	}
	return nil
}

// RopeSpec describes rotary embeddings in the rotate-half convention: element i of a head
// pairs with i+RotaryDim/2. The angle is float32(pos)*InvFreq[i], cos and sin are scaled
// by Scale. len(InvFreq) is RotaryDim/2.
type RopeSpec struct {
	HeadDim, RotaryDim int
	InvFreq            []float32
	Scale              float32
}

// NormKind chooses a normalisation.
type NormKind uint8

const (
	RMSNorm   NormKind = iota // x / sqrt(mean(x²)+eps) * gain
	LayerNorm                 // (x-mean) / sqrt(var+eps) * gain + bias
)

// NormSpec describes a normalisation over groups of Gain.Len() columns: the whole row in
// most models, one head at a time where queries and keys are normalised.
type NormSpec struct {
	Kind NormKind
	Gain Vector
	Bias Vector // nil if none
	Eps  float32
}

// Activation is a pointwise function.
type Activation uint8

const (
	NoActivation Activation = iota
	SiLU                    // x*sigmoid(x)
	GELU                    // exact, by erf
	GELUTanh                // the tanh approximation
)

// Product is one matrix product with its epilogue. With acc = W·a per row:
//
//	y = acc [+ Bias]
//	if Gate:          y = Activation(Gate·a [+ GateBias]) * y
//	else:             y = Activation(y)
//	if Scale:         y = y*Scale
//	if Residual:      y = Residual + y
//	Dst = y
//
// Dst and Residual may be the same buffer; neither may be what the Act was prepared from
// unless that buffer is also only read row by row after the product (devices keep their
// own copy in Act, so Residual = the prepared buffer is fine).
type Product struct {
	W        Weight
	Bias     Vector // nil if none
	Gate     Weight // nil if none; same shape as W
	GateBias Vector // nil if none
	Act      Activation
	Scale    float32 // 0: none
	Residual Buffer  // nil if none
	Dst      Buffer
}

// AttendSpec describes attention of one layer. Heads is a multiple of KVHeads; query head
// h reads key/value head h/(Heads/KVHeads).
type AttendSpec struct {
	Layer                   int // layer of the KV pool, counted from the span's first
	Heads, KVHeads, HeadDim int
	Scale                   float32 // multiplies q·k
	Rope                    Rope    // nil: queries and keys are not rotated
	Window                  int     // a row sees its own and the Window-1 positions before it; 0: all
	Softcap                 float32 // scores become Softcap*tanh(score/Softcap); 0: they stay
	Alibi                   *AlibiSpec
	// Totals, [rows][2*Heads], gets of each row and head the greatest score M, and in its second half
	// the sum L of exp(score-M): what AttendBack needs so as not to walk the scores once more. nil: not wanted.
	Totals Buffer
}

// AlibiSpec adds to the score of head h for position j, before Softcap:
//
//	Slopes[h]*float(j)
//
// With BF16, float(j) and the product are rounded to bfloat16 (as are Slopes, by the
// caller), and the rounded product is multiplied by AttendSpec.Scale.
type AlibiSpec struct {
	Slopes Vector // [Heads]
	BF16   bool
}

// ExpertsSpec describes a mixture-of-experts feed-forward: one Gate and Up [FFN][Hidden]
// and one Down [Hidden][FFN] per expert.
type ExpertsSpec struct {
	Gate, Up, Down []Weight
	Act            Activation
	TopK           int         // experts of a row
	Renormalise    bool        // the weights of a row's experts are divided by their sum
	Mode           Activations // of all products
	Scale          float32     // multiplies the sum of experts before it is added; 0: none
}

// Device computes. Handles are made once, ops run on them for ever; an op works on the
// first n rows of its buffers, where n is given, that of the batch, or that of the Act.
// Ops are void and run in order; Sync reports the first error since the last Sync, and
// on devices with queues waits for them. Shapes are checked when handles are made; an op
// whose operands do not fit each other panics, since only a bug can cause it.
//
// A Device may be used by several goroutines: each op is atomic, and ops of different
// goroutines interleave, so goroutines must not share buffers.
type Device interface {
	Info() Info

	// Load repacks a matrix. The caller's data is not kept. The error names what is
	// wrong with the matrix: an unknown format, a wrong length, a row that is no whole
	// number of groups, or too little memory.
	Load(m Matrix) (Weight, error)
	LoadVector(v []float32) (Vector, error)
	NewBuffer(rows, cols int) (Buffer, error)
	// NewAct makes room to prepare up to rows × cols.
	NewAct(rows, cols int) (Act, error)
	NewRope(s RopeSpec) (Rope, error)
	// NewKV reserves a pool. Memory may be committed as pages are first written.
	NewKV(s KVSpec) (KV, error)

	// Upload writes src, whole rows, to dst from the given row on.
	Upload(dst Buffer, row int, src []float32)
	// Download reads whole rows of src, from the given row on, into dst.
	Download(dst []float32, src Buffer, row int)
	// Embed writes row ids[i] of the table, dequantised, to row i of dst.
	Embed(dst Buffer, table Weight, ids []int32)
	// Gather copies row rows[i] of src to row i of dst.
	Gather(dst, src Buffer, rows []int32)
	// Norm normalises n rows. dst may be src.
	Norm(dst, src Buffer, n int, s NormSpec)
	// Prepare makes n rows of src ready to meet weights; for Act8 they are quantised when
	// the first quantised weight asks. dst may go on reading src, so its rows stay as they
	// are until the last product with dst.
	Prepare(dst Act, src Buffer, n int, mode Activations)
	// Add adds scale*src, rounded, to rows of dst: row i of the first n of src to row
	// rows[i], or to row i if rows is nil. The rows are different ones.
	Add(dst, src Buffer, rows []int32, n int, scale float32)
	// Activate is dst = act(gate)*dst on n rows, or dst = act(dst) if gate is nil: the
	// epilogue of a Product on its own, with the same bits.
	Activate(dst, gate Buffer, n int, act Activation)
	// Scale is dst = dst*factor on n rows, and then, if softcap is not 0,
	// dst = softcap*tanh(dst/softcap).
	Scale(dst Buffer, n int, factor, softcap float32)
	// Round rounds n rows of dst to bfloat16: to nearest, ties to even. What is beyond its
	// largest number becomes infinite, and a NaN stays one.
	Round(dst Buffer, n int)
	// MatMul runs products that share one Act; no product may read another's Dst, and the
	// rows of the Act are nobody's Dst.
	MatMul(a Act, products []Product)
	// Attend rotates q and k (in place), writes k and v to the cache at each row's
	// position, and attends over positions 0..Pos of each row's sequence, or the window's.
	// q and dst are [rows][Heads*HeadDim]; k and v are [rows][KVHeads*HeadDim].
	Attend(dst, q, k, v Buffer, kv KV, b *Batch, s AttendSpec)
	// CopyPages copies pages of a pool, all layers of them: src[i] to dst[i]. The pages of
	// dst are different ones, and none of them is in src.
	CopyPages(kv KV, dst, src []int32)
	// Experts adds to each of n rows of dst the weighted outputs of the TopK experts with
	// the greatest logits (of equal ones the first). Expert e makes of a row x
	//
	//	y = Down[e]·(Act(Gate[e]·x) * Up[e]·x)
	//
	// and its weight is the softmax of the row's logits over all experts. x is
	// [rows][Hidden], logits is [rows][experts]. The spec is not kept.
	Experts(dst, x, logits Buffer, n int, s *ExpertsSpec)

	Sync() error
	// Close frees threads and memory; handles of the device are dead after it.
	Close() error
}
