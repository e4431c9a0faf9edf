package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/client"
	"whorl/client/train"
	"whorl/internal/atomicfile"
	"whorl/internal/wiring"
	"whorl/swarm"
)

// tuneFlags are those of `whorl tune`.
type tuneFlags struct {
	ask       wiring.AskOptions
	data      string
	eval      string
	out       string
	opt       train.Options
	task      string
	schedule  string
	maxTokens int
	save      time.Duration
	limit     time.Duration
	patience  time.Duration
	fresh     bool
	asJSON    bool
}

func newTune(w *world) *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune MODEL --data FILE --out DIR",
		Short: "Train prompts on a frozen model, through the swarm or here",
		Long: `Train a few rows that go in front of every text (--prompt-tokens), with --deep also rows that are
added in front of every block, so that the model learns a task from examples. Its weights
stay as they are, on the servers; gradients flow through them, and what is learnt stays here.

--task causal learns to go on with texts: lines of {"prompt": ..., "completion": ...}, of
which the completion is learnt, or of {"text": ...}. --task classify learns to tell labels of
texts, with a linear classifier: lines of {"text": ..., "label": ...}.

--out is a folder: what was learnt in the layout of the PEFT library, a model card, and a
checkpoint, from which the same command goes on, also after Ctrl-C. The same data, options and
seed give the same bits on any number of servers, interrupted or not.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, w, args) },
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *tuneFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.ask.Local, "local", false, "compute in this process, without a network")
	addSwarm(fs, &f.ask.Swarm)
	addModel(fs, &f.ask.Model)
	addCompute(fs, &f.ask.Compute)
	addAdapter(fs, &f.ask.Adapter)
	f.ask.StepTime = client.DefaultTimeouts().Step
	fs.StringVar(&f.data, "data", "", "examples: a `FILE` of JSON objects, one a line")
	fs.StringVar(&f.eval, "eval", "", "examples that are not learnt from: a `FILE` like that of --data; loss and accuracy on it are told after each epoch")
	fs.StringVar(&f.out, "out", "", "`DIR` for what is learnt and for checkpoints")
	choiceVar(fs, &f.task, "task", string(train.Causal), train.Tasks(), "what is learnt")
	fs.IntVar(&f.opt.Tokens, "prompt-tokens", 8, "rows of prompts")
	fs.BoolVar(&f.opt.Deep, "deep", false, "prompts in front of every block too")
	fs.IntVar(&f.opt.Epochs, "epochs", 3, "how often all examples are learnt from")
	fs.Float64Var(&f.opt.Rate, "lr", 1e-2, "learning rate of AdamW")
	fs.IntVar(&f.opt.Batch, "batch", 16, "examples that are computed at once")
	fs.IntVar(&f.opt.Accumulate, "accumulate", 1, "batches per step of the optimizer")
	fs.IntVar(&f.opt.Warmup, "warmup", 0, "steps in which the learning rate rises")
	choiceVar(fs, &f.schedule, "schedule", string(train.Linear), train.Schedules(), "how the learning rate goes on")
	fs.Float64Var(&f.opt.Decay, "weight-decay", 0, "of AdamW")
	fs.Float64Var(&f.opt.Clip, "clip", 1, "most that the norm of a step's gradients may be; 0: any")
	fs.Uint64Var(&f.opt.Seed, "seed", 0, "of first tables and of the order of examples")
	fs.IntVar(&f.maxTokens, "max-tokens", 256, "longest example in tokens; longer ones are cut at the end")
	f.save, f.limit, f.patience = 30*time.Second, 3*time.Minute, 10*time.Minute
	secondsVar(fs, &f.save, "save-every", "time between checkpoints; one is also made at each epoch's end and at Ctrl-C")
	secondsVar(fs, &f.limit, "request-deadline", "a server that computes a pass for longer is replaced")
	secondsVar(fs, &f.patience, "patience", "how long to look for servers before training stops, at its last checkpoint")
	fs.BoolVar(&f.fresh, "fresh", false, "begin anew, whatever --out holds")
	fs.BoolVar(&f.asJSON, "json", false, "print a JSON object on the last line")
}

// check refuses what is wrong before anything is opened.
func (f *tuneFlags) check() error {
	f.opt.Task, f.opt.Schedule = train.Task(f.task), train.Schedule(f.schedule)
	switch {
	case f.data == "":
		return wiring.Usagef("no examples: give --data FILE")
	case f.out == "":
		return wiring.Usagef("nowhere to put what is learnt: give --out DIR")
	case f.maxTokens < 1:
		return wiring.Usagef("--max-tokens %d: want at least 1", f.maxTokens)
	case f.limit <= 0 || f.patience <= 0:
		return wiring.Usagef("--request-deadline %v and --patience %v: want more than 0", f.limit, f.patience)
	}
	o := f.opt
	o.Labels = []string{"", ""} // they are read from the file
	return wiring.Usage(o.Validate())
}

// tuning is a run of `whorl tune`.
type tuning struct {
	f        *tuneFlags
	w        *world
	a        *wiring.Asker
	run      train.Run
	trainer  *train.Trainer
	examples []train.Example
	eval     []train.Example
	about    train.About
	progress *tuneProgress
	saved    time.Time
	adapter  string            // as the user named it
	held     map[int]train.Sum // on examples that are held out, after epochs, counted from 1
}

func (f *tuneFlags) run(cmd *cobra.Command, w *world, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	a, err := openAsk(cmd, &f.ask, args)
	if err != nil {
		return err
	}
	defer a.Close()
	t := &tuning{f: f, w: w, a: a, progress: newTuneProgress(w), held: map[int]train.Sum{}}
	if err := t.read(); err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return wiring.Usagef("--out: %w", err)
	}
	ctx := cmd.Context()
	if t.adapter, err = f.ask.OpenAdapter(ctx, a); err != nil {
		return err
	}
	if err := f.ask.Connect(ctx, a, 1, 1); err != nil {
		if ctx.Err() != nil {
			return wiring.ErrInterrupted
		}
		return err
	}
	if err := t.begin(ctx); err != nil {
		return wiring.Asked(err)
	}
	return t.learn(ctx)
}

// begin makes the trainer, and sets it to where the last run of the same command stopped.
func (t *tuning) begin(ctx context.Context) error {
	f, m := t.f, t.a.Engine.Model()
	patience, limit := f.patience, f.limit
	if f.ask.Local {
		limit = wiring.LocalPatience
	}
	if t.adapter != "" { // whatever comes to have its name meanwhile
		x, err := t.a.Engine.Adapter(ctx, t.adapter)
		if err != nil {
			return err
		}
		t.adapter = x.String()
	}
	remote, err := t.a.Engine.Remote(swarm.Span{Start: 0, End: m.Manifest.Blocks}, client.RemoteOptions{Limit: limit, Recover: patience, Adapter: t.adapter, Hops: t.progress.chain})
	if err != nil {
		return err
	}
	cfg := &t.a.Model.Checkpoint.Config
	t.about = train.About{Model: t.a.Model.Name, UID: string(m.UID), Adapter: t.adapter, Hidden: m.Manifest.Hidden, Blocks: m.Manifest.Blocks, Heads: cfg.Heads, Labels: f.opt.Labels}
	blocks := 0
	if f.opt.Deep {
		blocks = m.Manifest.Blocks
	}
	tables, err := train.NewTables(f.opt.Tokens, m.Manifest.Hidden, blocks, len(f.opt.Labels), m.Vocab, f.opt.Seed, t.a.Model.Head)
	if err != nil {
		return err
	}
	if t.trainer, err = train.New(f.opt, t.a.Model.Head, train.Remote(remote), m.Vocab, tables, t.examples); err != nil {
		return wiring.Usage(err)
	}
	t.run = train.Run{Model: string(m.UID), Adapter: t.adapter, Data: hashExamples(t.examples), Options: f.opt}
	b, err := os.ReadFile(t.checkpoint())
	switch {
	case errors.Is(err, os.ErrNotExist) || f.fresh:
		return nil
	case err != nil:
		return wiring.Usagef("--out: %w", err)
	}
	if err := t.trainer.Resume(b, t.run); err != nil {
		return wiring.Usagef("--out %s holds a checkpoint that cannot be gone on from: %w. --fresh begins anew", f.out, err)
	}
	fmt.Fprintf(t.w.err, "going on after step %d of %d\n", t.trainer.Done(), t.trainer.Steps())
	return nil
}

func (t *tuning) checkpoint() string { return filepath.Join(t.f.out, "checkpoint.safetensors") }

// save writes a checkpoint; a file is whole or not there.
func (t *tuning) save() error {
	t.saved = time.Now()
	if err := atomicfile.Write(t.checkpoint(), t.trainer.Checkpoint(t.run), 0o644); err != nil {
		return fmt.Errorf("save a checkpoint: %w", err)
	}
	return nil
}

// learn makes all steps, and writes what came of them.
func (t *tuning) learn(ctx context.Context) error {
	t.saved = time.Now()
	t.progress.begin(t.trainer.Done(), t.trainer.Steps(), t.f.opt.Epochs)
	for t.trainer.Done() < t.trainer.Steps() {
		r, err := t.trainer.Step(ctx)
		if err != nil {
			return t.stopped(ctx, err)
		}
		t.progress.step(r)
		ends := r.Step%t.trainer.PerEpoch() == 0
		if ends || time.Since(t.saved) >= t.f.save {
			if err := t.save(); err != nil {
				return err
			}
		}
		if !ends {
			continue
		}
		sum := t.trainer.Epochs()[r.Epoch-1]
		t.progress.line("epoch %d of %d: loss %.4f, %s", r.Epoch, t.f.opt.Epochs, sum.Mean(), t.quality(&sum))
		if err := t.evaluate(ctx, r.Epoch); err != nil {
			return t.stopped(ctx, err)
		}
	}
	if _, ok := t.held[t.f.opt.Epochs]; !ok { // all steps were made before
		if err := t.evaluate(ctx, t.f.opt.Epochs); err != nil {
			return t.stopped(ctx, err)
		}
	}
	return t.finish()
}

// evaluate tells how good the tables are, after an epoch, on examples that were not learnt from.
func (t *tuning) evaluate(ctx context.Context, epoch int) error {
	if len(t.eval) == 0 {
		return nil
	}
	sum, err := t.trainer.Evaluate(ctx, t.eval, func(s train.Sum) { t.progress.evaluating(s.Examples, len(t.eval)) })
	if err == nil {
		t.progress.line("held out: loss %.4f, %s", sum.Mean(), t.quality(&sum))
		t.held[epoch] = sum
	}
	return err
}

// stopped ends a run early, with all that was learnt on disk.
func (t *tuning) stopped(ctx context.Context, err error) error {
	saved := t.save()
	t.progress.end()
	if saved == nil {
		fmt.Fprintf(t.w.err, "stopped after step %d of %d; the same command goes on from there\n", t.trainer.Done(), t.trainer.Steps())
	}
	if ctx.Err() != nil {
		err = wiring.ErrInterrupted
	}
	return errors.Join(wiring.Asked(err), saved)
}

// tuneObject is what --json prints.
type tuneObject struct {
	Steps    int        `json:"steps"`
	Loss     []float64  `json:"loss"`     // of each epoch, also of those before a checkpoint that was gone on from
	Accuracy float64    `json:"accuracy"` // in the last one
	Eval     *evalObj   `json:"eval,omitempty"`
	Epochs   []epochObj `json:"epochs"`
	// Hash sums up the bits of all that was learnt.
	Hash       string  `json:"hash"`
	Seconds    float64 `json:"seconds"`           // of this command
	TokensPerS float64 `json:"tokens_per_second"` // forward and backward, evaluation left out
	Out        string  `json:"out"`
}

type epochObj struct {
	Epoch    int      `json:"epoch"` // counted from 1
	Loss     float64  `json:"loss"`
	Accuracy float64  `json:"accuracy"`
	Eval     *evalObj `json:"eval,omitempty"` // at its end, unless that was before a checkpoint
}

type evalObj struct {
	Loss       float64  `json:"loss"`
	Accuracy   float64  `json:"accuracy"`
	Perplexity *float64 `json:"perplexity,omitempty"`
	Examples   int      `json:"examples"`
}

// finish writes the folder.
func (t *tuning) finish() error {
	t.progress.end()
	tables, epochs, last := t.trainer.Tables(), t.trainer.Epochs(), t.f.opt.Epochs
	card := train.Card{About: t.about, Options: t.f.opt, Data: filepath.Base(t.f.data), Examples: len(t.examples), Steps: t.trainer.Steps(), Hash: tables.Hash(), Train: epochs[last-1]}
	if held, ok := t.held[last]; ok {
		card.Eval = &held
	}
	files := tables.Files(t.about)
	files[train.FileCard] = card.Text()
	for _, name := range []string{train.FileTensors, train.FileCard, train.FileConfig} { // without the last there is no folder of prompts
		if err := atomicfile.Write(filepath.Join(t.f.out, name), files[name], 0o644); err != nil {
			return fmt.Errorf("write what was learnt: %w", err)
		}
	}
	fmt.Fprintf(t.w.err, "learnt: %s (tables %.16s)\n", t.f.out, card.Hash)
	if !t.f.asJSON {
		return nil
	}
	o := tuneObject{Steps: t.trainer.Done(), Accuracy: card.Train.Accuracy(), Eval: t.evalOf(last), Hash: card.Hash, Out: t.f.out}
	o.Seconds, o.TokensPerS = t.progress.totals()
	for i, sum := range epochs {
		o.Loss = append(o.Loss, sum.Mean())
		o.Epochs = append(o.Epochs, epochObj{i + 1, sum.Mean(), sum.Accuracy(), t.evalOf(i + 1)})
	}
	return printJSON(t.w.out, o)
}

// evalOf is what --json tells of held-out examples after an epoch; nil if nothing is known.
func (t *tuning) evalOf(epoch int) *evalObj {
	held, ok := t.held[epoch]
	if !ok {
		return nil
	}
	o := &evalObj{Loss: held.Mean(), Accuracy: held.Accuracy(), Examples: held.Examples}
	if t.f.opt.Task == train.Causal {
		p := perplexity(held.Mean())
		o.Perplexity = &p
	}
	return o
}

// hashExamples names what is learnt from.
func hashExamples(examples []train.Example) string {
	h := sha256.New()
	e := json.NewEncoder(h)
	for i := range examples {
		e.Encode(&examples[i])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// openLines reads a file of examples.
func openLines(path, flag string, task train.Task) ([]train.Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, wiring.Usagef("%s: %w", flag, err)
	}
	defer file.Close()
	lines, err := train.Read(io.Reader(file), task)
	if err != nil {
		return nil, wiring.Usagef("%s %s: %w", flag, path, err)
	}
	return lines, nil
}

// short says hops for people.
func chainText(hops []swarm.Hop) string {
	parts := make([]string, len(hops))
	for i, h := range hops {
		parts[i] = h.Span.String() + " " + h.Peer.Short()
	}
	return strings.Join(parts, " => ")
}
