package train

import (
	"math"

	"whorl/client/sample"
)

// CrossEntropy is the loss of logits whose answer is known, in nats; the logits become their
// gradient: the softmax, less 1 at the answer. best tells whether the answer has the highest logit,
// the first of equals. The exponentials are those of package sample, rounded alike everywhere, and
// their sum is float64, in order.
func CrossEntropy(logits []float32, answer int, scratch []float64) (loss float64, best bool) {
	top, at := logits[0], 0
	for i, v := range logits {
		if v > top {
			top, at = v, i
		}
	}
	e := scratch[:len(logits)]
	for i, v := range logits {
		e[i] = float64(v) - float64(top)
	}
	own := e[answer]
	sample.Exp(e)
	sum := 0.0
	for _, v := range e {
		sum += v
	}
	for i, v := range e {
		logits[i] = float32(v / sum)
	}
	logits[answer]--
	return math.Log(sum) - own, at == answer
}
