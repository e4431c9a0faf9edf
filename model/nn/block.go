package nn

import (
	"fmt"

	"whorl/tensor"
)

// Block is one transformer layer on one device. It is immutable and may be used by several
// goroutines, each with its own workspace.
type Block struct {
	spec    Spec
	dev     tensor.Device
	p       Params
	attend  tensor.AttendSpec
	experts tensor.ExpertsSpec
	bytes   int64
}

// NewBlock makes a block of loaded parameters. rope was made by dev from s.Rope; it is nil
// if the block does not rotate.
func NewBlock(dev tensor.Device, s Spec, rope tensor.Rope, p Params) (*Block, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	b := &Block{spec: s, dev: dev, p: p}
	for _, n := range s.Needs() {
		bytes, err := p.held(s, n)
		if err != nil {
			return nil, err
		}
		b.bytes += bytes
	}
	alibi, err := s.alibi(dev)
	if err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	b.attend = tensor.AttendSpec{
		Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim,
		Scale: s.scale(), Rope: rope, Window: s.Window, Softcap: s.Softcap, Alibi: alibi,
	}
	if s.Experts > 0 {
		b.experts = tensor.ExpertsSpec{Act: s.Activation, TopK: s.TopK, Renormalise: s.Renormalise, Scale: s.ResidualGain}
		for _, e := range p.Expert {
			b.experts.Gate = append(b.experts.Gate, e.Gate)
			b.experts.Up = append(b.experts.Up, e.Up)
			b.experts.Down = append(b.experts.Down, e.Down)
		}
	}
	return b, nil
}

// Spec is the graph of the block.
func (b *Block) Spec() Spec { return b.spec }

// Bytes is the memory that the loaded parameters hold on the device.
func (b *Block) Bytes() int64 { return b.bytes }

// pass is one call of Forward.
type pass struct {
	*Block
	ws    *Workspace
	batch *tensor.Batch
	rows  int
	x     tensor.Buffer
	kv    tensor.KV
	layer int
	mode  tensor.Activations

	adapted []Adapted
}

// Forward advances the first len(batch.Rows) rows of x, [rows][Hidden], in place, and
// writes their keys and values to layer `layer` of kv, counted from the span's first block.
// It queues ops and returns; the device's Sync reports errors. len(batch.Rows) is at most
// ws.MaxRows, and x is not one of ws's own buffers other than ws.X. adapted lists the
// adapters of rows; room for them was reserved in ws.
func (b *Block) Forward(ws *Workspace, batch *tensor.Batch, x tensor.Buffer, kv tensor.KV, layer int, mode tensor.Activations, adapted ...Adapted) {
	p := pass{b, ws, batch, len(batch.Rows), x, kv, layer, mode, adapted}
	var mlp source
	if b.spec.Parallel && !b.spec.OneNorm {
		mlp = p.read(ws.mlpNorm, ws.mlpAct, MLPNorm) // before attention adds to x
	}
	attn := p.read(ws.norm, ws.inAct, AttnNorm)
	p.attention(attn)
	switch {
	case !b.spec.Parallel:
		mlp = p.read(ws.norm, ws.inAct, MLPNorm)
	case b.spec.OneNorm:
		mlp = attn
	}
	if b.spec.Experts > 0 {
		p.mixture(mlp)
	} else {
		p.mlp(mlp)
	}
}

// source is rows that products read: the floats, and made ready.
type source struct {
	buf tensor.Buffer
	act tensor.Act
}

// read makes what attention or MLP reads ready: norm(x), left in dst, or x itself.
func (p *pass) read(dst tensor.Buffer, a tensor.Act, norm Param) source {
	if p.spec.NoInNorm {
		dst = p.x
	} else {
		p.dev.Norm(dst, p.x, p.rows, p.norm(norm))
	}
	p.dev.Prepare(a, dst, p.rows, p.mode)
	return source{dst, a}
}

func (p *pass) attention(in source) {
	ws := p.ws
	ws.products[0] = p.product(Q, ws.q)
	ws.products[1] = p.product(K, ws.k)
	ws.products[2] = p.product(V, ws.v)
	p.dev.MatMul(in.act, ws.products[:3])
	p.adapt(in.buf, target{Q, ws.q}, target{K, ws.k}, target{V, ws.v})
	if p.spec.QKNorm || p.spec.QKNormWhole { // in place, in groups as long as the gains
		p.dev.Norm(ws.q, ws.q, p.rows, p.norm(QNorm))
		p.dev.Norm(ws.k, ws.k, p.rows, p.norm(KNorm))
	}
	spec := p.attend
	spec.Layer = p.layer
	p.dev.Attend(ws.attn, ws.q, ws.k, ws.v, p.kv, p.batch, spec)
	p.dev.Prepare(ws.attnAct, ws.attn, p.rows, p.mode)
	p.add(source{ws.attn, ws.attnAct}, O, AttnOutNorm)
}

func (p *pass) mlp(in source) {
	ws := p.ws
	ffn := ws.ffn(p.spec.FFN)
	if p.adapts(Gate) || p.adapts(Up) {
		p.adaptInner(in, ffn.buf)
	} else {
		up := p.product(Up, ffn.buf)
		up.Gate, up.GateBias, up.Act = p.p.Weight[Gate], p.p.Bias[Gate], p.spec.Activation
		ws.products[0] = up
		p.dev.MatMul(in.act, ws.products[:1])
	}
	p.dev.Prepare(ffn.act, ffn.buf, p.rows, p.mode)
	p.add(ffn, Down, MLPOutNorm)
}

// mixture adds the outputs of the experts that the router chooses.
func (p *pass) mixture(in source) {
	ws := p.ws
	logits := ws.logits(p.spec.Experts)
	ws.products[0] = p.product(Router, logits)
	p.dev.MatMul(in.act, ws.products[:1])
	ws.experts = p.experts
	ws.experts.Mode = p.mode
	p.dev.Experts(p.x, in.buf, logits, p.rows, &ws.experts)
}

// add adds W·a to x, normalised first where the Spec says so.
func (p *pass) add(in source, w, norm Param) {
	ws := p.ws
	if !p.spec.OutNorm && !p.adapts(w) {
		ws.products[0] = p.product(w, p.x)
		ws.products[0].Residual, ws.products[0].Scale = p.x, p.spec.ResidualGain
		p.dev.MatMul(in.act, ws.products[:1])
		return
	}
	ws.products[0] = p.product(w, ws.out)
	p.dev.MatMul(in.act, ws.products[:1])
	p.adapt(in.buf, target{w, ws.out})
	if p.spec.OutNorm {
		p.dev.Norm(ws.out, ws.out, p.rows, p.norm(norm))
	}
	gain := p.spec.ResidualGain
	if gain == 0 {
		gain = 1
	}
	p.dev.Add(p.x, ws.out, nil, p.rows, gain)
}

func (b *Block) norm(p Param) tensor.NormSpec {
	return tensor.NormSpec{Kind: b.spec.Norm, Gain: b.p.Gain[p], Bias: b.p.Bias[p], Eps: b.spec.NormEps}
}

func (b *Block) product(p Param, dst tensor.Buffer) tensor.Product {
	return tensor.Product{W: b.p.Weight[p], Bias: b.p.Bias[p], Dst: dst}
}
