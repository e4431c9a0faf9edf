package ref

import (
	"math"

	"whorl/tensor"
	"whorl/tensor/quant"
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
		if turn := s.Rope; turn != nil {
			if own := b.Seqs[r.Seq].Rope; own != nil {
				turn = own
			}
			rotate(turn.(*rope).spec, qr, int(r.Pos))
			rotate(turn.(*rope).spec, kr, int(r.Pos))
		}
		at := func(pos, head int) place {
			return place{pages[pos/tensor.PageTokens], s.Layer, head, pos % tensor.PageTokens}
		}
		for h := range s.KVHeads {
			c.k[at(int(r.Pos), h)] = c.written(kr[h*hd : (h+1)*hd])
			c.v[at(int(r.Pos), h)] = c.written(vr[h*hd : (h+1)*hd])
		}
		for h := range s.Heads {
			out := make([]float64, hd)
			kvHead := h / (s.Heads / s.KVHeads)
			first := 0
			if s.Window > 0 {
				first = max(0, int(r.Pos)-s.Window+1)
			}
			weights := make([]float64, int(r.Pos)+1-first) // of positions from first on
			top, sum := math.Inf(-1), 0.0
			for i := range weights {
				for j, key := range c.k[at(first+i, kvHead)] {
					weights[i] += float64(qr[h*hd+j]) * float64(key) * float64(s.Scale)
				}
				weights[i] = score(&s, h, first+i, weights[i])
				top = max(top, weights[i])
			}
			for i := range weights {
				weights[i] = math.Exp(weights[i] - top)
				sum += weights[i]
			}
			if t := s.Totals; t != nil {
				to := t.(*buffer).row(i)
				to[h], to[s.Heads+h] = float32(top), float32(sum)
			}
			for i, w := range weights {
				for j, value := range c.v[at(first+i, kvHead)] {
					out[j] += w / sum * float64(value)
				}
			}
			for j, o := range out {
				dst.(*buffer).row(i)[h*hd+j] = float32(o)
			}
		}
	}
}

// score biases and caps a scaled score of a head and position.
func score(s *tensor.AttendSpec, head, pos int, v float64) float64 {
	if a := s.Alibi; a != nil {
		slope, at := float64(a.Slopes.(vector)[head]), float64(pos)
		if a.BF16 { // the roundings are the model's, not an implementation's
			v += bf16(slope*bf16(at)) * float64(s.Scale)
		} else {
			v += slope * at
		}
	}
	if s.Softcap != 0 {
		v = float64(s.Softcap) * math.Tanh(v/float64(s.Softcap))
	}
	return v
}

func bf16(v float64) float64 { return float64(quant.BF16ToF32(quant.F32ToBF16(float32(v)))) }

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

// CopyPages copies what was written to pages.
func (d *Device) CopyPages(cache tensor.KV, dst, src []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := cache.(*kv)
	for i := range dst {
		for layer := range c.spec.Layers {
			for head := range c.spec.KVHeads {
				for pos := range tensor.PageTokens {
					from, to := place{src[i], layer, head, pos}, place{dst[i], layer, head, pos}
					for _, values := range []map[place][]float32{c.k, c.v} {
						if row, ok := values[from]; ok {
							values[to] = append([]float32(nil), row...)
						} else {
							delete(values, to)
						}
					}
				}
			}
		}
	}
}
