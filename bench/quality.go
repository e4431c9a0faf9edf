package bench

import (
	"context"
	_ "embed" // the text
	"fmt"
	"math"
	"runtime"
	"slices"

	"whorl/model"
	"whorl/tensor"
)

// QualityText is the English text that formats are compared on: prose of this project, so
// that no model has learnt it by heart.
//
//go:embed quality.txt
var QualityText string

// Windows cuts ids into sequences of at most size, each behind the ids (of a begin token)
// that the model wants in front of every text. A rest that would leave nothing to predict is
// dropped.
func Windows(begin, ids []int32, size int) [][]int32 {
	var out [][]int32
	for part := range slices.Chunk(ids, max(1, size-len(begin))) {
		if w := slices.Concat(begin, part); len(w) > 1 {
			out = append(out, w)
		}
	}
	return out
}

// Score gives the natural logarithm of p(id | ids before it in its window), for each id of
// each window but the first.
func Score(ctx context.Context, dev tensor.Device, m *Model, windows [][]int32, mode tensor.Mode) ([]float64, error) {
	longest := 0
	for _, w := range windows {
		longest = max(longest, len(w))
	}
	if longest < 2 || longest > m.Config.LongestSession() {
		return nil, fmt.Errorf("windows of up to %d ids: want 2 to %d", longest, m.Config.LongestSession())
	}
	r, err := newRunner(dev, m, 1, longest)
	if err != nil {
		return nil, err
	}
	var out []float64
	for _, w := range windows {
		if out, err = r.score(ctx, out, w, mode); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scoreRows is how many rows of logits are held at a time.
const scoreRows = 16

// score appends what the model thinks of a window.
func (r *runner) score(ctx context.Context, out []float64, ids []int32, mode tensor.Mode) ([]float64, error) {
	h, vocab := r.Config.Hidden, r.Config.Vocab
	logits := make([]float32, scoreRows*vocab)
	for at := 0; at < len(ids)-1; at += r.ws.MaxRows {
		n := min(len(ids)-1-at, r.ws.MaxRows) // nobody asks what comes after the last
		r.batch.Seqs, r.batch.Rows = r.seqs[:1], r.batch.Rows[:0]
		for i := range n {
			r.batch.Rows = append(r.batch.Rows, tensor.Row{Pos: int32(at + i)})
		}
		copy(r.ids, ids[at:at+n])
		if err := r.forward(mode); err != nil {
			return nil, err
		}
		for i := 0; i < n; i += scoreRows {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rows := min(scoreRows, n-i)
			if err := r.Head.Logits(logits[:rows*vocab], r.rows[i*h:(i+rows)*h], rows, mode.Act); err != nil {
				return nil, err
			}
			for j := range rows {
				out = append(out, logProbability(logits[j*vocab:(j+1)*vocab], ids[at+i+j+1]))
			}
		}
	}
	return out, nil
}

// logProbability of an id, in float64: differences of thousandths are the subject here.
func logProbability(logits []float32, id int32) float64 {
	best, sum := float64(slices.Max(logits)), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - best)
	}
	return float64(logits[id]) - best - math.Log(sum)
}

// Compare gives the mean of v less that of base, both of the same ids, and the standard
// error of that, from the differences of the single ids: how far another text of this length
// would be expected to be off.
func Compare(v, base []float64) (mean, stdErr float64) {
	n := float64(len(v))
	for i := range v {
		mean += (v[i] - base[i]) / n
	}
	if len(v) < 2 {
		return mean, 0
	}
	square := 0.0
	for i := range v {
		e := v[i] - base[i] - mean
		square += e * e
	}
	return mean, math.Sqrt(square / (n - 1) / n)
}

// Quality is what one way to hold and multiply the weights makes of the text.
type Quality struct {
	Format string `json:"format"` // of the blocks' matrices
	// Stored: as the file has them, embeddings and LM head included. Otherwise matrices of
	// blocks are made from the file's weights as floats, and the head stays in floats.
	Stored      bool    `json:"stored"`
	Activations string  `json:"activations"` // "auto" or "f32"
	Residual    string  `json:"residual"`    // how rows are held between blocks: "f32" or "bf16"
	MeanLogprob float64 `json:"mean_logprob"`
	Perplexity  float64 `json:"perplexity"`
	// Delta is MeanLogprob less that of the same weights in f32: what format and arithmetic
	// cost together. Standard errors are those of Compare.
	Delta       float64 `json:"delta"`
	DeltaStdErr float64 `json:"delta_std_err"`
	// ActivationsDelta is MeanLogprob less that of the very same quantised weights with f32
	// activations: what the arithmetic costs. Nil where there is no such difference, or
	// nobody asked.
	ActivationsDelta  *float64 `json:"activations_delta"`
	ActivationsStdErr *float64 `json:"activations_std_err"`
	// ResidualDelta is MeanLogprob less that of the very same weights and activations with rows
	// in f32: what half the bytes on the way cost. Nil for rows in f32.
	ResidualDelta  *float64 `json:"residual_delta"`
	ResidualStdErr *float64 `json:"residual_std_err"`
}

// Skipped is a format that the model cannot be had in.
type Skipped struct {
	Format string `json:"format"`
	Reason string `json:"reason"`
}

// Stored names the format that the file has, among those of QualityOptions.
const Stored = "stored"

// QualityFormats are all that can be compared: as stored, rounded floats, and what
// checkpoints can be quantised to.
func QualityFormats() []string {
	return append([]string{Stored, tensor.BF16.String(), tensor.F16.String()}, model.Quantisers()...)
}

// QualityOptions say what to compare.
type QualityOptions struct {
	Formats []string // of QualityFormats
	Windows [][]int32
	// Activations: quantised weights meet float rows too. That is slow.
	Activations bool
	// Residual: rows are rounded to bfloat16 between blocks too.
	Residual bool
}

// MeasureQuality scores the text with the file's weights in f32 and then in each format; the
// device holds one form at a time. emit sees results as they come, that of f32 first.
func MeasureQuality(ctx context.Context, dev tensor.Device, ck *model.Checkpoint, o QualityOptions, emit func(Quality)) ([]Skipped, error) {
	modes := []tensor.Mode{{}}
	if o.Residual {
		modes = append(modes, tensor.Mode{Residual: tensor.ResidualBF16})
	}
	base, err := scoreAs(ctx, dev, ck, o.Windows, model.LoadOptions{Dequantise: true}, modes...)
	if err != nil {
		return nil, err
	}
	emitAll(emit, tensor.F32.String(), false, modes, base, base[0])
	var skipped []Skipped
	for _, format := range o.Formats {
		load := qualityLoad(format)
		class, err := ck.Class(load)
		if err != nil {
			skipped = append(skipped, Skipped{format, err.Error()})
			continue
		}
		modes := modes
		if o.Activations && (class.Quant != "none" || format == Stored && ck.Quantised()) {
			modes = append(slices.Clone(modes), tensor.Mode{Act: tensor.ActF32})
		}
		scores, err := scoreAs(ctx, dev, ck, o.Windows, load, modes...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		name := class.Quant
		if name == "none" {
			name = class.DType
		}
		emitAll(emit, name, format == Stored, modes, scores, base[0])
	}
	return skipped, nil
}

// emitAll tells what one form of the weights makes of the text in each mode, the default first.
func emitAll(emit func(Quality), name string, stored bool, modes []tensor.Mode, scores [][]float64, base []float64) {
	float := slices.Index(modes, tensor.Mode{Act: tensor.ActF32})
	for i, mode := range modes {
		q := newQuality(name, mode, scores[i], base)
		q.Stored = stored
		if mode == (tensor.Mode{}) && float >= 0 {
			mean, stdErr := Compare(scores[i], scores[float])
			q.ActivationsDelta, q.ActivationsStdErr = &mean, &stdErr
		}
		if mode.Residual != tensor.ResidualF32 {
			mean, stdErr := Compare(scores[i], scores[0])
			q.ResidualDelta, q.ResidualStdErr = &mean, &stdErr
		}
		emit(q)
	}
}

func qualityLoad(format string) model.LoadOptions {
	switch format {
	case Stored:
		return model.LoadOptions{}
	case tensor.BF16.String(), tensor.F16.String():
		return model.LoadOptions{DType: format, Dequantise: true}
	}
	return model.LoadOptions{Quant: format, Dequantise: true}
}

// scoreAs loads the weights in one form and scores the text in each mode.
func scoreAs(ctx context.Context, dev tensor.Device, ck *model.Checkpoint, windows [][]int32, load model.LoadOptions, modes ...tensor.Mode) ([][]float64, error) {
	// The device's memory goes with its owners, and the collector does not see how large
	// it is: without this call the forms would pile up.
	runtime.GC()
	m, err := Load(dev, ck, load)
	if err != nil {
		return nil, err
	}
	var out [][]float64
	for _, mode := range modes {
		s, err := Score(ctx, dev, m, windows, mode)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func newQuality(format string, mode tensor.Mode, scores, base []float64) Quality {
	mean := 0.0
	for _, v := range scores {
		mean += v / float64(len(scores))
	}
	q := Quality{Format: format, Activations: mode.Act.String(), Residual: mode.Residual.String(), MeanLogprob: mean, Perplexity: math.Exp(-mean)}
	q.Delta, q.DeltaStdErr = Compare(scores, base)
	return q
}
