package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"whorl/bench"
	"whorl/client"
	"whorl/internal/wiring"
	"whorl/swarm"
)

// besides are the options for one number of clients.
func (f *servingFlags) besides(clients int, far []bench.Far, train bench.Train) bench.BesideOptions {
	return bench.BesideOptions{Clients: clients, Load: f.load, Rounds: f.load.Rounds, Window: f.window, Far: far, Prompt: f.prompt, Train: train}
}

// checkBeside refuses what cannot be measured, before a model is opened.
func (f *servingFlags) checkBeside() error {
	var far []bench.Far
	for _, d := range f.far {
		far = append(far, bench.Far{Delay: d})
	}
	var train bench.Train
	if f.train > 0 {
		train = func(context.Context) (int, error) { return 0, nil }
	}
	for _, n := range f.load.Concurrency {
		if err := f.besides(n, far, train).Check(); err != nil {
			return err
		}
	}
	return nil
}

// beside measures what clients get without and with others, for each number of them.
func (f *servingFlags) beside(ctx context.Context, w *world, ask bench.Ask, far []bench.Far, train bench.Train, out servingObject) error {
	if !f.json {
		fmt.Fprintf(w.out, "%s %s: prompts of %d, answers of %d tokens; %d pairs of windows\n", out.Target, out.Model, out.Prompt, out.Tokens, f.load.Rounds)
	}
	for _, n := range f.load.Concurrency {
		b, err := bench.MeasureBeside(ctx, ask, f.besides(n, far, train))
		if ctx.Err() != nil {
			return wiring.ErrInterrupted
		}
		if err != nil {
			return wiring.Asked(err)
		}
		out.Beside = append(out.Beside, b)
		if !f.json {
			printBeside(w.out, b, f.prompt, f.train)
		}
	}
	if f.json {
		return printJSON(w.out, out)
	}
	return nil
}

func printBeside(out io.Writer, b bench.Beside, prompt, train int) {
	line := func(who string, p bench.Pace) {
		fmt.Fprintf(out, "  %-22s  %-8.1f  %s\n", who, p.TokS, spreadText(&p.BetweenMS))
	}
	fmt.Fprintf(out, "%-22s    tok/s     between ms: median, p95\n", fmt.Sprintf("%d clients", b.Clients))
	line("alone", b.Without)
	switch {
	case prompt > 0:
		line(fmt.Sprintf("beside a prompt of %d", prompt), b.With)
	case train > 0:
		line(fmt.Sprintf("beside batches of %d", train), b.With)
	default:
		line("with those further away", b.With)
	}
	for _, p := range b.Far {
		line(fmt.Sprintf("%g ms each way", p.DelayMS), p.Pace)
	}
	fmt.Fprintf(out, "  they keep %.2f of their rate; p95 is %.2f times the median alone", b.Rate, b.P95)
	if b.TrainRowS != nil {
		fmt.Fprintf(out, " and %.2f times its p95; training has %.1f rows/s, %.1f alone", b.P95OfP95, *b.TrainRowS, *b.TrainAloneRowS)
	}
	if b.Prompt != nil {
		fmt.Fprintf(out, "; the prompt takes %.0f ms, %.2f times its %.0f alone", *b.PromptMS, *b.Prompt, *b.PromptAloneMS)
	}
	fmt.Fprintln(out)
}

// trainRows is how long the sequences of a batch are that is trained beside answers: as short texts are.
const trainRows = 32

// training computes batches of so many rows forward and backward through all blocks, as `whorl tune` has them computed.
func training(a *wiring.Asker, rows int) (bench.Train, error) {
	m := a.Engine.Model()
	remote, err := a.Engine.Remote(swarm.Span{Start: 0, End: m.Manifest.Blocks}, client.RemoteOptions{})
	if err != nil {
		return nil, err
	}
	batch, rng := &client.Batch{Rows: make([]float32, rows*m.Manifest.Hidden)}, rand.New(rand.NewPCG(1, 1))
	ids := make([]int32, rows)
	for i := range ids {
		ids[i] = rng.Int32N(int32(m.Vocab))
	}
	if err := a.Model.Head.Embed(batch.Rows, ids); err != nil {
		return nil, err
	}
	for left := rows; left > 0; left -= trainRows {
		batch.Lengths = append(batch.Lengths, min(left, trainRows))
	}
	return func(ctx context.Context) (int, error) {
		f, err := remote.Forward(ctx, batch)
		if err != nil {
			return 0, err
		}
		_, _, err = f.Backward(ctx, f.Outputs)
		return rows, err
	}, nil
}
