package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"whorl/bench"
	"whorl/client"
	"whorl/internal/wiring"
)

// servingFlags are those of `bench serving`.
type servingFlags struct {
	ask        wiring.AskOptions
	url, token string
	metrics    []string
	load       bench.ServingOptions
	far        []time.Duration
	prompt     int // beside answers
	train      int // likewise
	window     time.Duration
	json       bool
}

func newBenchServing(w *world) *cobra.Command {
	var f servingFlags
	cmd := &cobra.Command{
		Use:   "serving [MODEL]",
		Short: "Measure answers to several users at once",
		Long: `Let so many clients ask at once, each one request after another, and measure tokens per
second of all together, the time to the first token, and that between tokens. It goes
through a running gateway (--url), from here through a swarm (MODEL --initial-peers), or
through a server in this process (MODEL --local). Prompts are random tokens, and answers
do not end before their length.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, w, args)
		},
	}
	fs := cmd.Flags()
	addAsk(fs, &f.ask)
	fs.StringVar(&f.url, "url", "", "`URL` of a running gateway, such as http://127.0.0.1:8300; --model-name says which of its models")
	fs.StringVar(&f.token, "http-token", "", "token that the gateway asks for (better as WHORL_HTTP_TOKEN)")
	fs.StringSliceVar(&f.metrics, "metrics", nil, "`URL`[,URL...] of HTTP listeners of the servers that compute, to tell how clients share iterations; --local and --url know their own")
	fs.IntSliceVar(&f.load.Concurrency, "concurrency", []int{1, 2, 4, 8}, "`N`[,N...] clients at once")
	fs.IntVar(&f.load.Requests, "requests", 2, "requests of each client")
	fs.IntVar(&f.load.Rounds, "rounds", 1, "how often all numbers of clients are measured, in turns; more than 1: their rates are compared within each round")
	fs.DurationSliceVar(&f.far, "far", nil, "`DELAY`[,DELAY...] each way, such as 5ms,20ms: measure without and with one client more behind each of these, in --rounds pairs of windows")
	fs.IntVar(&f.prompt, "beside-prompt", 0, "tokens of a prompt: measure without and with it, in --rounds pairs of windows; answers should outlast them")
	fs.IntVar(&f.train, "beside-train", 0, "rows of a batch: measure without and with one who trains, as whorl tune does, in --rounds pairs of windows")
	f.window = 3 * time.Second
	secondsVar(fs, &f.window, "window", "length of a window, for --far, --beside-prompt and --beside-train")
	fs.IntVar(&f.load.Prompt, "prompt-tokens", 128, "length of prompts")
	fs.IntVar(&f.load.Tokens, "new-tokens", 64, "length of answers")
	f.load.Limit = time.Minute
	secondsVar(fs, &f.load.Limit, "limit", "most time of each number of clients: what runs then is cut")
	fs.BoolVar(&f.json, "json", false, "print JSON on the last line")
	return cmd
}

// servingObject is what --json prints.
type servingObject struct {
	Target string        `json:"target"` // "local", "swarm", or the URL
	Model  string        `json:"model"`
	Prompt int           `json:"prompt_tokens"`
	Tokens int           `json:"new_tokens"`
	Levels []bench.Level `json:"levels,omitempty"`
	// Multiples compare levels of several rounds.
	Multiples []bench.Multiple `json:"multiples,omitempty"`
	Beside    []bench.Beside   `json:"beside,omitempty"`
}

func (f *servingFlags) run(cmd *cobra.Command, w *world, args []string) error {
	if err := f.load.Check(); err != nil {
		return wiring.Usage(err)
	}
	out := servingObject{Model: f.ask.Model.Name, Prompt: f.load.Prompt, Tokens: f.load.Tokens, Levels: []bench.Level{}}
	if f.joined() {
		if f.train < 0 {
			return wiring.Usagef("--beside-train %d: want at least 1 row", f.train)
		}
		if err := f.checkBeside(); err != nil {
			return wiring.Usage(err)
		}
	}
	if f.url != "" {
		g, err := f.gateway(cmd, args)
		if err != nil {
			return err
		}
		out.Target, f.load.Vocab = g.url, gatewayVocab
		if len(f.metrics) == 0 {
			f.metrics = []string{f.url}
		}
		f.load.Iterations = f.scrape(g.http)
		if f.prompt > 0 {
			return f.beside(cmd.Context(), w, g.ask, nil, nil, out)
		}
		return f.measure(cmd.Context(), w, g.ask, out)
	}
	if !f.ask.Local && !sourcesOf(cmd).given("initial-peers") {
		return wiring.Usagef("nobody to ask: give --url of a gateway, MODEL with --initial-peers of a swarm, or MODEL with --local")
	}
	a, err := openAsk(cmd, &f.ask, args)
	if err != nil {
		return err
	}
	defer a.Close()
	adapter, err := f.ask.OpenAdapter(cmd.Context(), a)
	if err != nil {
		return err
	}
	// Ids alone: text would be held back where a character is not whole.
	a.Tokenizer = nil
	// Sessions side by side need the cache of a search with so many beams.
	clients, longest := slices.Max(f.load.Concurrency)+len(f.far), f.load.Prompt+f.load.Tokens
	if f.prompt > 0 {
		longest = max(longest, f.prompt+1)
	}
	clients += 1 + clients/4 // a session may begin before the one before it has given back its cache
	if err := f.ask.Connect(cmd.Context(), a, longest, clients); err != nil {
		return err
	}
	if out.Target = "swarm"; f.ask.Local {
		out.Target, f.load.Iterations = "local", localIterations(a.Local)
	} else if len(f.metrics) > 0 {
		f.load.Iterations = f.scrape(http.DefaultClient)
	}
	out.Model, f.load.Vocab = a.Model.Name, a.Engine.Model().Vocab
	ask := answersOf(a, a.Engine, adapter)
	if f.joined() {
		var far []bench.Far
		for _, d := range f.far {
			e, err := a.Far(d)
			if err != nil {
				return err
			}
			far = append(far, bench.Far{Delay: d, Ask: answersOf(a, e, adapter)})
		}
		var train bench.Train
		if f.train > 0 {
			if train, err = training(a, f.train); err != nil {
				return err
			}
		}
		return f.beside(cmd.Context(), w, ask, far, train, out)
	}
	return f.measure(cmd.Context(), w, ask, out)
}

// joined tells whether others join running answers.
func (f *servingFlags) joined() bool { return len(f.far) > 0 || f.prompt > 0 || f.train != 0 }

// gateway checks the flags that go with --url.
func (f *servingFlags) gateway(cmd *cobra.Command, args []string) (*gatewayClient, error) {
	if len(f.far) > 0 {
		return nil, wiring.Usagef("--far needs MODEL with --initial-peers or --local: it is these clients that are further away, not the gateway")
	}
	if f.train != 0 {
		return nil, wiring.Usagef("--beside-train needs MODEL with --initial-peers or --local: gateways take no batches")
	}
	if len(args) > 0 || f.ask.Local || f.ask.Model.Path != "" {
		return nil, wiring.Usagef("--url asks a running gateway: leave out MODEL and --local (--model-name says which of its models)")
	}
	from := sourcesOf(cmd)
	for _, name := range []string{"initial-peers", "adapter", "activations", "dtype", "quant", "prefill-chunk"} {
		if from[name] == fromFlag {
			return nil, wiring.Usagef("--url asks a running gateway, which decides about --%s itself: leave that out", name)
		}
	}
	return newGatewayClient(f.url, f.token, f.ask.Model.Name)
}

// answersOf is a bench.Ask: each request has a session of its own, and is greedy.
func answersOf(a *wiring.Asker, e *client.Engine, adapter string) bench.Ask {
	return func(ctx context.Context, prompt []int32, tokens int, piece func(ids int)) error {
		o := client.SessionOptions{MaxLength: len(prompt) + tokens, Prompt: len(prompt), Activations: a.Mode, PrefillChunk: a.Chunk, Adapter: adapter}
		s, err := e.Open(ctx, o)
		if err != nil {
			return err
		}
		defer s.Close()
		r := client.Request{Prompt: prompt, MaxNewTokens: tokens, IgnoreEOS: true, TopLogprobs: -1}
		_, err = s.Generate(ctx, r, func(d client.Delta) error {
			piece(len(d.IDs))
			return nil
		})
		return err
	}
}

// measure prints lines as they come, or one JSON object at the end.
func (f *servingFlags) measure(ctx context.Context, w *world, ask bench.Ask, out servingObject) error {
	if !f.json {
		fmt.Fprintf(w.out, "%s %s: prompts of %d, answers of %d tokens\n", out.Target, out.Model, out.Prompt, out.Tokens)
		fmt.Fprintf(w.out, "clients  done   failed  tok/s     first ms: median, p95  between ms: median, p95  batch  waited ms\n")
	}
	err := bench.MeasureServing(ctx, ask, f.load, func(l bench.Level) {
		out.Levels = append(out.Levels, l)
		if !f.json {
			printLevel(w.out, l)
		}
	})
	if ctx.Err() != nil {
		return wiring.ErrInterrupted
	}
	if err != nil {
		return wiring.Asked(err)
	}
	if f.load.Rounds > 1 {
		out.Multiples = bench.Multiples(out.Levels, len(f.load.Concurrency))
	}
	if f.json {
		return printJSON(w.out, out)
	}
	if f.load.Rounds > 1 {
		printMultiples(w.out, out.Multiples, f.load.Rounds)
	}
	return nil
}

func printMultiples(out io.Writer, list []bench.Multiple, rounds int) {
	fmt.Fprintf(out, "medians of %d rounds, each compared with %d at once in the same round\n", rounds, list[0].Concurrency)
	fmt.Fprintf(out, "clients  tok/s     times: median, least, most  between ms: median, p95\n")
	for _, m := range list {
		fmt.Fprintf(out, "%-7d  %-8.1f  %-27s  %s\n", m.Concurrency, m.TokS, fmt.Sprintf("%.2f, %.2f, %.2f", m.Of, m.Least, m.Most), spreadText(m.BetweenMS))
	}
}

func printLevel(out io.Writer, l bench.Level) {
	fmt.Fprintf(out, "%-7d  %-5d  %-6d  %-8.1f  %-21s  %-23s  %-5s  %s\n", l.Concurrency, l.Done, l.Failed, l.TokS, spreadText(l.FirstMS), spreadText(l.BetweenMS), meanText(l.Batch), meanText(l.WaitMS))
	if l.Failed > 0 {
		fmt.Fprintf(out, "note: %s\n", l.Error)
	}
	if cut := l.Requests - l.Done - l.Failed; cut > 0 {
		fmt.Fprintf(out, "note: --limit cut %d requests short\n", cut)
	}
}

func meanText(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func spreadText(s *bench.Spread) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f, %.1f", s.Median, s.P95)
}
