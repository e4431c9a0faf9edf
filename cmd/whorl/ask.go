package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"whorl/client"
	"whorl/model/tokenizer"
	"whorl/swarm"
	"whorl/swarm/trust"
	"whorl/tensor"
)

// askFlags are those of commands that ask a model something: in this process or through a
// swarm.
type askFlags struct {
	swarm        swarmFlags
	model        modelFlags
	compute      computeFlags
	local        bool
	adapter      string
	promptTuning string
	activations  string
	residual     string
	chunk        int
	receipts     bool // only where a command offers it
	verify       int  // likewise
	audit        bool // likewise
	stepTime     time.Duration
}

func errVerify(n int) error {
	return usagef("--verify %d: want 1 to %d", n, client.MaxVerify)
}

// check refuses wrong values before anything is opened.
func (f *askFlags) check(given given, args []string) (tensor.Activations, error) {
	mode, err := tensor.ParseActivations(f.activations)
	if err != nil {
		return 0, usagef("--activations: %w", err)
	}
	if _, err := tensor.ParseResidual(f.residual); err != nil {
		return 0, usagef("--residual: %w", err)
	}
	if args, err = f.swarm.accept(given, &f.model, args); err != nil {
		return 0, err
	}
	peers := given("initial-peers") || len(f.swarm.initialPeers) > 0
	switch {
	case !f.local && !peers:
		return 0, usagef("nowhere to compute: give --local for this process, or --initial-peers ADDR for a swarm")
	case !f.local && len(f.swarm.initialPeers) == 0:
		return 0, usagef("--initial-peers is empty: name a peer, or give --local to compute in this process")
	case f.local && f.receipts:
		return 0, usagef("--receipts has servers sign what they compute, and with --local there are none: give --initial-peers ADDR")
	case f.local && f.verify > 1:
		return 0, usagef("--verify %d compares what several servers compute, and with --local there are none: give --initial-peers ADDR", f.verify)
	case f.verify < 0 || f.verify > client.MaxVerify:
		return 0, errVerify(f.verify)
	case f.local && f.audit:
		return 0, usagef("--audit has other servers compute the answer again, and with --local there are none: give --initial-peers ADDR")
	case f.chunk < 0:
		return 0, usagef("--prefill-chunk %d: want 0 or more", f.chunk)
	case f.stepTime <= 0:
		return 0, usagef("--step-deadline %v: want more than 0", f.stepTime)
	}
	if !f.local {
		if err := f.swarm.check(); err != nil {
			return 0, err
		}
	}
	return mode, f.model.take(args, false)
}

// localPatience is how long a local run waits for one step: as good as for ever.
const localPatience = 24 * time.Hour

// asker is a model with somewhere to compute it.
type asker struct {
	model     *openModel
	tok       *tokenizer.Tokenizer // nil: none, and tokErr may say why
	tokErr    error
	engine    *client.Engine // after connect
	how       client.Config  // that it was made with; the model's part is missing
	local     *localSwarm    // after connect; nil if others are asked
	choosable bool           // the class of the swarm may be taken
	mode      tensor.Activations
	chunk     int
	net       *network // nil before it is joined
	book      *trust.Book
	closers   []io.Closer // in the order they were made
}

// open opens the model and its tokenizer; nothing is computed or joined yet.
func (f *askFlags) open(ctx context.Context, given given, args []string) (*asker, error) {
	mode, err := f.check(given, args)
	if err != nil {
		return nil, err
	}
	a := &asker{choosable: f.model.choosable(given), mode: mode, chunk: f.chunk, book: trust.NewBook(trust.DefaultParams())}
	if err := f.openModel(ctx, a); err != nil {
		a.Close()
		return nil, err
	}
	m := a.model
	a.tok, a.tokErr = m.tokenizer()
	if a.tok == nil && a.tokErr == nil {
		a.tokErr = client.ErrNoTokenizer
	}
	return a, nil
}

// openModel opens the model's files, or fetches what an asker needs of them from the swarm.
func (f *askFlags) openModel(ctx context.Context, a *asker) (err error) {
	if !f.model.peers || f.local {
		if f.model.peers { // --local beside an invitation: all of it is fetched from the hub
			if f.model.path = f.model.place; f.model.path == "" {
				return usagef("--local computes here, and %s is at no hub: give the path of its files behind the invitation", f.model.name)
			}
		}
		if a.model, err = f.model.open(ctx, &f.compute); err == nil {
			a.closers = append(a.closers, a.model)
		}
		return err
	}
	if a.net, err = f.swarm.start(ctx); err != nil {
		return err
	}
	a.closers = append(a.closers, a.net)
	uid := swarm.UID(f.model.invited)
	patience := askPatience
	if f.model.hasHub() {
		patience = hubPatience
	}
	client, err := a.net.shareClient(f.swarm.swarm, a.book, func() swarm.UID { return uid }, patience, nil, nil)
	if err != nil {
		return err
	}
	known, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if _, err := a.net.manifest(known, uid, f.model.name); err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return fmt.Errorf("no server of %s is known in the swarm: try again when one is there: %w", f.model.name, err)
	}
	if a.model, err = f.model.openPeers(ctx, &f.compute, a.net, client, a.choosable); err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	a.closers = append(a.closers, a.model)
	return nil
}

// openAdapter gives the name under which sessions ask for the adapter; "" for none. A local
// run opens it, before it connects.
func (f *askFlags) openAdapter(ctx context.Context, a *asker) (string, error) {
	if !f.local || f.adapter == "" {
		return f.adapter, nil
	}
	return f.model.openAdapters(ctx, a.model, "--adapter", []string{f.adapter})
}

// session makes the engine and opens a session of up to length tokens in each of so many
// beams.
func (f *askFlags) session(ctx context.Context, a *asker, length, beams int) (*client.Session, error) {
	adapter, err := f.openAdapter(ctx, a)
	if err != nil {
		return nil, err
	}
	prompts, tuned, err := f.tuning(a)
	if err != nil {
		return nil, err
	}
	rows := 0
	if prompts != nil {
		rows = prompts.Tokens
	}
	if err := f.connect(ctx, a, length+rows, beams); err != nil {
		return nil, err
	}
	if tuned != nil {
		if text := tuned.other(a.engine.Model().UID); text != "" {
			slog.Warn(text)
		}
	}
	s, err := a.engine.Open(ctx, client.SessionOptions{MaxLength: length, Beams: beams, Activations: a.mode, PrefillChunk: a.chunk, Adapter: adapter, Prompts: prompts, Receipts: f.receipts, Verify: f.verify, Audit: f.audit})
	if err != nil && ctx.Err() != nil {
		return nil, errInterrupted
	}
	return s, asked(err)
}

// connect makes the engine, for sessions of up to length tokens in each of so many beams.
func (f *askFlags) connect(ctx context.Context, a *asker, length, beams int) error {
	if longest := a.model.ck.Config.LongestSession(); length > longest {
		return usagef("prompt and answer take %d tokens, and %s holds at most %d: shorten the prompt or ask for fewer tokens", length, a.model.name, longest)
	}
	cfg := client.DefaultConfig()
	cfg.EOS, cfg.Timeouts.Step = a.model.ck.EOS(), f.stepTime
	if f.local {
		l, err := startLocal(ctx, a.model, length, beams)
		if err != nil {
			return err
		}
		a.closers, a.local = append(a.closers, l), l
		cfg.Directory, cfg.Dialer = &l.dir, &l.dial
		// There is nobody else to ask: a slow machine is waited for.
		cfg.Timeouts.Step = localPatience
		cfg.RTT = func(swarm.PeerID) (time.Duration, bool) { return 0, true }
	} else {
		n := a.net
		if n == nil {
			var err error
			if n, err = f.swarm.start(ctx); err != nil {
				return err
			}
			a.closers = append(a.closers, n)
		}
		how := settling{invited: f.model.invited, choosable: a.choosable, block: -1}
		if err := a.model.settle(ctx, n.dir, how); err != nil {
			return err
		}
		cfg.Directory, cfg.Dialer, cfg.RTT, cfg.Trust, cfg.Prefix = n.dir, n.host, n.host.RTT, a.book, n.prefix
	}
	var err error
	cfg.Residual, _ = tensor.ParseResidual(f.residual) // check has read it
	a.how = cfg
	a.engine, err = a.model.engine(ctx, a.tok, cfg)
	return err
}

// far is an engine like that of connect, whose streams take so much longer each way.
func (a *asker) far(delay time.Duration) (*client.Engine, error) {
	cfg := a.model.asks(a.tok, a.how)
	cfg.Dialer = farDialer{cfg.Dialer, delay}
	return client.New(cfg)
}

// Close ends everything, last made first.
func (a *asker) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i].Close())
	}
	return errors.Join(errs...)
}

// asked marks errors that lie in what was asked as wrong use.
func asked(err error) error {
	if err != nil && swarm.AsError(err).Verdict == swarm.Caller {
		return usage(err)
	}
	return err
}

// tuning reads the folder of --prompt-tuning; nil if there is none.
func (f *askFlags) tuning(a *asker) (*client.Prompts, *tuningOf, error) {
	if f.promptTuning == "" {
		return nil, nil, nil
	}
	t, err := openTuning(f.promptTuning, a.model)
	if err != nil {
		return nil, nil, err
	}
	p, err := t.prompts()
	return p, t, err
}
