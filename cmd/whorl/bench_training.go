package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"whorl/bench"
	"whorl/internal/wiring"
	"whorl/model"
)

func newBenchTraining(w *world) *cobra.Command {
	var (
		f       benchFlags
		shape   string
		formats []string
		rows    int
	)
	cmd := &cobra.Command{
		Use:   "training",
		Short: "Measure a block forward and backward against the ceilings",
		Long: `Measure a block of a shape with random weights, as fine-tuning uses it: forward with float32
activations, and backward, for which what the block computed is computed again.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := bench.TrainingOptions{Rows: rows, Repeat: f.repeat}
			for _, name := range formats {
				t, err := randomFormat(name)
				if err != nil {
					return err
				}
				o.Formats = append(o.Formats, t)
			}
			switch c, err := bench.ShapeOf(shape); {
			case err != nil:
				return wiring.Usagef("--shape: %v", err)
			case rows < 1 || rows > c.MaxPositions:
				return wiring.Usagef("--rows %d: want 1 to %d", rows, c.MaxPositions)
			}
			dev, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer dev.Close()
			c, err := dev.NewCeiling(int64(f.memory))
			if err != nil {
				return err
			}
			o.Slice = f.slice
			table := struct {
				Shape   string           `json:"shape"`
				Threads int              `json:"threads"`
				Rows    int              `json:"rows"`
				Formats []bench.Training `json:"formats"`
			}{shape, dev.Info().Threads, rows, []bench.Training{}}
			if !f.json {
				fmt.Fprintf(w.out, "%s, %d threads, sequences of %d\nformat  forward tok/s  of dots  backward tok/s  both tok/s  of dots\n", shape, table.Threads, rows)
			}
			share := func(v *float64) string {
				if v == nil {
					return "-"
				}
				return fmt.Sprintf("%.2f", *v)
			}
			err = bench.MeasureTraining(cmd.Context(), dev, c, shape, o, func(t bench.Training) {
				table.Formats = append(table.Formats, t)
				if !f.json {
					fmt.Fprintf(w.out, "%-6s  %-13.0f  %-7s  %-14.0f  %-10.0f  %s\n", t.Format, t.ForwardTokS, share(t.ForwardShare), t.BackwardTokS, t.BothTokS, share(t.BothShare))
				}
			})
			switch {
			case cmd.Context().Err() != nil:
				return wiring.ErrInterrupted
			case err != nil || !f.json:
				return err
			}
			return printJSON(w.out, table)
		},
	}
	fs := cmd.Flags()
	f.add(fs, 300*time.Millisecond)
	fs.StringVar(&shape, "shape", "1.1b", "shape of the block: "+strings.Join(bench.Shapes(), ", "))
	fs.StringSliceVar(&formats, "format", append([]string{"f32", "bf16"}, model.Quantisers()...), "`FORMAT`[,FORMAT...] of weights")
	fs.IntVar(&rows, "rows", 512, "rows of a sequence")
	return cmd
}
