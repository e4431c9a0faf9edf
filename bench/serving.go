package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Ask sends one request and waits for the answer: so many tokens, whatever they are. piece
// is told of ids as they come, by the goroutine that called.
type Ask func(ctx context.Context, prompt []int32, tokens int, piece func(ids int)) error

// ServingOptions say what load to make. At each level so many clients send Requests requests
// each, one after another: a closed loop, so that a slow server is not buried.
type ServingOptions struct {
	Concurrency []int
	Requests    int
	Rounds      int           // how often all levels are measured, in turns; 0: once
	Prompt      int           // ids of a prompt; they differ from request to request
	Tokens      int           // of an answer
	Vocab       int           // ids of prompts are below
	Limit       time.Duration // of one level: what runs then is cut
	// Iterations counts what servers computed so far; nil: that cannot be known from here.
	Iterations func(ctx context.Context) (Iterations, error)
}

// Iterations are counters of servers, all added up.
type Iterations struct {
	Steps, Sessions float64 // iterations, and the sessions that had rows in them
	Waited          float64 // seconds that iterations waited for rows while others were ready
}

// maxClients bounds a level.
const maxClients = 4096

// Check refuses what cannot be measured.
func (o ServingOptions) Check() error {
	switch {
	case len(o.Concurrency) == 0:
		return errors.New("no number of clients")
	case o.Requests < 1:
		return fmt.Errorf("%d requests of each client: want at least 1", o.Requests)
	case o.Rounds < 0:
		return fmt.Errorf("%d rounds: want at least 1", o.Rounds)
	case o.Prompt < 1:
		return fmt.Errorf("prompts of %d tokens: want at least 1", o.Prompt)
	case o.Tokens < 1:
		return fmt.Errorf("answers of %d tokens: want at least 1", o.Tokens)
	case o.Limit <= 0:
		return fmt.Errorf("a limit of %v: want more than 0", o.Limit)
	}
	for _, n := range o.Concurrency {
		if n < 1 || n > maxClients {
			return fmt.Errorf("%d clients: want 1 to %d", n, maxClients)
		}
	}
	return nil
}

// Spread of times in milliseconds.
type Spread struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

// Level is what one number of clients got. A nil could not be measured.
type Level struct {
	Concurrency int     `json:"concurrency"`
	Requests    int     `json:"requests"` // that were sent: Done, Failed, and those that the limit cut
	Done        int     `json:"done"`
	Failed      int     `json:"failed"`
	Tokens      int     `json:"tokens"` // of all answers, unfinished ones too
	Seconds     float64 `json:"seconds"`
	TokS        float64 `json:"tok_s"` // Tokens over Seconds, prompts and waiting included
	// FirstMS is from sending a request to its first token, BetweenMS from one piece of an
	// answer to the next: a piece is a token, where the server does not join some.
	FirstMS   *Spread `json:"first_ms"`
	BetweenMS *Spread `json:"between_ms"`
	// Batch is how many sessions shared an iteration of the servers, WaitMS how long one
	// waited for rows while others were ready; means.
	Batch  *float64 `json:"batch"`
	WaitMS *float64 `json:"wait_ms"`
	Error  string   `json:"error,omitempty"` // the first failure
}

// MeasureServing asks once to see that it works, and then makes each level of load in turn, as
// often as there are rounds. emit sees levels as they end.
func MeasureServing(ctx context.Context, ask Ask, o ServingOptions, emit func(Level)) error {
	if err := o.Check(); err != nil {
		return err
	}
	first, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	if err := ask(first, o.prompt(0, 0), 1, func(int) {}); err != nil {
		return fmt.Errorf("first request: %w", err)
	}
	for range max(o.Rounds, 1) {
		if err := o.measureRound(ctx, ask, emit); err != nil {
			return err
		}
	}
	return nil
}

func (o *ServingOptions) measureRound(ctx context.Context, ask Ask, emit func(Level)) error {
	for _, n := range o.Concurrency {
		before, err := o.iterations(ctx)
		if err != nil {
			return err
		}
		l := o.level(ctx, ask, n)
		if err := ctx.Err(); err != nil {
			return err
		}
		after, err := o.iterations(ctx)
		if err != nil {
			return err
		}
		l.shared(before, after)
		if emit(l); l.Done == 0 && l.Failed > 0 {
			return fmt.Errorf("%d clients: every request failed: %s", n, l.Error)
		}
	}
	return nil
}

func (o *ServingOptions) iterations(ctx context.Context) (Iterations, error) {
	if o.Iterations == nil {
		return Iterations{}, nil
	}
	return o.Iterations(ctx)
}

// shared notes how clients shared the iterations between two counts.
func (l *Level) shared(before, after Iterations) {
	steps := after.Steps - before.Steps
	if steps <= 0 {
		return
	}
	batch, wait := (after.Sessions-before.Sessions)/steps, (after.Waited-before.Waited)/steps*1000
	l.Batch, l.WaitMS = &batch, &wait
}

// prompt makes the ids of a request, always the same ones.
func (o *ServingOptions) prompt(client, request int) []int32 {
	rng := rand.New(rand.NewPCG(uint64(client), uint64(request)))
	ids := make([]int32, o.Prompt)
	for i := range ids {
		ids[i] = rng.Int32N(int32(max(1, o.Vocab)))
	}
	return ids
}

// record is what one client saw.
type record struct {
	sent, done, failed, tokens int
	first, between             []time.Duration
	err                        error // the first
}

// level runs n clients to their ends.
func (o *ServingOptions) level(ctx context.Context, ask Ask, n int) Level {
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	records := make([]record, n)
	start := time.Now()
	var clients sync.WaitGroup
	for c := range records {
		clients.Go(func() {
			for i := 0; i < o.Requests && ctx.Err() == nil; i++ {
				records[c].ask(ctx, ask, o.prompt(c+1, i), o.Tokens)
			}
		})
	}
	clients.Wait()
	return sum(records, time.Since(start))
}

// ask sends one request and notes what comes when.
func (r *record) ask(ctx context.Context, ask Ask, prompt []int32, tokens int) {
	r.sent++
	sent := time.Now()
	last := time.Time{}
	err := ask(ctx, prompt, tokens, func(ids int) {
		if ids == 0 {
			return
		}
		now := time.Now()
		if last.IsZero() {
			r.first = append(r.first, now.Sub(sent))
		} else {
			r.between = append(r.between, now.Sub(last))
		}
		last, r.tokens = now, r.tokens+ids
	})
	switch {
	case err == nil && last.IsZero():
		err = errors.New("the answer has no tokens")
	case err == nil:
		r.done++
		return
	case ctx.Err() != nil: // cut, which is nobody's failure
		return
	}
	if r.failed++; r.err == nil {
		r.err = err
	}
}

func sum(records []record, took time.Duration) Level {
	l := Level{Concurrency: len(records), Seconds: took.Seconds()}
	var first, between []time.Duration
	for _, r := range records {
		l.Requests += r.sent
		l.Done += r.done
		l.Failed += r.failed
		l.Tokens += r.tokens
		first, between = append(first, r.first...), append(between, r.between...)
		if r.err != nil && l.Error == "" {
			l.Error = r.err.Error()
		}
	}
	if l.Seconds > 0 {
		l.TokS = float64(l.Tokens) / l.Seconds
	}
	l.FirstMS, l.BetweenMS = spread(first), spread(between)
	return l
}

// spread gives median and 95th percentile, as the smallest value that so many reach; nil for
// no values.
func spread(d []time.Duration) *Spread {
	if len(d) == 0 {
		return nil
	}
	slices.Sort(d)
	at := func(share float64) float64 {
		return d[int(math.Ceil(share*float64(len(d))))-1].Seconds() * 1000
	}
	return &Spread{Median: at(0.5), P95: at(0.95)}
}
