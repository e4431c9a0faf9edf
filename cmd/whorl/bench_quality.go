package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"whorl/bench"
	"whorl/internal/wiring"
	"whorl/model/tokenizer"
	"whorl/tensor"
)

// qualityFlags are those of `bench quality`.
type qualityFlags struct {
	model          wiring.ModelOptions
	compute        wiring.ComputeOptions
	formats        []string
	activations    []string
	residual       []string
	text           string
	window, tokens int
	json           bool
}

// defaultWindow is how many tokens are scored in one context.
const defaultWindow = 512

func newBenchQuality(w *world) *cobra.Command {
	var f qualityFlags
	all := bench.QualityFormats()
	cmd := &cobra.Command{
		Use:   "quality MODEL",
		Short: "Measure what each format costs in likelihood of a text",
		Long: `Score a fixed English text, in windows, with the model's weights in f32 (those of a
quantised file exactly as it has them) and in each format, quantised from those; and, for
quantised weights, with activations in 8 bits and in f32. A delta is the mean log-likelihood
of a token less that of f32, with its standard error over the tokens.`,
		Args: oneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.check(args)
			if err != nil {
				return err
			}
			return f.run(cmd, w, o)
		},
	}
	fs := cmd.Flags()
	addCompute(fs, &f.compute)
	fs.StringSliceVar(&f.formats, "format", all, "`FORMAT`[,FORMAT...] to compare")
	fs.StringSliceVar(&f.activations, "activations", []string{"auto", "f32"}, "what meets quantised weights: auto, or auto,f32 to tell what it costs")
	fs.StringSliceVar(&f.residual, "residual", []string{"f32"}, "rows between blocks: f32, or f32,bf16 to tell what half the bytes on the network cost")
	fs.StringVar(&f.text, "text", "", "`FILE` with another text")
	fs.IntVar(&f.window, "window", defaultWindow, "tokens that are scored in one context; the default is less where the model has less room")
	fs.IntVar(&f.tokens, "tokens", 0, "tokens of the text to score; 0: all")
	fs.BoolVar(&f.json, "json", false, "print JSON on the last line")
	return cmd
}

func (f *qualityFlags) check(args []string) (bench.QualityOptions, error) {
	o := bench.QualityOptions{Formats: f.formats}
	for _, name := range f.formats {
		if all := bench.QualityFormats(); !slices.Contains(all, name) {
			return o, wiring.Usagef("--format %q: want some of %s", name, strings.Join(all, ", "))
		}
	}
	auto := false
	for _, name := range f.activations {
		mode, err := tensor.ParseActivations(name)
		if err != nil {
			return o, wiring.Usagef("--activations: %w", err)
		}
		auto = auto || mode == tensor.Act8
		o.Activations = o.Activations || mode == tensor.ActF32
	}
	plain := false
	for _, name := range f.residual {
		mode, err := tensor.ParseResidual(name)
		if err != nil {
			return o, wiring.Usagef("--residual: %w", err)
		}
		plain = plain || mode == tensor.ResidualF32
		o.Residual = o.Residual || mode == tensor.ResidualBF16
	}
	switch {
	case !plain:
		return o, wiring.Usagef("--residual %s: want f32, or f32,bf16", strings.Join(f.residual, ","))
	case !auto:
		return o, wiring.Usagef("--activations %s: want auto, or auto,f32", strings.Join(f.activations, ","))
	case f.window < 2:
		return o, wiring.Usagef("--window %d: want 2 or more", f.window)
	case f.tokens < 0 || f.tokens == 1:
		return o, wiring.Usagef("--tokens %d: want 2 or more, or 0 for all", f.tokens)
	}
	return o, f.model.Take(args, false)
}

// qualityObject is what --json prints. Formats[0] is f32, which the others are compared with.
type qualityObject struct {
	Model   string          `json:"model"`
	Text    string          `json:"text"` // "built in", or the file
	Tokens  int             `json:"tokens"`
	Window  int             `json:"window"`
	Formats []bench.Quality `json:"formats"`
	Skipped []bench.Skipped `json:"skipped"`
}

func (f *qualityFlags) run(cmd *cobra.Command, w *world, o bench.QualityOptions) error {
	m, err := f.model.Open(cmd.Context(), &f.compute)
	if err != nil {
		return err
	}
	defer m.Close()
	longest := m.Checkpoint.Config.LongestSession()
	switch {
	case !sourcesOf(cmd).given("window"):
		f.window = min(f.window, longest)
	case f.window > longest:
		return wiring.Usagef("--window %d: %s holds at most %d tokens", f.window, m.Name, longest)
	}
	out := qualityObject{Model: m.Name, Text: "built in", Window: f.window, Formats: []bench.Quality{}, Skipped: []bench.Skipped{}}
	text := bench.QualityText
	if f.text != "" {
		b, err := os.ReadFile(f.text)
		if err != nil {
			return wiring.Usagef("--text: %w", err)
		}
		text, out.Text = string(b), f.text
	}
	begin, ids, err := encodeText(m, text)
	if err != nil {
		return err
	}
	if f.tokens > 0 {
		ids = ids[:min(f.tokens, len(ids))]
	}
	if o.Windows = bench.Windows(begin, ids, f.window); len(o.Windows) == 0 {
		return wiring.Usagef("--text %s: a text of %d tokens has none to predict", out.Text, len(ids))
	}
	out.Tokens = len(ids)
	return f.measure(cmd.Context(), w, m, o, out)
}

// measure prints lines as they come, or one JSON object at the end.
func (f *qualityFlags) measure(ctx context.Context, w *world, m *wiring.Model, o bench.QualityOptions, out qualityObject) error {
	if !f.json {
		fmt.Fprintf(w.out, "%s, %d tokens in windows of %d\n", out.Model, out.Tokens, out.Window)
		fmt.Fprintf(w.out, "%-8s  %-11s  %-5s  %-8s  %-10s  %-18s  %-20s  %s\n", "format", "activations", "rows", "mean", "perplexity", "less f32", "less f32 activations", "less f32 rows")
	}
	skipped, err := bench.MeasureQuality(ctx, m.Device, m.Checkpoint, o, func(q bench.Quality) {
		out.Formats = append(out.Formats, q)
		if !f.json {
			printQuality(w.out, q)
		}
	})
	if ctx.Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return err
	}
	if f.json {
		out.Skipped = append(out.Skipped, skipped...)
		return printJSON(w.out, out)
	}
	for _, s := range skipped {
		fmt.Fprintf(w.out, "note: no %s: %s\n", s.Format, s.Reason)
	}
	return nil
}

func printQuality(out io.Writer, q bench.Quality) {
	name, activations, residual := q.Format, "-", "-"
	if q.Stored {
		name += "*"
	}
	if q.ActivationsDelta != nil {
		activations = difference(*q.ActivationsDelta, *q.ActivationsStdErr)
	}
	if q.ResidualDelta != nil {
		residual = difference(*q.ResidualDelta, *q.ResidualStdErr)
	}
	fmt.Fprintf(out, "%-8s  %-11s  %-5s  %-8.4f  %-10.3f  %-18s  %-20s  %s\n", name, q.Activations, q.Residual, q.MeanLogprob, q.Perplexity, difference(q.Delta, q.DeltaStdErr), activations, residual)
}

func difference(mean, stdErr float64) string { return fmt.Sprintf("%+.5f ±%.5f", mean, stdErr) }

// encodeText gives the ids of a text, and those that the model wants in front of every text.
func encodeText(m *wiring.Model, text string) (begin, ids []int32, err error) {
	tok, err := m.Tokenizer()
	switch {
	case err != nil:
		return nil, nil, err
	case tok == nil:
		return nil, nil, wiring.Usagef("%s has no tokenizer, and formats are compared on a text", m.Name)
	}
	if ids, err = tok.Encode(text, tokenizer.EncodeOptions{}); err != nil {
		return nil, nil, err
	}
	around, err := tok.Encode(text, tokenizer.EncodeOptions{Special: true})
	for i := 0; err == nil && i+len(ids) <= len(around); i++ {
		if slices.Equal(around[i:i+len(ids)], ids) {
			return around[:i], ids, nil
		}
	}
	return nil, ids, err
}
