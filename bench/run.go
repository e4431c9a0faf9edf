package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"whorl/tensor"
)

// Ceiling is what the machine could do at best with the threads of a device.
type Ceiling interface {
	// Read reads much memory once and returns its bytes.
	Read() (bytes int64)
	// Dot does some milliseconds of the dot products of a format and returns the
	// operations, a multiplication and an addition being two; 0: there is no such loop.
	Dot(tensor.DType) (ops int64)
	// Loops names the loops, for notes.
	Loops() string
}

// Options say what to measure.
type Options struct {
	Prefill int           // positions of the prompt
	Decode  int           // context at which tokens are decoded
	Batch   []int         // numbers of sequences, measured beside the single one
	Repeat  int           // pairs of slices
	Slice   time.Duration // least time of a slice
}

// Check refuses what cannot be measured for a model of the given context.
func (o Options) Check(positions int) error {
	switch {
	case o.Prefill < 1 || o.Prefill > positions:
		return fmt.Errorf("a prompt of %d positions: want 1 to %d", o.Prefill, positions)
	case o.Decode < 1 || o.Decode >= positions:
		return fmt.Errorf("decoding at context %d: want 1 to %d", o.Decode, positions-1)
	case o.Repeat < 1:
		return fmt.Errorf("%d repetitions: want at least 1", o.Repeat)
	case o.Slice <= 0:
		return fmt.Errorf("slices of %v: want more than 0", o.Slice)
	}
	for _, n := range o.Batch {
		if n < 1 || n > maxRows {
			return fmt.Errorf("a batch of %d sequences: want 1 to %d", n, maxRows)
		}
	}
	return nil
}

// Result is what a model reached. Rates are medians over slices, shares medians of the
// ratios of pairs; a nil could not be measured, and a note says why.
type Result struct {
	Shape         string             `json:"shape"`
	Format        string             `json:"format"`
	Threads       int                `json:"threads"`
	DecodeTokS    float64            `json:"decode_tok_s"`
	DecodeGBS     float64            `json:"decode_gb_s"`
	MemoryGBS     float64            `json:"memory_gb_s"`
	DecodeShare   float64            `json:"decode_share"`
	PrefillTokS   float64            `json:"prefill_tok_s"`
	PrefillGFlopS float64            `json:"prefill_gflop_s"`
	DotGFlopS     *float64           `json:"dot_gflop_s"`
	PrefillShare  *float64           `json:"prefill_share"`
	Batch         map[string]float64 `json:"batch"` // number of sequences -> tok/s of all
	LoadS         float64            `json:"load_s"`
	PeakRSSMB     *float64           `json:"peak_rss_mb"`
	Notes         []string           `json:"notes,omitempty"`
}

// Session measures one model: [NewSession], then [Session.Run].
type Session struct {
	r   *runner
	o   Options
	dev tensor.Device
}

// NewSession makes workspace and cache and runs the model once, so that the memory of a
// step is in use before anybody asks how much that is.
func NewSession(dev tensor.Device, m *Model, o Options) (*Session, error) {
	if err := o.Check(m.Config.MaxPositions); err != nil {
		return nil, err
	}
	seqs := slices.Max(append([]int{1}, o.Batch...))
	r, err := newRunner(dev, m, seqs, max(o.Prefill, o.Decode+1))
	if err != nil {
		return nil, err
	}
	for s := range seqs {
		if err := r.prefill(s, o.Decode); err != nil {
			return nil, err
		}
	}
	if err := r.prefill(0, o.Prefill); err != nil {
		return nil, err
	}
	return &Session{r, o, dev}, r.decode(seqs, o.Decode)
}

// Run measures. It takes about 4*Repeat slices, and Repeat more for each batch.
func (s *Session) Run(ctx context.Context, c Ceiling) (Result, error) {
	m, o := s.r.Model, s.o
	res := Result{Shape: m.Name, Format: m.Format.String(), Threads: s.dev.Info().Threads, Batch: map[string]float64{}}
	if err := s.decode(ctx, c, &res); err != nil {
		return res, err
	}
	if err := s.prefill(ctx, c, &res); err != nil {
		return res, err
	}
	var work []Slice
	for _, n := range o.Batch {
		work = append(work, func() (float64, error) { return float64(n), s.r.decode(n, o.Decode) })
	}
	rates, err := Alternate(ctx, o.Repeat, o.Slice, work...)
	for i, n := range o.Batch {
		if err == nil {
			res.Batch[strconv.Itoa(n)] = Median(rates[i])
		}
	}
	return res, err
}

func (s *Session) decode(ctx context.Context, c Ceiling, res *Result) error {
	bytes := float64(s.r.StepBytes())
	rates, err := Alternate(ctx, s.o.Repeat, s.o.Slice,
		func() (float64, error) { return float64(c.Read()), nil },
		func() (float64, error) { return bytes, s.r.decode(1, s.o.Decode) })
	if err != nil {
		return err
	}
	if res.DecodeShare, err = Share(rates[1], rates[0]); err != nil {
		return err
	}
	res.MemoryGBS, res.DecodeGBS = Median(rates[0])/1e9, Median(rates[1])/1e9
	res.DecodeTokS = res.DecodeGBS * 1e9 / bytes
	if res.DecodeShare > 1 {
		res.Notes = append(res.Notes, "decoding is faster than memory: the processor's cache holds part of the weights, so the share says little")
	}
	if c.Loops() == "go" {
		res.Notes = append(res.Notes, "memory was read by plain Go, which may fall short of the ceiling")
	}
	return nil
}

func (s *Session) prefill(ctx context.Context, c Ceiling, res *Result) error {
	ops := s.r.PrefillOps(s.o.Prefill)
	prompt := func() (float64, error) { return ops, s.r.prefill(0, s.o.Prefill) }
	work := []Slice{prompt}
	if c.Dot(s.r.Format) > 0 {
		work = append(work, func() (float64, error) { return float64(c.Dot(s.r.Format)), nil })
	} else {
		res.Notes = append(res.Notes, "no loop of dot products for this processor: their ceiling is unknown")
	}
	rates, err := Alternate(ctx, s.o.Repeat, s.o.Slice, work...)
	if err != nil {
		return err
	}
	rate := Median(rates[0])
	res.PrefillGFlopS, res.PrefillTokS = rate/1e9, rate/ops*float64(s.o.Prefill)
	if len(rates) > 1 {
		share, err := Share(rates[0], rates[1])
		if err != nil {
			return err
		}
		dot := Median(rates[1]) / 1e9
		res.PrefillShare, res.DotGFlopS = &share, &dot
	}
	return nil
}
