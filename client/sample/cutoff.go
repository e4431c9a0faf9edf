package sample

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// cutoff keeps the candidates that are at least so likely, and those as likely as the n-th best,
// reusing c. With eta the bound falls where much is possible: it is the lesser of the number and
// of its root times Exp(-entropy) (Hewitt et al. 2022, and transformers).
func cutoff(c []candidate, least float64, eta bool, n int) []candidate {
	total, best := 0.0, nth(c, n)
	for i := range c {
		total += c[i].weight
	}
	if eta {
		least = min(least, math.Sqrt(least)*math.Exp(-entropy(c, total)))
	}
	return slices.DeleteFunc(c, func(x candidate) bool { return x.weight < least*total && x.weight < best })
}

// mostTopH is how many candidates top-h looks at, as in transformers.
const mostTopH = 100

// topH returns the best of candidates, which come best first, as long as their part of the entropy
// of the first hundred is at most that share of it; at least one.
func topH(c []candidate, share float64) []candidate {
	c = c[:min(len(c), mostTopH)]
	var total float64
	for i := range c {
		total += c[i].weight
	}
	most, sum := share*entropy(c, total), 0.0
	for i := range c {
		p := c[i].weight / total
		if sum -= p * math.Log(p); i > 0 && !(sum <= most) {
			return c[:i]
		}
	}
	return c
}

// entropy of candidates whose weights have this total, in nats.
func entropy(c []candidate, total float64) float64 {
	var h float64
	for i := range c {
		if p := c[i].weight / total; p > 0 {
			h -= p * math.Log(p)
		}
	}
	return h
}

// Decay makes the end of an answer likelier with every token behind a position: transformers'
// exponential_decay_length_penalty, in JSON [start, factor]. The zero value is none.
type Decay struct {
	Start  int     // tokens of the answer without it
	Factor float64 // above 1 for likelier; 0 for none
}

// MarshalJSON writes the pair.
func (d Decay) MarshalJSON() ([]byte, error) { return json.Marshal([]any{d.Start, d.Factor}) }

// UnmarshalJSON reads the pair, or null for none.
func (d *Decay) UnmarshalJSON(b []byte) error {
	var pair []json.Number
	if err := json.Unmarshal(b, &pair); err != nil || pair != nil && len(pair) != 2 {
		return &FieldError{"exponential_decay_length_penalty", string(b), "[start, factor], such as [100, 1.05]"}
	}
	if pair == nil {
		*d = Decay{}
		return nil
	}
	start, err := pair[0].Int64()
	factor, err2 := pair[1].Float64()
	if err != nil || err2 != nil || start < 0 || start > math.MaxInt32 {
		return &FieldError{"exponential_decay_length_penalty", string(b), "[start, factor], such as [100, 1.05]"}
	}
	*d = Decay{int(start), factor}
	return nil
}

// Set reads "100,1.05", for flags.
func (d *Decay) Set(text string) error { return d.UnmarshalJSON([]byte("[" + text + "]")) }

func (d *Decay) String() string {
	if d.Factor == 0 {
		return ""
	}
	return fmt.Sprintf("%d,%v", d.Start, d.Factor)
}

// Type names the value in help texts.
func (d *Decay) Type() string { return "PAIR" }

// hasten makes end ids likelier once the answer is long, as transformers does, in float32 but for
// the power.
func (d *Decay) hasten(logits []float32, end []int32, length int) {
	if d.Factor == 0 || length <= d.Start {
		return
	}
	by := float32(math.Pow(d.Factor, float64(length-d.Start)) - 1)
	for _, id := range end {
		if id >= 0 && int(id) < len(logits) {
			l := logits[id]
			logits[id] = l + float32(math.Abs(float64(l)))*by
		}
	}
}
