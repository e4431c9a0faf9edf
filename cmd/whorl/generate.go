package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/client"
	"whorl/client/sample"
	"whorl/swarm"
)

// answerFlags say how an answer is drawn.
type answerFlags struct {
	tokens    int
	params    sample.Params
	stop      []string
	ignoreEOS bool
	beams     int
	lengthPen float64
	adapter   string
}

func (f *answerFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.tokens, "max-new-tokens", 256, "most tokens of an answer; the default is less where the model has less room")
	fs.Float64Var(&f.params.Temperature, "temperature", 0, "0 takes the likeliest token (greedy)")
	fs.IntVar(&f.params.TopK, "top-k", 0, "draw among so many tokens; 0: all")
	fs.Float64Var(&f.params.TopP, "top-p", 1, "draw among the likeliest tokens of this total probability")
	fs.Float64Var(&f.params.MinP, "min-p", 0, "leave out tokens less likely than this share of the likeliest")
	fs.Float64Var(&f.params.RepetitionPenalty, "repetition-penalty", 1, "above 1 makes tokens that occurred less likely")
	fs.Uint64Var(&f.params.Seed, "seed", 0, "equal seeds give equal answers; default: random")
	fs.StringArrayVar(&f.stop, "stop", nil, "`TEXT` that ends the answer and is not shown; may be repeated")
	fs.BoolVar(&f.ignoreEOS, "ignore-eos", false, "go on after end tokens")
	fs.IntVar(&f.beams, "num-beams", 1, "beams of a beam search; only 1 is supported yet")
	fs.Float64Var(&f.lengthPen, "length-penalty", 1, "exponent of the length in a beam search; only 1 is supported yet")
	fs.StringVar(&f.adapter, "adapter", "", "LoRA adapter; none is supported yet")
}

func (f *answerFlags) check(cmd *cobra.Command) error {
	switch {
	case f.tokens < 1:
		return usagef("--max-new-tokens %d: want 1 or more", f.tokens)
	case f.beams != 1 || f.lengthPen != 1:
		return usagef("--num-beams %d, --length-penalty %v: beam search is not supported yet: leave them at 1", f.beams, f.lengthPen)
	case f.adapter != "":
		return usagef("--adapter %s: adapters are not supported yet, and an answer without it would be wrong", f.adapter)
	}
	for _, s := range f.stop {
		if s == "" {
			return usagef("--stop: an empty text would end every answer at once")
		}
	}
	if !sourcesOf(cmd).given("seed") {
		f.params.Seed = rand.Uint64()
	}
	var bad *sample.FieldError
	if err := f.params.Validate(); errors.As(err, &bad) {
		return usagef("--%s %v: want %s", strings.ReplaceAll(bad.Field, "_", "-"), bad.Value, bad.Want)
	}
	return nil
}

func (f *answerFlags) request(prompt []int32) client.Request {
	return client.Request{
		Prompt: prompt, MaxNewTokens: f.tokens, Sampling: f.params, Stop: f.stop, IgnoreEOS: f.ignoreEOS, TopLogprobs: -1,
	}
}

func newGenerate(w *world) *cobra.Command {
	var (
		ask    askFlags
		prompt promptFlags
		answer answerFlags
		asJSON bool
		trace  bool
	)
	cmd := &cobra.Command{
		Use:   "generate MODEL",
		Short: "Write one answer",
		Long: `Go on from a prompt, in this process (--local) or through a swarm (--initial-peers). The
text is written to stdout as it comes; with --json the last line is a JSON object.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prompt.check(cmd); err != nil {
				return err
			}
			if err := answer.check(cmd); err != nil {
				return err
			}
			a, err := ask.open(cmd, args)
			if err != nil {
				return err
			}
			defer a.Close()
			ids, err := prompt.read(cmd, w.in, a)
			if err != nil {
				return err
			}
			if room := a.model.ck.Config.MaxPositions - len(ids); room > 0 && !sourcesOf(cmd).given("max-new-tokens") {
				answer.tokens = min(answer.tokens, room)
			}
			length := len(ids) + answer.tokens
			s, err := ask.session(cmd, a, length)
			if err != nil {
				return err
			}
			defer s.Close()
			req := answer.request(ids)
			req.Hash = trace
			return generate(cmd.Context(), w, s, req, asJSON)
		},
	}
	ask.add(cmd.Flags())
	prompt.add(cmd.Flags())
	prompt.addChat(cmd.Flags())
	answer.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on the last line")
	cmd.Flags().BoolVar(&trace, "trace", false, "add a hash of all logits to the JSON object; it costs a little speed")
	return cmd
}

// generate runs one turn and prints it.
func generate(ctx context.Context, w *world, s *client.Session, r client.Request, asJSON bool) error {
	res, err := s.Generate(ctx, r, func(d client.Delta) error {
		_, err := io.WriteString(w.out, d.Text)
		return err
	})
	if res.Text != "" || err == nil {
		fmt.Fprintln(w.out)
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return asked(err)
	}
	if asJSON {
		return printJSON(w.out, answerJSON(res))
	}
	fmt.Fprintf(w.err, "%s\n", summary(res))
	return nil
}

// answerObject is what --json prints.
type answerObject struct {
	IDs              []int32   `json:"ids"`
	Text             string    `json:"text"`
	FinishReason     string    `json:"finish_reason"` // "stop" or "length"
	PromptTokens     int       `json:"prompt_tokens"`
	CompletionTokens int       `json:"completion_tokens"`
	Route            []hopJSON `json:"route"`
	Reroutes         int       `json:"reroutes"`
	// LogitsHash sums up the bits of all logits: equal hashes mean equal arithmetic.
	LogitsHash string `json:"logits_hash,omitempty"`
	Timings    struct {
		PrefillMS       float64 `json:"prefill_ms"`
		DecodeMS        float64 `json:"decode_ms"`
		TokensPerSecond float64 `json:"tokens_per_second"`
	} `json:"timings"`
}

type hopJSON struct {
	Peer   swarm.PeerID `json:"peer"`
	Blocks string       `json:"blocks"`
}

func answerJSON(r client.Result) answerObject {
	o := answerObject{
		IDs: r.IDs, Text: r.Text, FinishReason: "stop", PromptTokens: r.PromptTokens, CompletionTokens: len(r.IDs),
		Route: []hopJSON{}, Reroutes: r.Reroutes, LogitsHash: r.LogitsHash,
	}
	if o.IDs == nil {
		o.IDs = []int32{}
	}
	if r.Finish == client.FinishLength {
		o.FinishReason = "length"
	}
	for _, h := range r.Route {
		o.Route = append(o.Route, hopJSON{h.Peer, h.Span.String()})
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	o.Timings.PrefillMS, o.Timings.DecodeMS = ms(r.Timings.Prefill), ms(r.Timings.Decode)
	o.Timings.TokensPerSecond = speed(r)
	return o
}

// speed is the decode speed in tokens per second: the first token belongs to the prefill.
// An answer of one token has no decode, and no speed.
func speed(r client.Result) float64 {
	if n := len(r.IDs) - 1; n > 0 && r.Timings.Decode > 0 {
		return float64(n) / r.Timings.Decode.Seconds()
	}
	return 0
}

// summary is one line about an answer, for people.
func summary(r client.Result) string {
	hops := make([]string, len(r.Route))
	for i, h := range r.Route {
		hops[i] = fmt.Sprintf("%s %v", h.Peer.Short(), h.Span)
	}
	text := fmt.Sprintf("[%d tokens, %.1f tok/s, first after %v, route %s", len(r.IDs), speed(r), r.Timings.Prefill.Round(time.Millisecond), strings.Join(hops, " -> "))
	if r.Reroutes > 0 {
		text += fmt.Sprintf(", %d re-routes", r.Reroutes)
	}
	return text + "]"
}
