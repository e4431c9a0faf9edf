package main

import (
	"context"
	"fmt"
	"io"

	"whorl/bench"
	"whorl/internal/wiring"
)

// besides are the options for one number of clients.
func (f *servingFlags) besides(clients int, far []bench.Far) bench.BesideOptions {
	return bench.BesideOptions{Clients: clients, Load: f.load, Rounds: f.load.Rounds, Window: f.window, Far: far, Prompt: f.prompt}
}

// checkBeside refuses what cannot be measured, before a model is opened.
func (f *servingFlags) checkBeside() error {
	var far []bench.Far
	for _, d := range f.far {
		far = append(far, bench.Far{Delay: d})
	}
	for _, n := range f.load.Concurrency {
		if err := f.besides(n, far).Check(); err != nil {
			return err
		}
	}
	return nil
}

// beside measures what clients get without and with others, for each number of them.
func (f *servingFlags) beside(ctx context.Context, w *world, ask bench.Ask, far []bench.Far, out servingObject) error {
	if !f.json {
		fmt.Fprintf(w.out, "%s %s: prompts of %d, answers of %d tokens; %d pairs of windows\n", out.Target, out.Model, out.Prompt, out.Tokens, f.load.Rounds)
	}
	for _, n := range f.load.Concurrency {
		b, err := bench.MeasureBeside(ctx, ask, f.besides(n, far))
		if ctx.Err() != nil {
			return wiring.ErrInterrupted
		}
		if err != nil {
			return wiring.Asked(err)
		}
		out.Beside = append(out.Beside, b)
		if !f.json {
			printBeside(w.out, b, f.prompt)
		}
	}
	if f.json {
		return printJSON(w.out, out)
	}
	return nil
}

func printBeside(out io.Writer, b bench.Beside, prompt int) {
	line := func(who string, p bench.Pace) {
		fmt.Fprintf(out, "  %-22s  %-8.1f  %s\n", who, p.TokS, spreadText(&p.BetweenMS))
	}
	fmt.Fprintf(out, "%-22s    tok/s     between ms: median, p95\n", fmt.Sprintf("%d clients", b.Clients))
	line("alone", b.Without)
	if prompt > 0 {
		line(fmt.Sprintf("beside a prompt of %d", prompt), b.With)
	} else {
		line("with those further away", b.With)
	}
	for _, p := range b.Far {
		line(fmt.Sprintf("%g ms each way", p.DelayMS), p.Pace)
	}
	fmt.Fprintf(out, "  they keep %.2f of their rate; p95 is %.2f times the median alone", b.Rate, b.P95)
	if b.Prompt != nil {
		fmt.Fprintf(out, "; the prompt takes %.0f ms, %.2f times its %.0f alone", *b.PromptMS, *b.Prompt, *b.PromptAloneMS)
	}
	fmt.Fprintln(out)
}
