package wiring

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

// AskOptions are those of commands that ask a model something: in this process or through a
// Swarm.
type AskOptions struct {
	Swarm        SwarmOptions
	Model        ModelOptions
	Compute      ComputeOptions
	Local        bool
	Adapter      string
	PromptTuning string
	Activations  string
	Residual     string
	Chunk        int
	Receipts     bool // only where a command offers it
	Verify       int  // likewise
	Audit        bool // likewise
	StepTime     time.Duration
	Beside       int // positions of a second session that each answer takes
}

func errVerify(n int) error {
	return Usagef("--verify %d: want 1 to %d", n, client.MaxVerify)
}

// check refuses wrong values before anything is opened.
func (f *AskOptions) check(given given, args []string) (tensor.Activations, error) {
	mode, err := tensor.ParseActivations(f.Activations)
	if err != nil {
		return 0, Usagef("--activations: %w", err)
	}
	if _, err := tensor.ParseResidual(f.Residual); err != nil {
		return 0, Usagef("--residual: %w", err)
	}
	if args, err = f.Swarm.accept(given, &f.Model, &f.Residual, args); err != nil {
		return 0, err
	}
	peers := given("initial-peers") || len(f.Swarm.InitialPeers) > 0
	switch {
	case !f.Local && !peers:
		return 0, Usagef("nowhere to compute: give --local for this process, or --initial-peers ADDR for a swarm")
	case !f.Local && len(f.Swarm.InitialPeers) == 0:
		return 0, Usagef("--initial-peers is empty: name a peer, or give --local to compute in this process")
	case f.Local && f.Receipts:
		return 0, Usagef("--receipts has servers sign what they compute, and with --local there are none: give --initial-peers ADDR")
	case f.Local && f.Verify > 1:
		return 0, Usagef("--verify %d compares what several servers compute, and with --local there are none: give --initial-peers ADDR", f.Verify)
	case f.Verify < 0 || f.Verify > client.MaxVerify:
		return 0, errVerify(f.Verify)
	case f.Local && f.Audit:
		return 0, Usagef("--audit has other servers compute the answer again, and with --local there are none: give --initial-peers ADDR")
	case f.Chunk < 0:
		return 0, Usagef("--prefill-chunk %d: want 0 or more", f.Chunk)
	case f.StepTime <= 0:
		return 0, Usagef("--step-deadline %v: want more than 0", f.StepTime)
	}
	if !f.Local {
		if err := f.Swarm.check(); err != nil {
			return 0, err
		}
	}
	return mode, f.Model.Take(args, false)
}

// LocalPatience is how long a local run waits for one step: as good as for ever.
const LocalPatience = 24 * time.Hour

// Asker is a model with somewhere to compute it.
type Asker struct {
	Model        *Model
	Tokenizer    *tokenizer.Tokenizer // nil: none, and tokErr may say why
	TokenizerErr error
	Engine       *client.Engine // after connect
	how          client.Config  // that it was made with; the model's part is missing
	Local        *LocalSwarm    // after connect; nil if others are asked
	choosable    bool           // the class of the swarm may be taken
	Mode         tensor.Activations
	Chunk        int
	net          *network // nil before it is joined
	book         *trust.Book
	closers      []io.Closer // in the order they were made
}

// Open opens the model and its tokenizer; nothing is computed or joined yet.
func (f *AskOptions) Open(ctx context.Context, given given, args []string) (*Asker, error) {
	mode, err := f.check(given, args)
	if err != nil {
		return nil, err
	}
	a := &Asker{choosable: f.Model.choosable(given), Mode: mode, Chunk: f.Chunk, book: trust.NewBook(trust.DefaultParams())}
	if err := f.openModel(ctx, a); err != nil {
		a.Close()
		return nil, err
	}
	m := a.Model
	a.Tokenizer, a.TokenizerErr = m.Tokenizer()
	if a.Tokenizer == nil && a.TokenizerErr == nil {
		a.TokenizerErr = client.ErrNoTokenizer
	}
	return a, nil
}

// openModel opens the model's files, or fetches what an asker needs of them from the swarm.
func (f *AskOptions) openModel(ctx context.Context, a *Asker) (err error) {
	if !f.Model.Peers || f.Local {
		if f.Model.Peers { // --local beside an invitation: all of it is fetched from the hub
			if f.Model.Path = f.Model.Place; f.Model.Path == "" {
				return Usagef("--local computes here, and %s is at no hub: give the path of its files behind the invitation", f.Model.Name)
			}
		}
		if a.Model, err = f.Model.Open(ctx, &f.Compute); err == nil {
			a.closers = append(a.closers, a.Model)
		}
		return err
	}
	if a.net, err = f.Swarm.start(ctx); err != nil {
		return err
	}
	a.closers = append(a.closers, a.net)
	uid := swarm.UID(f.Model.invited)
	patience := askPatience
	if f.Model.hasHub() {
		patience = hubPatience
	}
	client, err := a.net.shareClient(f.Swarm.Swarm, a.book, func() swarm.UID { return uid }, patience, nil, nil)
	if err != nil {
		return err
	}
	known, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if _, err := a.net.manifest(known, uid, f.Model.Name); err != nil {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		return fmt.Errorf("no server of %s is known in the swarm: try again when one is there: %w", f.Model.Name, err)
	}
	if a.Model, err = f.Model.openPeers(ctx, &f.Compute, a.net, client, a.choosable); err != nil {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		return err
	}
	a.closers = append(a.closers, a.Model)
	return nil
}

// OpenAdapter gives the name under which sessions ask for the adapter; "" for none. A local
// run opens it, before it connects.
func (f *AskOptions) OpenAdapter(ctx context.Context, a *Asker) (string, error) {
	if !f.Local || f.Adapter == "" {
		return f.Adapter, nil
	}
	return f.Model.openAdapters(ctx, a.Model, "--adapter", []string{f.Adapter})
}

// Session makes the engine and opens a session of up to length tokens in each of so many
// beams.
func (f *AskOptions) Session(ctx context.Context, a *Asker, length, beams int) (*client.Session, error) {
	prompts, tuned, err := f.tuning(a)
	if err != nil {
		return nil, err
	}
	adapter, err := f.OpenAdapter(ctx, a)
	if err != nil {
		return nil, err
	}
	rows := 0
	if prompts != nil {
		rows = prompts.Tokens
	}
	if f.Beside > 0 {
		f.Beside += rows // in front of everything
	}
	if err := f.Connect(ctx, a, length+rows, beams); err != nil {
		return nil, err
	}
	if tuned != nil {
		if text := tuned.Other(a.Engine.Model().UID); text != "" {
			slog.Warn(text)
		}
	}
	s, err := a.Engine.Open(ctx, client.SessionOptions{MaxLength: length, Beams: beams, Activations: a.Mode, PrefillChunk: a.Chunk, Adapter: adapter, Prompts: prompts, Receipts: f.Receipts, Verify: f.Verify, Audit: f.Audit})
	if err != nil && ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	return s, Asked(err)
}

// Connect makes the engine, for sessions of up to length tokens in each of so many beams.
func (f *AskOptions) Connect(ctx context.Context, a *Asker, length, beams int) error {
	longest := a.Model.Checkpoint.Config.LongestSession()
	if length > longest {
		return Usagef("prompt and answer take %d tokens, and %s holds at most %d: shorten the prompt or ask for fewer tokens", length, a.Model.Name, longest)
	}
	if f.Beside > longest {
		return Usagef("negative prompt and answer take %d tokens, and %s holds at most %d: shorten the negative prompt or ask for fewer tokens", f.Beside, a.Model.Name, longest)
	}
	if f.Beside > 0 {
		length, beams = max(length, f.Beside), 2*beams
	}
	cfg := client.DefaultConfig()
	cfg.EOS, cfg.Timeouts.Step = a.Model.Checkpoint.EOS(), f.StepTime
	if f.Local {
		l, err := startLocal(ctx, a.Model, length, beams)
		if err != nil {
			return err
		}
		a.closers, a.Local = append(a.closers, l), l
		cfg.Directory, cfg.Dialer = &l.dir, &l.dial
		// There is nobody else to ask: a slow machine is waited for.
		cfg.Timeouts.Step = LocalPatience
		cfg.RTT = func(swarm.PeerID) (time.Duration, bool) { return 0, true }
	} else {
		n := a.net
		if n == nil {
			var err error
			if n, err = f.Swarm.start(ctx); err != nil {
				return err
			}
			a.closers = append(a.closers, n)
		}
		how := settling{invited: f.Model.invited, choosable: a.choosable, block: -1}
		if err := a.Model.settle(ctx, n.Directory, how); err != nil {
			return err
		}
		cfg.Directory, cfg.Dialer, cfg.RTT, cfg.Trust, cfg.Prefix = n.Directory, n.host, n.host.RTT, a.book, n.prefix
	}
	var err error
	cfg.Residual, _ = tensor.ParseResidual(f.Residual) // check has read it
	a.how = cfg
	a.Engine, err = a.Model.engine(ctx, a.Tokenizer, cfg)
	return err
}

// Far is an engine like that of connect, whose streams take so much longer each way.
func (a *Asker) Far(delay time.Duration) (*client.Engine, error) {
	cfg := a.Model.asks(a.Tokenizer, a.how)
	cfg.Dialer = farDialer{cfg.Dialer, delay}
	return client.New(cfg)
}

// Close ends everything, last made first.
func (a *Asker) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i].Close())
	}
	return errors.Join(errs...)
}

// Asked marks errors that lie in what was asked as wrong use.
func Asked(err error) error {
	if err != nil && swarm.AsError(err).Verdict == swarm.Caller {
		return Usage(err)
	}
	return err
}

// tuning reads the folder of --prompt-tuning; nil if there is none.
func (f *AskOptions) tuning(a *Asker) (*client.Prompts, *Tuning, error) {
	if f.PromptTuning == "" {
		return nil, nil, nil
	}
	t, err := OpenTuning(f.PromptTuning, a.Model)
	if err != nil {
		return nil, nil, err
	}
	if err := f.With(t); err != nil {
		return nil, nil, err
	}
	p, err := t.prompts()
	return p, t, err
}

// With has prompts used with the adapter that they were trained with, unless one is asked for.
func (f *AskOptions) With(t *Tuning) error {
	switch {
	case t.Adapter == "" || f.Adapter != "":
	case f.Local:
		return Usagef("--prompt-tuning %s was trained with the adapter %.80s: give the folder of that as --adapter", t.Name, t.Adapter)
	default:
		f.Adapter = t.Adapter
	}
	return nil
}
