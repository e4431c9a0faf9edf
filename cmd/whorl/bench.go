package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/bench"
	"whorl/internal/wiring"
	"whorl/model"
	"whorl/model/families"
	"whorl/tensor"
	"whorl/tensor/cpu"
)

func newBench(w *world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure speed, against what this machine could do at best, and quality",
		Long: `Measure speed (model, kernels, training) and, in the same minutes and with the same
threads, what this machine could do at best: reading memory, and dot products on
registers. Work and ceiling alternate in slices, and a share is the median of the ratios
of the pairs. Measure what several users get (serving), and what formats of weights cost
in quality (quality).`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return wiring.Usagef("no benchmark given: use `whorl bench model`, `whorl bench kernels`, `whorl bench training`, `whorl bench serving` or `whorl bench quality`")
		},
	}
	cmd.AddCommand(newBenchModel(w), newBenchKernels(w), newBenchTraining(w), newBenchServing(w), newBenchQuality(w))
	return cmd
}

// benchFlags are those of every benchmark of this machine.
type benchFlags struct {
	compute wiring.ComputeOptions
	repeat  int
	slice   time.Duration
	memory  wiring.Size
	quick   bool
	json    bool
}

// fewPairs is the number of pairs below which a share is only a hint.
const fewPairs = 5

func (f *benchFlags) add(fs *pflag.FlagSet, slice time.Duration) {
	addCompute(fs, &f.compute)
	fs.IntVar(&f.repeat, "repeat", fewPairs, "pairs of slices")
	f.slice = slice
	secondsVar(fs, &f.slice, "slice", "least time of a slice")
	f.memory = 1 << 30
	fs.Var(&f.memory, "memory", "`SIZE` of the memory that each thread reads for the ceiling, such as 1GiB: far beyond the caches")
	fs.BoolVar(&f.quick, "quick", false, "short slices over less memory, for a first look: as --slice 0.2 --memory 256MiB")
	fs.BoolVar(&f.json, "json", false, "print JSON on the last line")
}

// open checks the flags and opens the device.
func (f *benchFlags) open(cmd *cobra.Command) (*cpu.Device, error) {
	from := sourcesOf(cmd)
	if f.quick && !from.given("slice") {
		f.slice = 200 * time.Millisecond
	}
	if f.quick && !from.given("memory") {
		f.memory = 256 << 20
	}
	switch {
	case f.repeat < 1:
		return nil, wiring.Usagef("--repeat %d: want at least 1", f.repeat)
	case f.slice <= 0:
		return nil, wiring.Usagef("--slice %v: want more than 0", f.slice)
	case f.memory < 4<<20 || f.memory > 1<<40:
		return nil, wiring.Usagef("--memory %d: want 4MiB to 1TiB", f.memory)
	}
	dev, err := f.compute.Open()
	if err != nil {
		return nil, err
	}
	d, ok := dev.(*cpu.Device)
	if !ok {
		dev.Close()
		return nil, wiring.Usagef("--device %s: ceilings are known of the CPU only: use --device cpu", f.compute.Device)
	}
	return d, nil
}

// benchModelFlags are those of `bench model`.
type benchModelFlags struct {
	benchFlags
	model           wiring.ModelOptions
	shape, format   string
	prefill, decode int
	batch           []int
}

func newBenchModel(w *world) *cobra.Command {
	var f benchModelFlags
	cmd := &cobra.Command{
		Use:   "model [MODEL]",
		Short: "Measure decoding, prompts and batches of a model against the ceilings",
		Long: `Measure a shape with random weights, made in memory (--shape and --format), or MODEL.
Decoding counts the bytes of weights in the model's own format against memory; a prompt
counts products with weights against dot products.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBenchModel(cmd, w, &f, args)
		},
	}
	fs := cmd.Flags()
	f.add(fs, 2*time.Second)
	addModel(fs, &f.model)
	fs.StringVar(&f.shape, "shape", "", "shape with random weights: "+strings.Join(bench.Shapes(), ", "))
	fs.StringVar(&f.format, "format", "q4_0", "format of random weights: "+either(randomFormats()))
	fs.IntVar(&f.prefill, "prefill", 512, "positions of the prompt")
	fs.IntVar(&f.decode, "decode", 128, "context at which tokens are decoded")
	fs.IntSliceVar(&f.batch, "batch", []int{2, 4, 8, 16}, "`N`[,N...] numbers of sequences to decode at once, besides one")
	return cmd
}

func runBenchModel(cmd *cobra.Command, w *world, f *benchModelFlags, args []string) error {
	if err := f.model.Take(args, true); err != nil {
		return err
	}
	o := bench.Options{Prefill: f.prefill, Decode: f.decode, Batch: f.batch, Repeat: f.repeat}
	src, err := f.source(cmd)
	if err != nil {
		return err
	}
	defer src.close()
	dev, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer dev.Close()
	o.Slice = f.slice
	if err := o.Check(src.positions); err != nil {
		return wiring.Usage(err)
	}
	res, err := benchModel(cmd.Context(), dev, src.load, o, int64(f.memory))
	if cmd.Context().Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return err
	}
	if f.quick {
		res.Notes = append(res.Notes, "--quick: short slices over little memory")
	}
	if f.model.KV != tensor.F32 {
		res.Notes = append(res.Notes, "KV cache of "+f.model.KV.String())
	}
	if f.repeat < fewPairs {
		res.Notes = append(res.Notes, fmt.Sprintf("%d pairs: a share of fewer than %d is only a hint", f.repeat, fewPairs))
	}
	if f.json {
		return printJSON(w.out, res)
	}
	return printBenchModel(w.out, res)
}

// benchSource is where the model to measure comes from.
type benchSource struct {
	load      func(tensor.Device) (*bench.Model, error)
	positions int // the context it was made for
	close     func() error
}

// source finds what the flags name; nothing is loaded yet.
func (f *benchModelFlags) source(cmd *cobra.Command) (*benchSource, error) {
	switch {
	case f.shape == "" && f.model.Path == "":
		return nil, wiring.Usagef("nothing to measure: give --shape (%s) or a MODEL", strings.Join(bench.Shapes(), ", "))
	case f.shape != "" && f.model.Path != "":
		return nil, wiring.Usagef("--shape %s and MODEL %s exclude each other: give one", f.shape, f.model.Path)
	case f.model.Path != "" && sourcesOf(cmd).given("format"):
		return nil, wiring.Usagef("--format is for random weights: a MODEL has its own (--quant and --dtype convert it)")
	case f.shape != "":
		return f.randomSource()
	}
	src, fetched, err := f.model.Hub.Source(cmd.Context(), f.model.Path, !f.model.Source.Has(wiring.FromHub))
	if err != nil {
		return nil, err
	}
	ck, err := families.OpenSource(cmd.Context(), src)
	if err != nil {
		fetched.Close()
		return nil, wiring.ModelError(err)
	}
	done := func() error { return errors.Join(ck.Close(), fetched.Close()) }
	o := model.LoadOptions{DType: f.model.DType, Quant: f.model.Quant}
	if _, err := ck.Class(o); err != nil {
		done()
		return nil, wiring.Usage(err)
	}
	load := func(dev tensor.Device) (*bench.Model, error) { return f.cached(bench.Load(dev, ck, o)) }
	return &benchSource{load, ck.Config.MaxPositions, done}, nil
}

// cached gives a model the type of cache that the flags ask for.
func (f *benchModelFlags) cached(m *bench.Model, err error) (*bench.Model, error) {
	if err == nil {
		m.KV = f.model.KV
	}
	return m, err
}

func (f *benchModelFlags) randomSource() (*benchSource, error) {
	cfg, err := bench.ShapeOf(f.shape)
	if err != nil {
		return nil, wiring.Usagef("--shape: %w", err)
	}
	format, err := randomFormat(f.format)
	if err != nil {
		return nil, err
	}
	load := func(dev tensor.Device) (*bench.Model, error) {
		return f.cached(bench.Random(dev, f.shape, cfg, format))
	}
	return &benchSource{load, cfg.MaxPositions, func() error { return nil }}, nil
}

// randomFormats are those that random weights can be made in.
func randomFormats() []string { return append([]string{"f32", "f16", "bf16"}, model.Quantisers()...) }

// either reads a list out: a, b or c.
func either(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// randomFormat reads a format that random weights can be made in.
func randomFormat(name string) (tensor.DType, error) {
	t, err := tensor.ParseDType(name)
	if err != nil || !bench.CanMake(t) {
		return 0, wiring.Usagef("--format %q: no random weights are made in it: use %s", name, either(randomFormats()))
	}
	return t, nil
}

// benchModel loads and measures. The peak of memory is that of the model at work: it is
// read before the ceiling's memory exists.
func benchModel(ctx context.Context, dev *cpu.Device, load func(tensor.Device) (*bench.Model, error), o bench.Options, memory int64) (bench.Result, error) {
	start := time.Now()
	m, err := load(dev)
	if err != nil {
		return bench.Result{}, err
	}
	took := time.Since(start).Seconds()
	s, err := bench.NewSession(dev, m, o)
	if err != nil {
		return bench.Result{}, err
	}
	peak, known := bench.PeakRSS()
	c, err := dev.NewCeiling(memory)
	if err != nil {
		return bench.Result{}, err
	}
	res, err := s.Run(ctx, c)
	res.LoadS = took
	if known {
		mb := float64(peak) / 1e6
		res.PeakRSSMB = &mb
	}
	return res, err
}

func printBenchModel(out io.Writer, r bench.Result) error {
	fmt.Fprintf(out, "%s %s, %d threads: loaded in %.1f s", r.Shape, r.Format, r.Threads, r.LoadS)
	if r.PeakRSSMB != nil {
		fmt.Fprintf(out, ", at most %.0f MB held", *r.PeakRSSMB)
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\ttok/s\trate\tceiling\tshare\n")
	fmt.Fprintf(t, "decode\t%.1f\t%.1f GB/s\t%.1f GB/s\t%.2f\n", r.DecodeTokS, r.DecodeGBS, r.MemoryGBS, r.DecodeShare)
	ceiling, share := "-", "-"
	if r.PrefillShare != nil {
		ceiling, share = fmt.Sprintf("%.0f GFLOP/s", *r.DotGFlopS), fmt.Sprintf("%.2f", *r.PrefillShare)
	}
	fmt.Fprintf(t, "prefill\t%.1f\t%.0f GFLOP/s\t%s\t%s\n", r.PrefillTokS, r.PrefillGFlopS, ceiling, share)
	var sizes []int
	for s := range r.Batch {
		n, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	for _, n := range sizes {
		fmt.Fprintf(t, "decode of %d at once\t%.1f\t\t\t\n", n, r.Batch[strconv.Itoa(n)])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	return nil
}

func newBenchKernels(w *world) *cobra.Command {
	var (
		f       benchFlags
		formats []string
		rows    []int
		weights wiring.Size = 256 << 20
	)
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure single products with weights against the ceilings",
		Long: `Measure products of matrices of the shape 1.1b with different numbers of rows. Weights
are read from memory: each measurement walks through copies of its matrix.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := bench.KernelOptions{Rows: rows, Repeat: f.repeat, Memory: int64(weights)}
			for _, name := range formats {
				t, err := randomFormat(name)
				if err != nil {
					return err
				}
				o.Formats = append(o.Formats, t)
			}
			for _, n := range rows {
				if n < 1 || n > 4096 {
					return wiring.Usagef("--rows %d: want 1 to 4096", n)
				}
			}
			dev, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer dev.Close()
			o.Slice = f.slice
			return benchKernels(cmd.Context(), w, dev, o, int64(f.memory), f.json)
		},
	}
	fs := cmd.Flags()
	f.add(fs, 200*time.Millisecond)
	fs.StringSliceVar(&formats, "format", append([]string{"f32", "bf16"}, model.Quantisers()...), "`FORMAT`[,FORMAT...] of weights")
	fs.IntSliceVar(&rows, "rows", []int{1, 4, 16, 512}, "`N`[,N...] rows of activations")
	fs.Var(&weights, "weights", "`SIZE` of the weights that a measurement walks through")
	return cmd
}

// benchKernels prints lines as they come, or one JSON object at the end.
func benchKernels(ctx context.Context, w *world, dev *cpu.Device, o bench.KernelOptions, memory int64, asJSON bool) error {
	c, err := dev.NewCeiling(memory)
	if err != nil {
		return err
	}
	table := struct {
		Threads int            `json:"threads"`
		Kernels []bench.Kernel `json:"kernels"`
	}{Threads: dev.Info().Threads, Kernels: []bench.Kernel{}}
	if !asJSON {
		fmt.Fprintf(w.out, "%d threads\nformat  out    in     rows  GB/s    GFLOP/s   of memory  of dots\n", table.Threads)
	}
	err = bench.Kernels(ctx, dev, c, o, func(k bench.Kernel) {
		table.Kernels = append(table.Kernels, k)
		dots := "-"
		if k.DotShare != nil {
			dots = fmt.Sprintf("%.2f", *k.DotShare)
		}
		if !asJSON {
			fmt.Fprintf(w.out, "%-6s  %-5d  %-5d  %-4d  %-6.2f  %-8.1f  %-9.2f  %s\n", k.Format, k.Out, k.In, k.Rows, k.GBS, k.GFlopS, k.MemoryShare, dots)
		}
	})
	switch {
	case ctx.Err() != nil:
		return wiring.ErrInterrupted
	case err != nil || !asJSON:
		return err
	}
	return printJSON(w.out, table)
}
