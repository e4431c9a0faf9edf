package ref

import (
	"math"

	"whorl/tensor"
)

// Attend rotates, writes and attends, row by row: a row sees what the rows before it
// wrote.
func (d *Device) Attend(dst, q, k, v tensor.Buffer, cache tensor.KV, b *tensor.Batch, s tensor.AttendSpec) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, hd := cache.(*kv), s.HeadDim
	for i, r := range b.Rows {
		pages := b.Seqs[r.Seq].Pages
		qr, kr, vr := q.(*buffer).row(i), k.(*buffer).row(i), v.(*buffer).row(i)
		if s.Rope != nil {
			rotate(s.Rope.(*rope).spec, qr, int(r.Pos))
			rotate(s.Rope.(*rope).spec, kr, int(r.Pos))
		}
		at := func(pos, head int) place {
			return place{pages[pos/tensor.PageTokens], s.Layer, head, pos % tensor.PageTokens}
		}
		for h := range s.KVHeads {
			c.k[at(int(r.Pos), h)] = append([]float32(nil), kr[h*hd:(h+1)*hd]...)
			c.v[at(int(r.Pos), h)] = append([]float32(nil), vr[h*hd:(h+1)*hd]...)
		}
		for h := range s.Heads {
			out := make([]float64, hd)
			kvHead := h / (s.Heads / s.KVHeads)
			weights := make([]float64, r.Pos+1)
			top, sum := math.Inf(-1), 0.0
			for pos := range weights {
				for j, key := range c.k[at(pos, kvHead)] {
					weights[pos] += float64(qr[h*hd+j]) * float64(key) * float64(s.Scale)
				}
				top = max(top, weights[pos])
			}
			for pos := range weights {
				weights[pos] = math.Exp(weights[pos] - top)
				sum += weights[pos]
			}
			for pos, w := range weights {
				for j, value := range c.v[at(pos, kvHead)] {
					out[j] += w / sum * float64(value)
				}
			}
			for j, o := range out {
				dst.(*buffer).row(i)[h*hd+j] = float32(o)
			}
		}
	}
}

// rotate turns pairs (i, i+RotaryDim/2) of each head.
func rotate(s tensor.RopeSpec, row []float32, pos int) {
	half := s.RotaryDim / 2
	for h := 0; h < len(row); h += s.HeadDim {
		for i, f := range s.InvFreq {
			sin, cos := math.Sincos(float64(float32(pos) * f))
			sin, cos = sin*float64(s.Scale), cos*float64(s.Scale)
			lo, hi := float64(row[h+i]), float64(row[h+half+i])
			row[h+i] = float32(lo*cos - hi*sin)
			row[h+half+i] = float32(hi*cos + lo*sin)
		}
	}
}
