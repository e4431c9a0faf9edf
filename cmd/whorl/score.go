package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"whorl/client"
	"whorl/internal/wiring"
)

func newScore(w *world) *cobra.Command {
	var (
		ask          wiring.AskOptions
		prompt       promptFlags
		asJSON, next bool
	)
	cmd := &cobra.Command{
		Use:   "score MODEL",
		Short: "Tell how likely each token of a text is",
		Long: `Print the natural logarithm of the probability of each token, given those before it.
The first token has none.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prompt.check(cmd); err != nil {
				return err
			}
			if next && !asJSON {
				return wiring.Usagef("--next adds to the JSON object: add --json")
			}
			a, err := openAsk(cmd, &ask, args)
			if err != nil {
				return err
			}
			defer a.Close()
			ids, err := prompt.read(cmd, w.in, a)
			if err != nil {
				return err
			}
			s, err := ask.Session(cmd.Context(), a, len(ids), 1)
			if err != nil {
				return err
			}
			defer s.Close()
			return score(cmd.Context(), w, a, s, ids, asJSON, next)
		},
	}
	addAsk(cmd.Flags(), &ask)
	prompt.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on the last line")
	cmd.Flags().BoolVar(&next, "next", false, `add "next_logits", those after the last token, to the JSON object`)
	return cmd
}

// scoreObject is what --json prints. Mean and perplexity leave the first token out, and
// are null if there is no other.
type scoreObject struct {
	IDs        []int32    `json:"ids"`
	Logprobs   []*float64 `json:"logprobs"`
	Mean       *float64   `json:"mean"`
	Perplexity *float64   `json:"perplexity"`
	NextLogits []float32  `json:"next_logits,omitempty"`
}

func score(ctx context.Context, w *world, a *wiring.Asker, s *client.Session, ids []int32, asJSON, next bool) error {
	res, err := s.Score(ctx, ids)
	if ctx.Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return wiring.Asked(err)
	}
	o := newScoreObject(ids, res.Logprobs)
	if asJSON {
		if next {
			o.NextLogits = res.Next
		}
		return printJSON(w.out, o)
	}
	for i, id := range ids {
		text := ""
		if a.Tokenizer != nil {
			text = a.Engine.TokenText(id)
		}
		if i == 0 {
			fmt.Fprintf(w.out, "%8d  %9s  %q\n", id, "-", text)
		} else {
			fmt.Fprintf(w.out, "%8d  %9.4f  %q\n", id, *o.Logprobs[i], text)
		}
	}
	if o.Mean != nil {
		fmt.Fprintf(w.out, "mean %.4f, perplexity %.4f\n", *o.Mean, *o.Perplexity)
	}
	return nil
}

func newScoreObject(ids []int32, logprobs []float64) scoreObject {
	o := scoreObject{IDs: ids, Logprobs: make([]*float64, len(ids))}
	sum := 0.0
	for i := 1; i < len(ids); i++ {
		o.Logprobs[i] = &logprobs[i]
		sum += logprobs[i]
	}
	if n := len(ids) - 1; n > 0 {
		mean := sum / float64(n)
		perplexity := math.Exp(-mean)
		o.Mean, o.Perplexity = &mean, &perplexity
	}
	return o
}
