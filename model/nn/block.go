package nn

import (
	"fmt"
	"math"

	"whorl/tensor"
)

// Params are the loaded parameters of a block, indexed by [Param]: Weight for matrices,
// Gain for the norms, Bias where the Spec asks for one (nil elsewhere).
type Params struct {
	Weight [NumParams]tensor.Weight
	Gain   [NumParams]tensor.Vector
	Bias   [NumParams]tensor.Vector
}

// Block is one transformer layer on one device. It is immutable and may be used by several
// goroutines, each with its own workspace.
type Block struct {
	spec  Spec
	dev   tensor.Device
	rope  tensor.Rope
	p     Params
	scale float32
	bytes int64
}

// NewBlock makes a block of loaded parameters. rope was made by dev from s.Rope.
func NewBlock(dev tensor.Device, s Spec, rope tensor.Rope, p Params) (*Block, error) {
	b := &Block{spec: s, dev: dev, rope: rope, p: p}
	// The reference multiplies by head_dim ** -0.5, a float64 rounded once.
	b.scale = float32(math.Pow(float64(s.HeadDim), -0.5))
	for _, n := range s.Needs() {
		missing := false
		switch {
		case n.Bias:
			missing = p.Bias[n.Param] == nil
		case n.Vector():
			missing = p.Gain[n.Param] == nil
		default:
			missing = p.Weight[n.Param] == nil
		}
		if missing {
			return nil, fmt.Errorf("block: parameter %s is missing", n.Param)
		}
		if w := p.Weight[n.Param]; w != nil && !n.Bias {
			b.bytes += w.Bytes()
		} else {
			b.bytes += 4 * n.Values()
		}
	}
	return b, nil
}

// Spec is the graph of the block.
func (b *Block) Spec() Spec { return b.spec }

// Bytes is the memory that the loaded parameters hold on the device.
func (b *Block) Bytes() int64 { return b.bytes }

// Forward advances the first len(batch.Rows) rows of x, [rows][Hidden], in place, and
// writes their keys and values to layer `layer` of kv, counted from the span's first block.
// It queues ops and returns; the device's Sync reports errors. len(batch.Rows) is at most
// ws.MaxRows, and x is not one of ws's own buffers other than ws.X.
func (b *Block) Forward(ws *Workspace, batch *tensor.Batch, x tensor.Buffer, kv tensor.KV, layer int, mode tensor.Activations) {
	b.attention(ws, batch, x, kv, layer, mode)
	b.mlp(ws, len(batch.Rows), x, mode)
}

func (b *Block) attention(ws *Workspace, batch *tensor.Batch, x tensor.Buffer, kv tensor.KV, layer int, mode tensor.Activations) {
	rows := len(batch.Rows)
	b.norm(ws, x, rows, AttnNorm, mode)
	ws.products[0] = b.product(Q, ws.q)
	ws.products[1] = b.product(K, ws.k)
	ws.products[2] = b.product(V, ws.v)
	b.dev.MatMul(ws.inAct, ws.products[:3])
	if b.spec.QKNorm { // in place; the gains have HeadDim elements, so the groups are heads
		b.dev.Norm(ws.q, ws.q, rows, b.gain(QNorm))
		b.dev.Norm(ws.k, ws.k, rows, b.gain(KNorm))
	}
	b.dev.Attend(ws.attn, ws.q, ws.k, ws.v, kv, batch, tensor.AttendSpec{
		Layer: layer, Heads: b.spec.Heads, KVHeads: b.spec.KVHeads, HeadDim: b.spec.HeadDim,
		Scale: b.scale, Rope: b.rope,
	})
	b.dev.Prepare(ws.attnAct, ws.attn, rows, mode)
	ws.products[0] = b.product(O, x)
	ws.products[0].Residual = x
	b.dev.MatMul(ws.attnAct, ws.products[:1])
}

func (b *Block) mlp(ws *Workspace, rows int, x tensor.Buffer, mode tensor.Activations) {
	b.norm(ws, x, rows, MLPNorm, mode)
	up := b.product(Up, ws.ffn)
	up.Gate, up.GateBias, up.Act = b.p.Weight[Gate], b.p.Bias[Gate], b.spec.Activation
	ws.products[0] = up
	b.dev.MatMul(ws.inAct, ws.products[:1])
	b.dev.Prepare(ws.ffnAct, ws.ffn, rows, mode)
	ws.products[0] = b.product(Down, x)
	ws.products[0].Residual = x
	b.dev.MatMul(ws.ffnAct, ws.products[:1])
}

// norm leaves norm(x) in ws.norm and ready in ws.inAct.
func (b *Block) norm(ws *Workspace, x tensor.Buffer, rows int, gain Param, mode tensor.Activations) {
	b.dev.Norm(ws.norm, x, rows, b.gain(gain))
	b.dev.Prepare(ws.inAct, ws.norm, rows, mode)
}

func (b *Block) gain(p Param) tensor.NormSpec {
	return tensor.NormSpec{Kind: tensor.RMSNorm, Gain: b.p.Gain[p], Eps: b.spec.NormEps}
}

func (b *Block) product(p Param, dst tensor.Buffer) tensor.Product {
	return tensor.Product{W: b.p.Weight[p], Bias: b.p.Bias[p], Dst: dst}
}
