package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// plain samples in the most direct way: every logit becomes a candidate, all are sorted,
// and sums run over them one by one. processed logits are given.
type plain struct {
	p   Params
	rng *rand.Rand
}

func (s *plain) candidates(logits []float32) []candidate {
	best := math.Inf(-1)
	for _, l := range logits {
		best = max(best, float64(l))
	}
	var c []candidate
	for id, l := range logits {
		v := (float64(l) - best) / s.p.Temperature
		c = append(c, candidate{int32(id), v, math.Exp(v)})
	}
	if k, p := s.p.TopK, s.p.TopP; k > 0 && k < len(c) || p > 0 && p < 1 {
		c = s.rank(c)
	}
	c = slices.DeleteFunc(c, func(x candidate) bool { return x.weight < s.p.MinP })
	if s.p.TypicalP > 0 && s.p.TypicalP < 1 {
		c = s.typical(c)
	}
	return c
}

// typical leaves in logit what typical does: how far a surprise is from the expected one.
func (s *plain) typical(c []candidate) []candidate {
	var total, entropy, sum float64
	for _, x := range c {
		total += x.weight
	}
	for _, x := range c {
		if x.weight > 0 {
			entropy -= x.weight / total * (x.logit - math.Log(total))
		}
	}
	for i, x := range c {
		c[i].logit = -math.Abs(math.Log(total) - x.logit - entropy)
	}
	sort.Slice(c, func(i, j int) bool { return c[i].before(c[j]) })
	for i, x := range c {
		if sum += x.weight; sum >= s.p.TypicalP*total && (i+1 == len(c) || c[i+1].logit != x.logit) {
			return c[:i+1]
		}
	}
	return c
}

func (s *plain) rank(c []candidate) []candidate {
	sort.Slice(c, func(i, j int) bool { return c[i].before(c[j]) })
	if k := s.p.TopK; k > 0 && k < len(c) {
		for k < len(c) && c[k].logit == c[k-1].logit {
			k++
		}
		c = c[:k]
	}
	var total, sum float64
	for _, x := range c {
		total += x.weight
	}
	for i, x := range c {
		if sum += x.weight; sum >= s.p.TopP*total && s.p.TopP > 0 {
			return c[:i+1]
		}
	}
	return c
}

func (s *plain) draw(c []candidate) int32 {
	var sum float64
	for _, x := range c {
		sum += x.weight
	}
	u := s.rng.Float64() * sum
	for _, x := range c {
		if u -= x.weight; u < 0 {
			return x.id
		}
	}
	return c[len(c)-1].id
}

// shapes of logits: like a model's, flat, with ties, with one far above, with bans.
func logitsOf(r *rand.Rand, n, shape int) []float32 {
	l := make([]float32, n)
	for i := range l {
		switch shape {
		case 0:
			l[i] = float32(r.NormFloat64()*3 - 2)
		case 1:
			l[i] = 1e-3 * r.Float32()
		case 2:
			l[i] = float32(r.IntN(9))
		case 3:
			l[i] = float32(r.NormFloat64() * 400)
		case 4:
			l[i] = float32(r.NormFloat64() * 1e37)
		}
	}
	if shape == 0 {
		for range 12 {
			l[r.IntN(n)] = float32(8 + 2*r.NormFloat64())
		}
	}
	return l
}

// What may be drawn, in which order and with which weights, and which id is drawn with
// which seed: as by the plain way, for odd sizes, ties, bans and every truncation.
func TestEqualsPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{1, 2, 63, 64, 65, 129, 5003} {
		for shape := range 5 {
			for _, p := range []Params{
				{Temperature: 1}, {Temperature: .3}, {Temperature: 100}, {Temperature: 1e-40}, {Temperature: 1, TopK: 1}, {Temperature: .8, TopK: 40},
				{Temperature: 1, TopK: 4000}, {Temperature: .7, TopP: .95}, {Temperature: 1, TopP: .5}, {Temperature: 2, TopP: .9999},
				{Temperature: .8, TopK: 50, TopP: .9}, {Temperature: 1, MinP: .05}, {Temperature: 1, MinP: 1}, {Temperature: .9, TopP: .9, MinP: .1},
				{Temperature: 1, TypicalP: .5}, {Temperature: 1, TopK: 30, TypicalP: .8}, {Temperature: 1, MinP: 1e-300},
			} {
				p.Seed = r.Uint64()
				fast, slow := New(p, 0), &plain{p, rand.New(rand.NewPCG(p.Seed, stream))}
				for step := range 4 {
					logits := logitsOf(r, n, shape)
					if step == 3 && n > 2 { // as bans leave it
						for range n / 2 {
							logits[r.IntN(n)] = float32(math.Inf(-1))
						}
						logits[r.IntN(n)] = 0
					}
					t.Run(fmt.Sprintf("%d of shape %d %+v", n, shape, p), func(t *testing.T) { comparePlain(t, fast, slow, logits) })
				}
			}
		}
	}
}

func comparePlain(t *testing.T, fast *Sampler, slow *plain, logits []float32) {
	first := slices.Index(logits, slices.Max(logits))
	if best, _ := argmax(logits); int(best) != first {
		t.Fatalf("the best is %d, want %d", best, first)
	}
	by := scaleOf(logits[first], fast.p.Temperature)
	want := slices.DeleteFunc(slow.candidates(logits), func(c candidate) bool { return c.weight < 1e-300 })
	var got int32
	if fast.truncates(len(logits)) {
		fast.truncate(by, logits)
		kept := slices.DeleteFunc(slices.Clone(fast.cand), func(c candidate) bool { return c.weight < 1e-300 })
		if !slices.EqualFunc(kept, want, func(a, b candidate) bool {
			return a.id == b.id && math.Abs(a.logit-b.logit) <= 1e-12 && math.Abs(a.weight-b.weight) <= 2e-15*b.weight
		}) {
			t.Fatalf("kept %d: %.200v, want %d: %.200v", len(kept), kept, len(want), want)
		}
		got = fast.draw()
	} else {
		got = fast.drawAny(by, logits)
	}
	if id := slow.draw(want); got != id {
		t.Fatalf("drew %d, want %d", got, id)
	}
}

// A number that is no number is seen wherever it is; sums that overflow are none.
func TestArgmaxSound(t *testing.T) {
	for _, n := range []int{1, 5, 64, 67, 200} {
		for at := range n {
			l := make([]float32, n)
			for i := range l {
				l[i] = float32(i % 7)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				l[at] = float32(bad)
				if _, sound := argmax(l); sound {
					t.Fatalf("%v at %d of %d is taken for sound", bad, at, n)
				}
			}
		}
	}
	huge := slices.Repeat([]float32{math.MaxFloat32}, 70)
	huge[2] = 0
	if id, err := New(Params{}, 0).Sample(huge, nil); id != 0 || err != nil {
		t.Errorf("great but finite: %d, %v", id, err)
	}
}

func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x := []float64{0, math.Copysign(0, -1), -1e-300, -math.Ln2, -math.Ln2 / 128, lowest, math.Inf(-1), -701, -1e300}
	for range 100000 {
		x = append(x, -r.ExpFloat64()*20)
	}
	got := slices.Clone(x)
	Exp(got)
	for i, v := range x {
		want := math.Exp(v)
		if v < lowest {
			want = 0
		}
		if math.Abs(got[i]-want) > 2e-15*want {
			t.Fatalf("Exp(%v) is %v, want %v", v, got[i], want)
		}
	}
	if got[0] != 1 || got[1] != 1 {
		t.Errorf("Exp(0) is %v, %v", got[0], got[1])
	}
}
