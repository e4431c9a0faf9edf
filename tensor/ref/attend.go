package ref

import (
	"fmt"
	"math"

	"whorl/tensor"
)

type rope struct{ spec tensor.RopeSpec }

func (r *rope) RotaryDim() int { return r.spec.RotaryDim }

// NewRope keeps the specification.
func (d *Device) NewRope(s tensor.RopeSpec) (tensor.Rope, error) {
	if s.RotaryDim < 2 || s.RotaryDim > s.HeadDim || s.RotaryDim%2 != 0 || len(s.InvFreq) != s.RotaryDim/2 {
		return nil, fmt.Errorf("rope: %d of %d columns with %d frequencies", s.RotaryDim, s.HeadDim, len(s.InvFreq))
	}
	return &rope{s}, nil
}

// rotate turns the heads of a row. The angle is a float32 product, as the contract says.
func (r *rope) rotate(row []float32, pos int32) {
	half := r.spec.RotaryDim / 2
	for head := 0; head < len(row); head += r.spec.HeadDim {
		for i, f := range r.spec.InvFreq {
			sin, cos := math.Sincos(float64(float32(pos) * f))
			sin, cos = sin*float64(r.spec.Scale), cos*float64(r.spec.Scale)
			a, b := float64(row[head+i]), float64(row[head+half+i])
			row[head+i] = float32(a*cos - b*sin)
			row[head+half+i] = float32(b*cos + a*sin)
		}
	}
}

// kv holds keys and values: [layer][page][slot][kvheads*headdim].
type kv struct {
	spec tensor.KVSpec
	k, v [][]float32 // per layer
}

func (p *kv) Pages() int { return p.spec.Pages }
func (p *kv) PageBytes() int64 {
	return int64(p.spec.Layers) * 2 * tensor.PageTokens * int64(p.spec.KVHeads*p.spec.HeadDim) * 4
}

// NewKV makes a zeroed pool.
func (d *Device) NewKV(s tensor.KVSpec) (tensor.KV, error) {
	if s.Layers < 1 || s.KVHeads < 1 || s.HeadDim < 1 || s.Pages < 1 {
		return nil, fmt.Errorf("kv pool of %+v", s)
	}
	p := &kv{spec: s}
	for range s.Layers {
		n := s.Pages * tensor.PageTokens * s.KVHeads * s.HeadDim
		p.k, p.v = append(p.k, make([]float32, n)), append(p.v, make([]float32, n))
	}
	return p, nil
}

// at finds a position's row in a layer's pool.
func (p *kv) at(pool []float32, view tensor.KVView, pos int32) []float32 {
	width := p.spec.KVHeads * p.spec.HeadDim
	slot := int(view.Pages[pos/tensor.PageTokens])*tensor.PageTokens + int(pos%tensor.PageTokens)
	return pool[slot*width : (slot+1)*width]
}

// Attend writes keys and values, then lets every row look at all positions up to its own.
func (d *Device) Attend(dst, q, k, v tensor.Buffer, cache tensor.KV, b *tensor.Batch, s tensor.AttendSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pool := cache.(*kv)
	keys, values := pool.k[s.Layer], pool.v[s.Layer]
	for i, r := range b.Rows {
		if s.Rope != nil {
			s.Rope.(*rope).rotate(q.(*buffer).row(i)[:s.Heads*s.HeadDim], r.Pos)
			s.Rope.(*rope).rotate(k.(*buffer).row(i)[:s.KVHeads*s.HeadDim], r.Pos)
		}
		copy(pool.at(keys, b.Seqs[r.Seq], r.Pos), k.(*buffer).row(i))
		copy(pool.at(values, b.Seqs[r.Seq], r.Pos), v.(*buffer).row(i))
	}
	for i, r := range b.Rows {
		for h := range s.Heads {
			query := q.(*buffer).row(i)[h*s.HeadDim : (h+1)*s.HeadDim]
			at := h / (s.Heads / s.KVHeads) * s.HeadDim
			scores, most := make([]float64, r.Pos+1), math.Inf(-1)
			for p := range scores {
				key := pool.at(keys, b.Seqs[r.Seq], int32(p))[at : at+s.HeadDim]
				for c := range query {
					scores[p] += float64(query[c]) * float64(key[c])
				}
				scores[p] *= float64(s.Scale)
				most = max(most, scores[p])
			}
			sum, out := 0.0, make([]float64, s.HeadDim)
			for p, score := range scores {
				e := math.Exp(score - most)
				sum += e
				value := pool.at(values, b.Seqs[r.Seq], int32(p))[at : at+s.HeadDim]
				for c := range out {
					out[c] += e * float64(value[c])
				}
			}
			for c := range out {
				dst.(*buffer).row(i)[h*s.HeadDim+c] = float32(out[c] / sum)
			}
		}
	}
}

var _ tensor.Device = (*Device)(nil)
