package ref

import (
	"math"

	"whorl/tensor"
)

var _ tensor.Backward = (*Device)(nil)

// MatMulBack multiplies by the transposed weights.
func (d *Device) MatMulBack(dst, dy tensor.Buffer, n int, w tensor.Weight, add bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range n {
		x := dst.(*buffer).row(r)
		for j, v := range transposed(w.(*weight), dy.(*buffer).row(r)) {
			if add {
				v += float64(x[j])
			}
			x[j] = float32(v)
		}
	}
}

// transposed is Wᵀ·dy.
func transposed(w *weight, dy []float32) []float64 {
	dx := make([]float64, w.m.Cols)
	for i, g := range dy {
		for j, v := range w.row(i) {
			dx[j] += float64(v) * float64(g)
		}
	}
	return dx
}

// NormBack differentiates a norm by its argument.
func (d *Device) NormBack(dst, src, dy tensor.Buffer, n int, s tensor.NormSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gain := vectorOf(s.Gain)
	g := len(gain)
	for r := range n {
		for at := 0; at < src.Cols(); at += g {
			x, grad, dx := src.(*buffer).row(r)[at:at+g], dy.(*buffer).row(r)[at:at+g], dst.(*buffer).row(r)[at:at+g]
			mean, square := 0.0, 0.0
			if s.Kind == tensor.LayerNorm {
				for _, v := range x {
					mean += float64(v) / float64(g)
				}
			}
			for _, v := range x {
				square += (float64(v) - mean) * (float64(v) - mean) / float64(g)
			}
			inv := 1 / math.Sqrt(square+float64(s.Eps))
			sum, along := 0.0, 0.0 // means of the gradient, and of it times the normalised row
			for i, v := range x {
				t := float64(grad[i]) * float64(gain[i])
				if s.Kind == tensor.LayerNorm {
					sum += t / float64(g)
				}
				along += t * (float64(v) - mean) * inv / float64(g)
			}
			for i, v := range x {
				t := float64(grad[i]) * float64(gain[i])
				dx[i] = float32((t - sum - (float64(v)-mean)*inv*along) * inv)
			}
		}
	}
}

// ActivateBack differentiates an activation and what it is a gate of.
func (d *Device) ActivateBack(dm, gate, up tensor.Buffer, n int, act tensor.Activation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range n {
		g, u := dm.(*buffer).row(r), up.(*buffer).row(r)
		if gate == nil {
			for i, v := range u {
				g[i] = float32(float64(g[i]) * slope(act, float64(v)))
			}
			continue
		}
		x := gate.(*buffer).row(r)
		for i, v := range x {
			dy := float64(g[i])
			g[i] = float32(dy * activate(act, float64(v)))
			x[i] = float32(dy * float64(u[i]) * slope(act, float64(v)))
		}
	}
}

// slope is the derivative of an activation.
func slope(a tensor.Activation, x float64) float64 {
	switch a {
	case tensor.SiLU:
		s := 1 / (1 + math.Exp(-x))
		return s + x*s*(1-s)
	case tensor.GELU:
		return math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	case tensor.GELUTanh:
		c := math.Sqrt(2 / math.Pi)
		t := math.Tanh(c * (x + 0.044715*x*x*x))
		return (1+t)/2 + x/2*(1-t*t)*c*(1+3*0.044715*x*x)
	}
	return 1
}

// AttendBack differentiates attention, one query and head after the other.
func (d *Device) AttendBack(dq, dk, dv, dout, out, q, k, v tensor.Buffer, b *tensor.Batch, s tensor.AttendSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hd, rows := s.HeadDim, len(b.Rows)
	wide, narrow := s.Heads*hd, s.KVHeads*hd
	gq, gk, gv := make([]float64, rows*wide), make([]float64, rows*narrow), make([]float64, rows*narrow)
	begin := 0 // of the sequence
	for i, r := range b.Rows {
		if r.Pos == 0 {
			begin = i
		}
		first := 0
		if s.Window > 0 {
			first = max(0, int(r.Pos)-s.Window+1)
		}
		for h := range s.Heads {
			kvHead := h / (s.Heads / s.KVHeads)
			query, grad := q.(*buffer).row(i)[h*hd:][:hd], dout.(*buffer).row(i)[h*hd:][:hd]
			n := int(r.Pos) + 1 - first
			p, dp, bent := make([]float64, n), make([]float64, n), make([]float64, n)
			top, sum, mean := math.Inf(-1), 0.0, 0.0
			for j := range p {
				dot := 0.0
				for c, key := range k.(*buffer).row(begin + first + j)[kvHead*hd:][:hd] {
					dot += float64(query[c]) * float64(key) * float64(s.Scale)
				}
				p[j], bent[j] = score(&s, h, first+j, dot), 1
				if s.Softcap != 0 {
					t := p[j] / float64(s.Softcap)
					bent[j] = 1 - t*t
				}
				top = max(top, p[j])
				for c, value := range v.(*buffer).row(begin + first + j)[kvHead*hd:][:hd] {
					dp[j] += float64(grad[c]) * float64(value)
				}
			}
			for j := range p {
				p[j] = math.Exp(p[j] - top)
				sum += p[j]
			}
			for j := range p {
				p[j] /= sum
				mean += p[j] * dp[j]
			}
			for j := range p {
				ds := p[j] * (dp[j] - mean) * bent[j] * float64(s.Scale)
				at := begin + first + j
				for c := range hd {
					gq[i*wide+h*hd+c] += ds * float64(k.(*buffer).row(at)[kvHead*hd+c])
					gk[at*narrow+kvHead*hd+c] += ds * float64(query[c])
					gv[at*narrow+kvHead*hd+c] += p[j] * float64(grad[c])
				}
			}
		}
	}
	for i, r := range b.Rows {
		if turn := s.Rope; turn != nil {
			if own := b.Seqs[r.Seq].Rope; own != nil {
				turn = own
			}
			turnBack(turn.(*rope).spec, gq[i*wide:(i+1)*wide], int(r.Pos))
			turnBack(turn.(*rope).spec, gk[i*narrow:(i+1)*narrow], int(r.Pos))
		}
	}
	for _, g := range []struct {
		to   tensor.Buffer
		from []float64
	}{{dq, gq}, {dk, gk}, {dv, gv}} {
		for i, x := range g.from {
			g.to.(*buffer).v[i] = float32(x)
		}
	}
}

// turnBack is the transpose of rotate.
func turnBack(s tensor.RopeSpec, row []float64, pos int) {
	half := s.RotaryDim / 2
	for h := 0; h < len(row); h += s.HeadDim {
		for i, f := range s.InvFreq {
			sin, cos := math.Sincos(float64(float32(pos) * f))
			sin, cos = sin*float64(s.Scale), cos*float64(s.Scale)
			lo, hi := row[h+i], row[h+half+i]
			row[h+i] = lo*cos + hi*sin
			row[h+half+i] = hi*cos - lo*sin
		}
	}
}

// ExpertsBack differentiates the experts of each row and what they are weighed by.
func (d *Device) ExpertsBack(dx, dlogits, dy, x, logits tensor.Buffer, n int, s *tensor.ExpertsSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	scale := 1.0
	if s.Scale != 0 {
		scale = float64(s.Scale)
	}
	for r := range n {
		odds, row, grad := logits.(*buffer).row(r), x.(*buffer).row(r), dy.(*buffer).row(r)
		chosen := make([]bool, len(odds))
		top := math.Inf(-1)
		for e, v := range odds {
			chosen[e] = rank(odds, e) < s.TopK
			top = max(top, float64(v))
		}
		p, all := make([]float64, len(odds)), 0.0
		for e, v := range odds {
			if chosen[e] || !s.Renormalise {
				p[e] = math.Exp(float64(v) - top)
				all += p[e]
			}
		}
		sum, g, mean := make([]float64, len(row)), make([]float64, len(odds)), 0.0
		for e := range odds {
			p[e] /= all
			if !chosen[e] {
				continue
			}
			for i, v := range expert(s, e, row) {
				g[e] += float64(v) * float64(grad[i]) * scale
			}
			mean += p[e] * g[e]
			for i, v := range expertBack(s, e, row, grad, p[e]*scale) {
				sum[i] += v
			}
		}
		for i, v := range sum {
			dx.(*buffer).row(r)[i] = float32(v)
		}
		for e := range odds {
			dlogits.(*buffer).row(r)[e] = float32(p[e] * (g[e] - mean))
		}
	}
}

// expertBack is the gradient by x of expert e, times a factor.
func expertBack(s *tensor.ExpertsSpec, e int, x, dy []float32, factor float64) []float64 {
	in := &act{buffer{1, len(x), x}, 1, tensor.ActF32}
	gate, up := linear(s.Gate[e].(*weight), nil, in, 0), linear(s.Up[e].(*weight), nil, in, 0)
	dgate, dup := make([]float32, len(gate)), make([]float32, len(up))
	for i, d := range transposed(s.Down[e].(*weight), dy) {
		dup[i] = float32(d * activate(s.Act, gate[i]))
		dgate[i] = float32(d * up[i] * slope(s.Act, gate[i]))
	}
	dx := transposed(s.Up[e].(*weight), dup)
	for i, v := range transposed(s.Gate[e].(*weight), dgate) {
		dx[i] = (dx[i] + v) * factor
	}
	return dx
}
