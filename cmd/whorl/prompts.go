package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/client"
	"whorl/internal/wiring"
	"whorl/model/tokenizer"
)

const (
	// promptLine is the most bytes of a line of prompts or answers, promptBytes and promptLines the
	// most of a file of prompts: all are read before the first is answered.
	promptLine, promptBytes, promptLines = 8 << 20, 256 << 20, 1_000_000
	// promptNews is the time between two lines of progress.
	promptNews = 5 * time.Second
)

// setFlags are those of a set of prompts.
type setFlags struct {
	file, out string
	truncate  string
	parallel  int
}

func (f *setFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.file, "prompts", "", "`FILE` of prompts, or - for stdin, in JSON lines: a text, or an object with prompt, ids or messages, and id. Prints an object for each as it is answered")
	fs.StringVar(&f.out, "out", "", "with --prompts: `FILE` for the answers; those that it has already are not asked for again")
	fs.IntVar(&f.parallel, "parallel", 4, "with --prompts: `N` prompts are worked on at once")
	choiceVar(fs, &f.truncate, "truncate", "no", []string{"no", "left", "right"}, "cut a prompt that is too long, at this end")
}

// check refuses what does not go together.
func (f *setFlags) check(cmd *cobra.Command, ask *wiring.AskOptions) error {
	from := sourcesOf(cmd)
	if f.file == "" {
		if from.given("out") || from.given("parallel") {
			return wiring.Usagef("--out and --parallel belong to a set of prompts: give --prompts FILE")
		}
		return nil
	}
	for _, name := range []string{"prompt", "ids"} {
		if from.given(name) {
			return wiring.Usagef("--prompts has all prompts: leave out --%s", name)
		}
	}
	switch {
	case ask.Receipts || ask.Audit || ask.PromptTuning != "":
		return wiring.Usagef("--receipts, --audit and --prompt-tuning are for one answer: leave out --prompts")
	case f.parallel < 1 || f.parallel > 256:
		return wiring.Usagef("--parallel %d: want 1 to 256", f.parallel)
	}
	return nil
}

// setPrompt is one prompt of a set.
type setPrompt struct {
	index int
	id    json.RawMessage // as it was given; nil for none
	ids   []int32
	err   error
}

// setAnswer is what is printed for one.
type setAnswer struct {
	Index int             `json:"index"` // of the line, from 0
	ID    json.RawMessage `json:"id,omitempty"`
	Error string          `json:"error,omitempty"`
	*answerObject
}

// run answers all prompts of a file.
func (f *setFlags) run(cmd *cobra.Command, w *world, ask *wiring.AskOptions, prompt *promptFlags, answer *answerFlags, a *wiring.Asker, trace bool) error {
	in := w.in
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return wiring.Usagef("--prompts: %w", err)
		}
		defer file.Close()
		in = file
	}
	all, err := f.read(in, prompt, a)
	if err != nil {
		return err
	}
	done, out, err := f.answered(w)
	if err != nil {
		return err
	}
	defer out.Close()
	longest, given := a.Model.Checkpoint.Config.LongestSession(), sourcesOf(cmd).given("max-new-tokens")
	var left []setPrompt
	length := 0
	for _, p := range all {
		if done[p.index] {
			continue
		}
		if p.err == nil {
			least := answer.tokens
			if !given && f.truncate == "no" {
				least = 1 // as of a single prompt: the answer is shorter
			}
			if p.ids, p.err = f.fit(p.ids, longest-least); p.err == nil {
				length = max(length, min(len(p.ids)+answer.tokens, longest))
			}
		}
		left = append(left, p)
	}
	ctx := cmd.Context()
	r := &setRun{w: w, out: out, total: len(all), done: len(all) - len(left), began: time.Now()}
	if length > 0 {
		adapter, err := ask.OpenAdapter(ctx, a)
		if err != nil {
			return err
		}
		if ask.Beside, err = answer.beside(a); err != nil {
			return err
		}
		if err := ask.Connect(ctx, a, length, max(1, answer.beams.Beams)*f.parallel); err != nil {
			return err
		}
		r.ask = func(p setPrompt) (answerObject, error) {
			s, err := a.Engine.Open(ctx, client.SessionOptions{MaxLength: min(len(p.ids)+answer.tokens, longest), Beams: answer.beams.Beams, Activations: a.Mode, PrefillChunk: a.Chunk, Adapter: adapter, Verify: ask.Verify})
			if err != nil {
				return answerObject{}, err
			}
			defer s.Close()
			req, err := answer.request(a, p.ids)
			if err != nil {
				return answerObject{}, err
			}
			req.Hash, req.MaxNewTokens = trace, min(answer.tokens, longest-len(p.ids))
			res, err := s.Generate(ctx, req, func(client.Delta) error { return nil })
			return answerJSON(res), err
		}
	}
	return r.run(ctx, left, f.parallel)
}

// read reads all prompts. What is wrong with one is said in its place.
func (f *setFlags) read(in io.Reader, prompt *promptFlags, a *wiring.Asker) ([]setPrompt, error) {
	limited := &io.LimitedReader{R: in, N: promptBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, promptLine)
	var out []setPrompt
	for lines.Scan() {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		if len(out) == promptLines {
			return nil, wiring.Usagef("--prompts has more than %d prompts: split it", promptLines)
		}
		p := setPrompt{index: len(out)}
		p.id, p.ids, p.err = readPrompt(text, prompt, a)
		out = append(out, p)
	}
	switch {
	case limited.N <= 0:
		return nil, wiring.Usagef("--prompts has more than %d MiB: split it", promptBytes>>20)
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return nil, wiring.Usagef("--prompts: prompt %d has more than %d MiB", len(out), promptLine>>20)
	case lines.Err() != nil:
		return nil, fmt.Errorf("--prompts: %w", lines.Err())
	case len(out) == 0:
		return nil, wiring.Usagef("--prompts has no prompt: want a JSON text or object on each line")
	}
	return out, nil
}

// readPrompt reads one line.
func readPrompt(line []byte, prompt *promptFlags, a *wiring.Asker) (id json.RawMessage, ids []int32, err error) {
	var text string
	var object struct {
		ID       json.RawMessage
		Prompt   *string
		IDs      []int32
		Messages []tokenizer.Message
	}
	if line[0] == '"' {
		if err := json.Unmarshal(line, &text); err != nil {
			return nil, nil, fmt.Errorf("it is no JSON text: %w", err)
		}
		object.Prompt = &text
	} else if err := json.Unmarshal(line, &object); err != nil {
		return nil, nil, fmt.Errorf("it is no JSON object with prompt, ids or messages: %w", err)
	}
	given := 0
	for _, is := range []bool{object.Prompt != nil, object.IDs != nil, object.Messages != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return object.ID, nil, errors.New("want one of prompt, ids and messages")
	case object.IDs != nil:
		ids, err = object.IDs, checkIDs(object.IDs, a.Model.Checkpoint.Config.Vocab)
	case a.Tokenizer == nil:
		err = fmt.Errorf("%w: give ids", a.TokenizerErr)
	case object.Messages != nil:
		ids, err = a.Tokenizer.EncodeChat(object.Messages, true)
	default:
		ids, err = prompt.encode(a, *object.Prompt)
	}
	if err == nil && len(ids) == 0 {
		err = errors.New("it is empty: give at least one token")
	}
	return object.ID, ids, err
}

func checkIDs(ids []int32, vocab int) error {
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("id %d is outside of the vocabulary of %d tokens", id, vocab)
		}
	}
	return nil
}

// fit cuts a prompt that is longer than room, if it may.
func (f *setFlags) fit(ids []int32, room int) ([]int32, error) {
	switch {
	case len(ids) <= room:
		return ids, nil
	case room < 1:
		return nil, wiring.Usagef("an answer of that many tokens leaves no room for a prompt: ask for fewer (--max-new-tokens)")
	case f.truncate == "left":
		return ids[len(ids)-room:], nil
	case f.truncate == "right":
		return ids[:room], nil
	}
	return nil, wiring.Usagef("the prompt has %d tokens, and with the answer the model holds %d of it: shorten it, ask for fewer tokens, or let it be cut (--truncate left)", len(ids), room)
}

// answered finds out which prompts have answers already, and where more go.
func (f *setFlags) answered(w *world) (done map[int]bool, out io.WriteCloser, err error) {
	if f.out == "" {
		return nil, unclosed{w.out}, nil
	}
	file, err := os.OpenFile(f.out, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, wiring.Usagef("--out: %w", err)
	}
	done = map[int]bool{}
	r, whole := bufio.NewReader(file), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break // what is left was cut off in writing: it is asked for again
		}
		var a struct {
			Index *int
			Error string
		}
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
		if err != nil || a.Index == nil {
			file.Close()
			return nil, nil, wiring.Usagef("--out %s has a line that is no answer of such a run: name another file", f.out)
		}
		whole += int64(len(line))
		done[*a.Index] = a.Error == "" // those that failed are asked again
	}
	if err := file.Truncate(whole); err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("--out: %w", err)
	}
	return done, file, nil
}

// unclosed is a writer that somebody else closes.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// setRun is a set that is being answered.
type setRun struct {
	w     *world
	ask   func(setPrompt) (answerObject, error)
	total int
	began time.Time

	mu           sync.Mutex // guards all below
	out          io.Writer
	done, failed int
	tokens       int
	broken       error // answers cannot be written
}

// run answers prompts, so many at once.
func (r *setRun) run(ctx context.Context, prompts []setPrompt, parallel int) error {
	work := make(chan setPrompt)
	var workers sync.WaitGroup
	for range min(parallel, max(1, len(prompts))) {
		workers.Go(func() {
			for p := range work {
				r.one(ctx, p)
			}
		})
	}
	news := time.NewTicker(promptNews)
	defer news.Stop()
	for i := 0; i < len(prompts) && ctx.Err() == nil && r.writes(); {
		select {
		case work <- prompts[i]:
			i++
		case <-news.C:
			r.tell()
		case <-ctx.Done():
		}
	}
	close(work)
	workers.Wait()
	r.tell()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.broken != nil:
		return fmt.Errorf("answers cannot be written: %w", r.broken)
	case ctx.Err() != nil:
		return wiring.ErrInterrupted
	case r.failed > 0:
		return fmt.Errorf("%d of %d prompts have no answer: their lines say why", r.failed, r.total)
	}
	return nil
}

func (r *setRun) writes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken == nil
}

// one answers one prompt.
func (r *setRun) one(ctx context.Context, p setPrompt) {
	a := setAnswer{Index: p.index, ID: p.id}
	err := p.err
	if err == nil {
		var o answerObject
		if o, err = r.ask(p); err == nil {
			a.answerObject = &o
		}
	}
	if ctx.Err() != nil {
		return // it is asked again
	}
	if err != nil {
		a.Error = wiring.OneLine(err)
	}
	b, jsonErr := json.Marshal(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return
	}
	if jsonErr == nil {
		_, jsonErr = r.out.Write(append(b, '\n')) // a line at a time: a run that is cut off leaves whole ones
	}
	r.broken = jsonErr
	if r.done++; err != nil {
		r.failed++
	} else {
		r.tokens += a.CompletionTokens
	}
}

// tell says how far the run is.
func (r *setRun) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w.err, "[%d of %d prompts, %d failed, %.1f tok/s]\n", r.done, r.total, r.failed, float64(r.tokens)/time.Since(r.began).Seconds())
}
