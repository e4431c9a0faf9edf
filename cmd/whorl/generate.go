package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"whorl/client"
	"whorl/internal/wiring"
	"whorl/swarm"
)

func newGenerate(w *world) *cobra.Command {
	var (
		ask    wiring.AskOptions
		prompt promptFlags
		answer answerFlags
		set    setFlags
		asJSON bool
		trace  bool
	)
	cmd := &cobra.Command{
		Use:   "generate MODEL",
		Short: "Write one answer",
		Long: `Go on from a prompt, in this process (--local) or through a swarm (--initial-peers). The
text is written to stdout as it comes; with --json the last line is a JSON object.
With --prompts all prompts of a file are answered, several at once.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prompt.check(cmd); err != nil {
				return err
			}
			if err := answer.check(cmd); err != nil {
				return err
			}
			if err := set.check(cmd, &ask); err != nil {
				return err
			}
			if ask.Receipts && !asJSON {
				return wiring.Usagef("--receipts adds to the JSON object: give --json")
			}
			a, err := openAsk(cmd, &ask, args)
			if err != nil {
				return err
			}
			defer a.Close()
			if set.file != "" {
				return set.run(cmd, w, &ask, &prompt, &answer, a, trace)
			}
			ids, err := prompt.read(cmd, w.in, a)
			if err != nil {
				return err
			}
			if set.truncate != "no" {
				if ids, err = set.fit(ids, a.Model.Checkpoint.Config.LongestSession()-answer.tokens); err != nil {
					return err
				}
			}
			if room := a.Model.Checkpoint.Config.LongestSession() - len(ids); room > 0 && !sourcesOf(cmd).given("max-new-tokens") {
				answer.tokens = min(answer.tokens, room)
			}
			if ask.Beside, err = answer.beside(a); err != nil {
				return err
			}
			length := len(ids) + answer.tokens
			s, err := ask.Session(cmd.Context(), a, length, answer.beams.Beams)
			if err != nil {
				return err
			}
			defer s.Close()
			req, err := answer.request(a, ids)
			if err != nil {
				return err
			}
			req.Hash = trace
			return generate(cmd.Context(), w, s, req, asJSON, ask.Receipts, ask.Audit)
		},
	}
	addAsk(cmd.Flags(), &ask)
	prompt.add(cmd.Flags())
	prompt.addChat(cmd.Flags())
	answer.add(cmd.Flags())
	set.add(cmd.Flags())
	addVerify(cmd.Flags(), &ask)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on the last line")
	cmd.Flags().BoolVar(&ask.Receipts, "receipts", false, "have every server sign what it computed, and add the receipts to the JSON object")
	cmd.Flags().BoolVar(&trace, "trace", false, "add a hash of all logits to the JSON object; it costs a little speed")
	return cmd
}

// generate runs one turn and prints it.
func generate(ctx context.Context, w *world, s *client.Session, r client.Request, asJSON, signed, audited bool) error {
	res, err := s.Generate(ctx, r, func(d client.Delta) error {
		_, err := io.WriteString(w.out, d.Text)
		return err
	})
	if res.Text != "" || err == nil {
		fmt.Fprintln(w.out)
	}
	if ctx.Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return wiring.Asked(err)
	}
	for _, a := range res.Answers[min(1, len(res.Answers)):] {
		fmt.Fprintln(w.out, a.Text)
	}
	var audits []auditJSON
	var wrong error
	if audited {
		audits, wrong = auditsOf(ctx, w, s)
	}
	if asJSON {
		o := answerJSON(res)
		o.Audits = audits
		if signed {
			var owed error
			if o.Receipts, owed = receipts(ctx, s); owed != nil {
				fmt.Fprintf(w.err, "not all receipts are here: %v\n", owed)
			}
		}
		return errors.Join(printJSON(w.out, o), wrong)
	}
	fmt.Fprintf(w.err, "%s\n", summary(res))
	return wrong
}

// answerObject is what --json prints.
type answerObject struct {
	IDs              []int32 `json:"ids"`
	Text             string  `json:"text"`
	FinishReason     string  `json:"finish_reason"` // "stop" or "length"
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	// Answers are those of a beam search, best first.
	Answers  []searchedJSON `json:"answers,omitempty"`
	Route    []hopJSON      `json:"route"`
	Reroutes int            `json:"reroutes"`
	// Verified is how many chains gave the same bits for every token; absent without --verify.
	Verified int `json:"verified,omitempty"`
	// LogitsHash sums up the bits of all logits: equal hashes mean equal arithmetic.
	LogitsHash string `json:"logits_hash,omitempty"`
	// Receipts are those of --receipts, by the first block.
	Receipts []receiptJSON `json:"receipts,omitempty"`
	// Audits are those of --audit, a server after the other.
	Audits  []auditJSON `json:"audits,omitempty"`
	Timings struct {
		PrefillMS       float64 `json:"prefill_ms"`
		DecodeMS        float64 `json:"decode_ms"`
		LongestPauseMS  float64 `json:"longest_pause_ms,omitempty"`
		TokensPerSecond float64 `json:"tokens_per_second"`
	} `json:"timings"`
}

// searchedJSON is an answer that a beam search found; its score is the sum of
// log-probabilities over the penalty of its length.
type searchedJSON struct {
	IDs          []int32 `json:"ids"`
	Text         string  `json:"text"`
	Score        float64 `json:"score"`
	FinishReason string  `json:"finish_reason"`
}

type hopJSON struct {
	Peer   swarm.PeerID `json:"peer"`
	Blocks string       `json:"blocks"`
}

func answerJSON(r client.Result) answerObject {
	o := answerObject{
		IDs: r.IDs, Text: r.Text, FinishReason: finishReason(r.Finish), PromptTokens: r.PromptTokens, CompletionTokens: len(r.IDs),
		Route: []hopJSON{}, Reroutes: r.Reroutes, Verified: r.Verified, LogitsHash: r.LogitsHash,
	}
	if o.IDs == nil {
		o.IDs = []int32{}
	}
	for _, a := range r.Answers {
		o.Answers = append(o.Answers, searchedJSON{a.IDs, a.Text, a.Score, finishReason(a.Finish)})
	}
	for _, h := range r.Route {
		o.Route = append(o.Route, hopJSON{h.Peer, h.Span.String()})
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	o.Timings.PrefillMS, o.Timings.DecodeMS, o.Timings.LongestPauseMS = ms(r.Timings.Prefill), ms(r.Timings.Decode), ms(r.Timings.Pause)
	o.Timings.TokensPerSecond = speed(r)
	return o
}

func finishReason(f client.Finish) string {
	if f == client.FinishLength {
		return "length"
	}
	return "stop"
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
	if r.Verified > 0 {
		text += fmt.Sprintf(", %d chains agree about every token", r.Verified)
	}
	return text + "]"
}
