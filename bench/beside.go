package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// BesideOptions say what joins clients whose answers run on: others that are further away, a
// long prompt, or one who trains. Windows without and with them alternate under one and the same load, so that what
// the machine's speed does meanwhile cancels.
type BesideOptions struct {
	Clients int // whose answers run on, as Load says; Requests does not matter
	Load    ServingOptions
	Rounds  int           // pairs of windows
	Window  time.Duration // of each; one with a prompt lasts as long as that does
	Far     []Far         // one client more for each
	Prompt  int           // ids of the long prompt; 0: none
	Train   Train         // one batch after another; nil: nobody trains
}

// Train computes one batch forward and backward, and tells its rows.
type Train func(ctx context.Context) (rows int, err error)

// Far is how a client that is further away asks.
type Far struct {
	Delay time.Duration // each way
	Ask   Ask
}

// Pace is what clients got in windows of one kind: medians over the windows.
type Pace struct {
	TokS      float64 `json:"tok_s"`
	BetweenMS Spread  `json:"between_ms"`
}

// Beside is what came of it. Ratios are medians over the pairs of windows.
type Beside struct {
	Clients int  `json:"clients"`
	Without Pace `json:"without"`
	With    Pace `json:"with"`
	// Rate is what they have with the others over what they have without; P95 is the 95th percentile
	// of the time between tokens with them over the median without.
	Rate float64 `json:"rate"`
	P95  float64 `json:"p95"`
	// P95OfP95 is that 95th percentile over the one without them.
	P95OfP95 float64 `json:"p95_of_p95"`

	Far []FarPace `json:"far,omitempty"`
	// What the prompt took from sending to its first token, alone and beside them.
	PromptAloneMS *float64 `json:"prompt_alone_ms"`
	PromptMS      *float64 `json:"prompt_ms"`
	Prompt        *float64 `json:"prompt"` // the second over the first
	// Rows a second, forward and backward, of who trains, alone and beside them: of batches that ended
	// in a window.
	TrainAloneRowS *float64 `json:"train_alone_row_s"`
	TrainRowS      *float64 `json:"train_row_s"`
}

// FarPace is what one client further away got.
type FarPace struct {
	DelayMS float64 `json:"delay_ms"`
	Pace
}

// settle is how long a load runs before a window, so that a server knows its clients.
const settle = 300 * time.Millisecond

// Check refuses what cannot be measured.
func (o BesideOptions) Check() error {
	switch {
	case o.Clients < 1 || o.Clients > maxClients:
		return fmt.Errorf("%d clients: want 1 to %d", o.Clients, maxClients)
	case o.Rounds < 1:
		return fmt.Errorf("%d rounds: want at least 1", o.Rounds)
	case o.Window <= 0:
		return fmt.Errorf("windows of %v: want more than 0", o.Window)
	case o.Prompt < 0:
		return fmt.Errorf("a prompt of %d tokens beside them: want at least 1", o.Prompt)
	}
	joins := 0
	for _, is := range []bool{o.Prompt > 0, len(o.Far) > 0, o.Train != nil} {
		if is {
			joins++
		}
	}
	if joins != 1 {
		return errors.New("clients that are further away, a prompt or training: one of them")
	}
	for _, f := range o.Far {
		if f.Delay <= 0 || f.Delay > time.Minute {
			return fmt.Errorf("a client %v away: want more than 0 and at most a minute", f.Delay)
		}
	}
	return nil
}

// MeasureBeside runs the load and what joins it.
func MeasureBeside(ctx context.Context, ask Ask, o BesideOptions) (Beside, error) {
	if err := o.Check(); err != nil {
		return Beside{}, err
	}
	b := Beside{Clients: o.Clients}
	var alone []float64
	for range o.Rounds {
		if o.Prompt == 0 {
			break
		}
		took, err := o.prompt(ctx, ask)
		if err != nil {
			return b, err
		}
		alone = append(alone, took)
	}
	for range o.Rounds {
		if o.Train == nil {
			break
		}
		rate, err := o.train(ctx, func() error { return pause(ctx, o.Window) })
		if err != nil {
			return b, err
		}
		alone = append(alone, rate)
	}
	near := make([]steady, o.Clients)
	stop := o.start(ctx, ask, near, 0)
	defer stop()
	m := measured{far: make([][]Pace, len(o.Far))}
	for range o.Rounds {
		if err := o.round(ctx, ask, near, &m); err != nil {
			return b, err
		}
	}
	m.sum(&b, o.Far)
	if o.Prompt > 0 {
		a, w := Median(alone), Median(m.took)
		ratio := w / a
		b.PromptAloneMS, b.PromptMS, b.Prompt = &a, &w, &ratio
	}
	if o.Train != nil {
		a, w := Median(alone), Median(m.trained)
		b.TrainAloneRowS, b.TrainRowS = &a, &w
	}
	return b, nil
}

// measured is what windows showed.
type measured struct {
	without, with []Pace
	far           [][]Pace
	took          []float64 // by the prompt, in milliseconds
	trained       []float64 // rows a second
}

// round is one window without and one with the others.
func (o *BesideOptions) round(ctx context.Context, ask Ask, near []steady, m *measured) error {
	if err := ready(ctx, near); err != nil {
		return err
	}
	from := time.Now()
	if err := pause(ctx, o.Window); err != nil {
		return err
	}
	to := time.Now()
	m.without = append(m.without, paceOf(near, from, to))
	if o.Prompt > 0 {
		from = time.Now()
		took, err := o.prompt(ctx, ask)
		if err != nil {
			return err
		}
		m.with, m.took = append(m.with, paceOf(near, from, time.Now())), append(m.took, took)
		return nil
	}
	if o.Train != nil {
		rate, err := o.train(ctx, func() error {
			if err := pause(ctx, settle); err != nil {
				return err
			}
			from = time.Now()
			return pause(ctx, o.Window)
		})
		if err != nil {
			return err
		}
		m.with, m.trained = append(m.with, paceOf(near, from, from.Add(o.Window))), append(m.trained, rate)
		return nil
	}
	far := make([]steady, len(o.Far))
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for i, f := range o.Far {
		stops = append(stops, o.start(ctx, f.Ask, far[i:i+1], o.Clients+i))
	}
	if err := ready(ctx, far); err != nil {
		return err
	}
	from = time.Now()
	if err := pause(ctx, o.Window); err != nil {
		return err
	}
	to = time.Now()
	m.with = append(m.with, paceOf(near, from, to))
	for i := range far {
		m.far[i] = append(m.far[i], paceOf(far[i:i+1], from, to))
	}
	return nil
}

func (m *measured) sum(b *Beside, far []Far) {
	b.Without, b.With = medians(m.without), medians(m.with)
	var rates, p95, tails []float64
	for i := range m.with {
		if without := m.without[i]; without.TokS > 0 && without.BetweenMS.Median > 0 {
			rates = append(rates, m.with[i].TokS/without.TokS)
			p95 = append(p95, m.with[i].BetweenMS.P95/without.BetweenMS.Median)
			tails = append(tails, m.with[i].BetweenMS.P95/without.BetweenMS.P95)
		}
	}
	b.Rate, b.P95, b.P95OfP95 = Median(rates), Median(p95), Median(tails)
	for i, f := range far {
		b.Far = append(b.Far, FarPace{DelayMS: f.Delay.Seconds() * 1000, Pace: medians(m.far[i])})
	}
}

// prompt sends the long prompt and tells what its first token took, in milliseconds.
func (o *BesideOptions) prompt(ctx context.Context, ask Ask) (float64, error) {
	load := o.Load
	load.Prompt = o.Prompt
	start := time.Now()
	var first time.Duration
	err := ask(ctx, load.prompt(0, 1), 1, func(ids int) {
		if ids > 0 && first == 0 {
			first = time.Since(start)
		}
	})
	if err == nil && first == 0 {
		err = errors.New("the answer has no tokens")
	}
	if err != nil {
		return 0, fmt.Errorf("the prompt of %d tokens: %w", o.Prompt, err)
	}
	return first.Seconds() * 1000, nil
}

// train computes batches, one after another, as long as something else takes, and tells the rows a second of
// those that ended meanwhile.
func (o *BesideOptions) train(ctx context.Context, while func() error) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var rows atomic.Int64
	ended := make(chan error, 1)
	began := time.Now()
	go func() {
		for {
			n, err := o.Train(ctx)
			if err != nil {
				cancel() // nobody waits for what has failed
				ended <- err
				return
			}
			rows.Add(int64(n))
		}
	}()
	err := while()
	rate := float64(rows.Load()) / time.Since(began).Seconds()
	stopped := ctx.Err() == nil
	cancel()
	if failed := <-ended; !stopped {
		return 0, fmt.Errorf("training: %w", failed)
	}
	return rate, err
}

// start has clients ask for one answer after another until stop, which waits for their ends.
func (o *BesideOptions) start(ctx context.Context, ask Ask, clients []steady, first int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			c := &clients[i]
			for n := 0; ctx.Err() == nil; n++ {
				err := ask(ctx, o.Load.prompt(1+first+i, n), o.Load.Tokens, c.piece())
				if err != nil && ctx.Err() == nil {
					c.fail(err)
					return
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// ready returns when all clients have tokens, and the server has had time to know them.
func ready(ctx context.Context, clients []steady) error {
	for i := range clients {
		for {
			n, err := clients[i].state()
			if err != nil {
				return err
			}
			if n > 0 {
				break
			}
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return pause(ctx, settle)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// steady is a client whose answers run on.
type steady struct {
	mu    sync.Mutex // guards all below
	ticks []tick
	err   error
}

// tick is some tokens that came.
type tick struct {
	at  time.Time
	gap time.Duration // since the piece before; 0 for the first of an answer
	ids int
}

// piece is told of the tokens of one answer.
func (c *steady) piece() func(ids int) {
	last := time.Time{}
	return func(ids int) {
		if ids == 0 {
			return
		}
		now, gap := time.Now(), time.Duration(0)
		if !last.IsZero() {
			gap = now.Sub(last)
		}
		last = now
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ticks = append(c.ticks, tick{now, gap, ids})
	}
}

func (c *steady) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *steady) state() (ticks int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ticks), c.err
}

// paceOf is what clients got in a window.
func paceOf(clients []steady, from, to time.Time) (p Pace) {
	var gaps []time.Duration
	for i := range clients {
		c := &clients[i]
		c.mu.Lock()
		for _, t := range c.ticks {
			if !t.at.After(from) || t.at.After(to) {
				continue
			}
			p.TokS += float64(t.ids) / to.Sub(from).Seconds()
			if t.gap > 0 {
				gaps = append(gaps, t.gap)
			}
		}
		c.mu.Unlock()
	}
	if s := spread(gaps); s != nil {
		p.BetweenMS = *s
	}
	return p
}

// medians of windows.
func medians(list []Pace) Pace {
	of := func(value func(Pace) float64) float64 {
		var v []float64
		for _, p := range list {
			v = append(v, value(p))
		}
		return Median(v)
	}
	return Pace{of(func(p Pace) float64 { return p.TokS }), Spread{
		of(func(p Pace) float64 { return p.BetweenMS.Median }), of(func(p Pace) float64 { return p.BetweenMS.P95 }),
	}}
}
