package nn

import "whorl/tensor"

// backPass is one call of Backward. Its pass computes again what Forward did, under
// [tensor.ActF32].
type backPass struct {
	pass
	*BackSpace
	lora *LoRA
}

// Backward turns ws.D, the gradient by what the block put out for the first len(batch.Rows)
// rows of ws.X, into the gradient by these rows. The batch holds whole sequences, whose
// positions begin at 0, and pages of layer 0 of kv, a pool of float32, which is written. lora,
// if not nil, is the adapter of all rows; room was reserved in ws. It queues ops and returns.
//
// What the block computed is computed again, with float32 activations: the gradient is that of
// Forward under [tensor.ActF32] over such a pool.
func (b *Block) Backward(ws *BackSpace, batch *tensor.Batch, kv tensor.KV, lora *LoRA) {
	p := backPass{pass{Block: b, ws: &ws.full, batch: batch, rows: len(batch.Rows), x: ws.X, kv: kv, mode: tensor.ActF32}, ws, lora}
	if lora != nil {
		p.adapted = []Adapted{{lora, ws.all[:p.rows]}}
	}
	p.attend()
	if b.spec.Parallel {
		p.attendBack()
		p.mlpBack(p.X)
	} else {
		p.mlpBack(p.after)
		p.attendBack()
	}
	if !b.spec.NoInNorm {
		p.back.NormBack(p.din, p.X, p.din, p.rows, p.norm(AttnNorm))
	}
	p.dev.Add(p.D, p.din, nil, p.rows, 1)
}

// attend computes attention again, and what the MLP reads.
func (p *backPass) attend() {
	ws := p.ws
	in := p.read(ws.norm, ws.inAct, AttnNorm)
	q, k := ws.q, ws.k
	normed := p.spec.QKNorm || p.spec.QKNormWhole
	if normed {
		q, k = p.q0, p.k0
	}
	p.dev.MatMul(in.act, []tensor.Product{p.product(Q, q), p.product(K, k), p.product(V, ws.v)})
	p.adapt(in.buf, target{Q, q}, target{K, k}, target{V, ws.v})
	if normed {
		p.dev.Norm(ws.q, q, p.rows, p.norm(QNorm))
		p.dev.Norm(ws.k, k, p.rows, p.norm(KNorm))
	}
	p.dev.Attend(ws.attn, ws.q, ws.k, ws.v, p.kv, p.batch, p.attention())
	if p.spec.Parallel {
		return // the MLP reads the block's input
	}
	p.dev.Prepare(ws.attnAct, ws.attn, p.rows, tensor.ActF32)
	out := p.after
	if p.spec.OutNorm {
		out = p.head
	}
	p.dev.MatMul(ws.attnAct, []tensor.Product{p.product(O, out)})
	p.adapt(ws.attn, target{O, out})
	if p.spec.OutNorm {
		p.dev.Norm(p.after, p.head, p.rows, p.norm(AttnOutNorm))
	}
	p.scaled(p.after, p.rows)
	p.dev.Add(p.after, p.X, nil, p.rows, 1)
}

// attention is how the block attends, with what the way back needs of it kept.
func (p *backPass) attention() tensor.AttendSpec {
	s := p.Block.attend
	s.Totals = p.totals
	return s
}

// scaled multiplies rows by the gain of residuals.
func (p *backPass) scaled(b tensor.Buffer, n int) {
	if gain := p.spec.ResidualGain; gain != 0 {
		p.dev.Scale(b, n, gain, 0)
	}
}

// attendBack leaves in p.din the gradient by what attention reads.
func (p *backPass) attendBack() {
	ws, n := p.ws, p.rows
	p.dev.Gather(p.dout, p.D, p.all[:n])
	p.scaled(p.dout, n)
	if p.spec.OutNorm {
		p.back.NormBack(p.dout, p.head, p.dout, n, p.norm(AttnOutNorm))
	}
	p.multiplyBack(ws, p.dattn, p.dout, n, O)
	p.back.AttendBack(p.dq, p.dk, p.dv, p.dattn, ws.attn, ws.q, ws.k, ws.v, p.batch, p.attention())
	if p.spec.QKNorm || p.spec.QKNormWhole {
		p.back.NormBack(p.dq, p.q0, p.dq, n, p.norm(QNorm))
		p.back.NormBack(p.dk, p.k0, p.dk, n, p.norm(KNorm))
	}
	p.multiplyBack(ws, p.din, p.dq, n, Q)
	p.addBack(ws, p.din, p.dk, n, K)
	p.addBack(ws, p.din, p.dv, n, V)
}

// multiplyBack is dst = Wᵀ·dy, and what the adapter adds.
func (p *backPass) multiplyBack(ws *Workspace, dst, dy tensor.Buffer, n int, w Param) {
	p.back.MatMulBack(dst, dy, n, p.p.Weight[w], false)
	p.adaptBack(ws, dst, dy, n, w)
}

func (p *backPass) addBack(ws *Workspace, dst, dy tensor.Buffer, n int, w Param) {
	p.back.MatMulBack(dst, dy, n, p.p.Weight[w], true)
	p.adaptBack(ws, dst, dy, n, w)
}

// adaptBack adds Aᵀ·(Bᵀ·(dy*scale)) to dst.
func (p *backPass) adaptBack(ws *Workspace, dst, dy tensor.Buffer, n int, w Param) {
	if p.lora == nil || p.lora.A[w] == nil {
		return
	}
	a, b := p.lora.A[w], p.lora.B[w]
	grad := ofWidth(ws.lora.outs, b.Rows())
	mid, _ := room(ws.lora.ranks, a.Rows())
	in, _ := room(ws.lora.wide, a.Cols())
	for from := 0; from < n; from += loraRows {
		rows := p.all[from:min(from+loraRows, n)]
		p.dev.Gather(grad, dy, rows)
		p.dev.Scale(grad, len(rows), p.lora.Scale[w], 0)
		p.back.MatMulBack(mid.buf, grad, len(rows), b, false)
		p.back.MatMulBack(in.buf, mid.buf, len(rows), a, false)
		p.dev.Add(dst, in.buf, rows, len(rows), 1)
	}
}

// mlpBack adds to p.D, or of a block with one norm to p.din, the gradient by src, which the
// MLP reads, a piece of the rows at a time.
func (p *backPass) mlpBack(src tensor.Buffer) {
	for from := 0; from < p.rows; from += p.piece.MaxRows {
		rows := p.all[from:min(from+p.piece.MaxRows, p.rows)]
		n := len(rows)
		p.dev.Gather(p.d, p.D, rows)
		p.scaledUnlessExperts(n)
		in := p.n
		switch {
		case p.spec.OneNorm:
			p.dev.Gather(in, p.ws.norm, rows)
		case p.spec.NoInNorm:
			in = p.before
			p.dev.Gather(in, src, rows)
		default:
			p.dev.Gather(p.before, src, rows)
			p.dev.Norm(in, p.before, n, p.norm(MLPNorm))
		}
		p.dev.Prepare(p.act, in, n, tensor.ActF32)
		out := p.piece.out // the gradient by in
		if p.spec.Experts > 0 {
			p.mixtureBack(out, in, n)
		} else {
			p.innerBack(out, in, n)
		}
		switch {
		case p.spec.OneNorm:
			p.dev.Add(p.din, out, rows, n, 1)
			continue
		case !p.spec.NoInNorm:
			p.back.NormBack(out, p.before, out, n, p.norm(MLPNorm))
		}
		p.dev.Add(p.D, out, rows, n, 1)
	}
}

// scaledUnlessExperts leaves the gain to experts, who have it themselves.
func (p *backPass) scaledUnlessExperts(n int) {
	if p.spec.Experts == 0 {
		p.scaled(p.d, n)
	}
}

// innerBack goes back through an MLP: p.d is the gradient by what it puts out, dst that by
// what it read, in, which p.act holds.
func (p *backPass) innerBack(dst, in tensor.Buffer, n int) {
	ws, up, mid := &p.piece, ofWidth(p.ups, p.spec.FFN), ofWidth(p.mids, p.spec.FFN)
	ws.products[0] = p.product(Up, up)
	count := 1
	var gate tensor.Buffer
	targets := []target{{Up, up}}
	if !p.spec.Ungated {
		gate, count = ofWidth(p.gates, p.spec.FFN), 2
		ws.products[1] = p.product(Gate, gate)
		targets = append(targets, target{Gate, gate})
	}
	p.dev.MatMul(p.act, ws.products[:count])
	p.adaptPiece(in, n, targets...)
	if p.spec.OutNorm {
		act := p.middle()
		p.dev.Gather(mid, up, p.all[:n])
		p.dev.Activate(mid, gate, n, p.spec.Activation)
		p.dev.Prepare(act, mid, n, tensor.ActF32)
		ws.products[0] = p.product(Down, dst)
		p.dev.MatMul(act, ws.products[:1])
		p.adaptPiece(mid, n, target{Down, dst})
		p.back.NormBack(p.d, dst, p.d, n, p.norm(MLPOutNorm))
	}
	p.multiplyBack(ws, mid, p.d, n, Down)
	p.back.ActivateBack(mid, gate, up, n, p.spec.Activation)
	p.multiplyBack(ws, dst, mid, n, Up)
	if gate != nil {
		p.addBack(ws, dst, gate, n, Gate)
	}
}

// adaptPiece adds what the adapter makes of n rows of src.
func (p *backPass) adaptPiece(src tensor.Buffer, n int, targets ...target) {
	if p.lora == nil {
		return
	}
	part := p.pass
	part.ws, part.adapted = &p.piece, []Adapted{{p.lora, p.all[:n]}}
	part.adapt(src, targets...)
}

// middle is room to make the middle of an MLP ready.
func (p *backPass) middle() tensor.Act {
	for _, a := range p.midActs {
		if a.Cols() == p.spec.FFN {
			return a
		}
	}
	panic("nn: a block of another Spec than the workspace was made for")
}

// mixtureBack goes back through experts and their router.
func (p *backPass) mixtureBack(dst, in tensor.Buffer, n int) {
	ws := &p.piece
	logits, grad := ws.logits(p.spec.Experts), ofWidth(p.routers, p.spec.Experts)
	ws.products[0] = p.product(Router, logits)
	p.dev.MatMul(p.act, ws.products[:1])
	p.back.ExpertsBack(dst, grad, p.d, in, logits, n, &p.experts)
	p.back.MatMulBack(dst, grad, n, p.p.Weight[Router], true)
}
