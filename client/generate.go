package client

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"whorl/client/sample"
	"whorl/swarm"
)

// Generate runs one turn: the prompt, then up to MaxNewTokens sampled tokens, or a beam
// search for the best answer of so many. emit is called with each piece of text as it is
// known, after a search once with all of it; an error from it ends the turn and is
// returned. The last token of a turn is emitted but not computed; it becomes the first
// position of the next turn.
//
// On an error nothing of the turn that was not emitted is kept, and the session stays
// usable unless the error's code is no_session. A budget that prompt and answer together
// would exceed is refused before any compute. A cancelled context ends the turn with
// FinishCancelled and no error if something was generated before.
func (s *Session) Generate(ctx context.Context, r Request, emit func(Delta) error) (Result, error) {
	if err := s.accepts(r); err != nil {
		return Result{}, err
	}
	t := newTurn(s, r, emit)
	if len(r.Branches) == 0 {
		var err error
		if t.form, err = r.startForm(); err != nil {
			return Result{}, err
		}
	}
	if err := t.openOther(ctx); err != nil {
		return Result{}, err
	}
	defer t.other.close()
	run := t.run
	if r.Beams.Beams > 1 {
		run = t.search
	} else if len(r.Branches) > 0 {
		run = t.branch
	}
	err := run(ctx)
	if err == nil {
		s.mu.Lock()
		s.served()
		s.mu.Unlock()
	}
	if swarm.CodeOf(err) == swarm.CodeCancelled && len(t.res.IDs) > 0 && !s.isOver() {
		t.res.Finish, err = FinishCancelled, nil
	}
	t.res.Position = s.Position()
	t.res.Route = s.Route()
	t.res.Reroutes = s.rerouted() - t.before
	if s.chains != nil && (len(t.res.IDs) > 0 || r.Echo && r.TopLogprobs >= 0) {
		t.res.Verified = s.opt.Verify
	}
	t.res.LogitsHash = t.hash.String()
	return t.res, err
}

// accepts checks a request against the vocabulary and the session's budget.
func (s *Session) accepts(r Request) error {
	bad := func(format string, a ...any) error {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, format, a...)
	}
	if err := r.Validate(s.e.cfg.Vocab); err != nil {
		return bad("%w", err)
	}
	if r.Beams.Beams > s.opt.sequences() {
		return bad("num_beams is %d: the session was opened for at most %d", r.Beams.Beams, s.opt.sequences())
	}
	if r.MaxNewTokens < 0 {
		return bad("max_new_tokens is %d: want 0 or more", r.MaxNewTokens)
	}
	for _, id := range r.Prompt {
		if id < 0 || int(id) >= s.e.cfg.Vocab {
			return bad("token id %d is outside the vocabulary of %d", id, s.e.cfg.Vocab)
		}
	}
	have := s.Position()
	if have+len(r.Prompt) == 0 {
		return bad("the session is empty and the request has no prompt")
	}
	for _, b := range r.Branches {
		for _, id := range b.Prompt {
			if id < 0 || int(id) >= s.e.cfg.Vocab {
				return bad("token id %d is outside the vocabulary of %d", id, s.e.cfg.Vocab)
			}
		}
	}
	if n := len(r.Branches); n > s.opt.sequences() {
		return bad("%d answers go on from one text: the session was opened for at most %d (num_beams)", n, s.opt.sequences())
	}
	if prompt := len(r.Prompt) + r.longestBranch(); r.MaxNewTokens > s.MaxLength()-have-prompt { // the sum may be beyond an int
		return swarm.Errorf(swarm.CodeTooLong, swarm.Caller,
			"Maximum length exceeded: prefix %d + prompt %d + new %d exceeds pre-allocated maximum %d",
			have, prompt, r.MaxNewTokens, s.MaxLength())
	}
	return nil
}

func (s *Session) rerouted() int {
	if s.chains != nil {
		return s.chains.rerouted()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Reroutes()
}

// isOver tells whether the session was closed or killed.
func (s *Session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why != nil
}

// turn is one Generate in progress.
type turn struct {
	s       *Session
	r       Request
	emit    func(Delta) error
	sampler *sample.Sampler
	text    *texter
	form    Form   // what the answer must be; nil for anything
	ahead   *ahead // what may come next, while that is looked for; nil otherwise
	other   *other // the other context of a guided turn; nil without one
	logits  []float32
	history []int32
	res     Result
	ids     []int32     // sampled since the last delta
	lps     []Logprob   // of those
	shown   int         // characters of the text that was shown
	before  int         // re-routes before the turn
	hash    *logitsHash // nil if not asked for

	// Of a branch.
	aside bool    // it is one: its ids are not the session's
	queue []int32 // to be computed
	over  bool

	until time.Time // the first token behind it is the last; zero: any may be
}

func newTurn(s *Session, r Request, emit func(Delta) error) *turn {
	t := newTurnBehind(s, r, emit, append(s.IDs(), r.Prompt...))
	t.before = s.rerouted()
	t.logits = make([]float32, s.e.cfg.Vocab)
	return t
}

// newTurnBehind makes a turn whose answer stands behind a history.
func newTurnBehind(s *Session, r Request, emit func(Delta) error, history []int32) *turn {
	t := &turn{s: s, r: r, emit: emit, history: history}
	t.text = newTexter(s.e.cfg.Tokenizer, s.e.cfg.EOS, r)
	if r.Hash {
		t.hash = newLogitsHash()
	}
	r.Sampling.Most = r.MaxNewTokens
	t.sampler = sample.New(r.Sampling, len(t.history), t.text.ends()...)
	t.res.PromptTokens = len(r.Prompt)
	t.res.Finish = FinishLength
	if r.Sampling.MaxTime > 0 {
		t.until = time.Now().Add(time.Duration(r.Sampling.MaxTime * float64(time.Second)))
	}
	return t
}

func (t *turn) run(ctx context.Context) error {
	start := time.Now()
	defer t.settle()
	t.prepare()
	t.other.start(ctx)
	next, err := t.prefill(ctx)
	if err != nil {
		return err
	}
	t.res.Timings.Prefill = time.Since(start)
	first := time.Now()
	for last := first; next != nil; {
		id, err := t.choose(next)
		if err != nil {
			return err
		}
		done, err := t.accept(id)
		if err == nil && !done {
			done, err = t.jump()
		}
		now := time.Now()
		t.res.Timings.Decode, t.res.Timings.Pause = now.Sub(first), max(t.res.Timings.Pause, now.Sub(last))
		last = now
		if err != nil || done {
			return err
		}
		t.prepare()
		t.other.start(ctx)
		if next, err = t.step(ctx); err != nil {
			return errors.Join(err, t.finish(""))
		}
	}
	return nil
}

// prefill computes what is pending and the prompt. It returns the hidden row of the last
// position, nil if no token is asked for.
func (t *turn) prefill(ctx context.Context) ([]float32, error) {
	if t.r.Echo && t.r.TopLogprobs >= 0 {
		return t.scored(ctx)
	}
	if t.r.Echo {
		if err := t.echo(nil); err != nil {
			return nil, err
		}
	}
	s := t.s
	s.mu.Lock()
	before := s.pending
	s.pending = slices.Concat(before, t.r.Prompt)
	if len(s.pending) == 0 && t.r.MaxNewTokens > 0 { // all is computed: run the last position again
		s.pending = []int32{s.ids[len(s.ids)-1]}
		before = s.pending
		s.cut(len(s.ids) - 1)
	}
	s.mu.Unlock()
	if t.r.MaxNewTokens == 0 {
		return nil, nil
	}
	row, err := t.step(ctx)
	if err != nil {
		s.mu.Lock()
		s.pending = before
		s.mu.Unlock()
	}
	return row, err
}

// step computes what is pending and returns the hidden row of its last position; on an
// error it is still pending.
func (t *turn) step(ctx context.Context) ([]float32, error) {
	s := t.s
	s.mu.Lock()
	ids := s.pending
	s.pending = nil
	s.mu.Unlock()
	row, err := s.advance(ctx, ids, len(ids)-1)
	if err != nil {
		s.mu.Lock()
		s.pending = ids
		s.mu.Unlock()
	}
	return row, err
}

// measured notes how likely the next id is, before its text is known.
func (t *turn) measured(lp sample.Logprob) {
	t.lps = append(t.lps, Logprob{ID: lp.ID, Logprob: lp.Logprob, Top: lp.Top, Offset: t.text.start(lp.ID)})
}

// accept takes a sampled id into the session and shows its text; done ends the turn.
func (t *turn) accept(id int32) (done bool, err error) {
	if t.aside {
		t.queue = append(t.queue, id)
	} else {
		t.s.mu.Lock()
		t.s.pending = append(t.s.pending, id)
		t.s.mu.Unlock()
	}
	t.history = append(t.history, id)
	if t.other != nil {
		t.other.pending = append(t.other.pending, id)
	}
	t.res.IDs = append(t.res.IDs, id)
	t.ids = append(t.ids, id)

	if t.text.isEnd(id) {
		t.res.Finish = FinishEOS
		if t.r.Special {
			show, match := t.text.push(id)
			return true, t.last(show, match)
		}
		return true, t.finish("")
	}
	show, match := t.text.push(id)
	if match != "" {
		return true, t.last(show, match)
	}
	over, err := t.formed(id)
	if err != nil {
		return true, err
	}
	if over {
		t.res.Finish = FinishEOS
		return true, t.finish(show)
	}
	if len(t.res.IDs) == t.r.MaxNewTokens || !t.until.IsZero() && time.Now().After(t.until) {
		return true, t.finish(show)
	}
	if show == "" && t.text.waiting() {
		return false, nil
	}
	return false, t.showPart(show, t.begun(show))
}

// begun is how many of the ids that were not told begin in text that is shown with show. Those
// behind it wait, where offsets are told: a stop text may take their text away.
func (t *turn) begun(show string) int {
	if t.r.TopLogprobs < 0 || t.text.stop.held == "" {
		return len(t.ids)
	}
	end := t.shown + utf8.RuneCountInString(show)
	n := 0
	for n < len(t.lps) && t.lps[n].Offset < end {
		n++
	}
	return n
}

// last ends a turn whose text may hold a stop text.
func (t *turn) last(show, match string) error {
	if match == "" {
		return t.finish(show)
	}
	t.res.Finish, t.res.StopMatch = FinishStop, match
	if t.r.IncludeStop {
		show += match
	}
	return t.show(show)
}

// finish shows what was held back after show.
func (t *turn) finish(show string) error {
	rest, match := t.text.flush()
	if match != "" {
		return t.last(show+rest, match)
	}
	if show += rest; show == "" && len(t.ids) == 0 {
		return nil
	}
	return t.show(show)
}

// show tells of text and of the ids since it was last called.
func (t *turn) show(text string) error { return t.showPart(text, len(t.ids)) }

// showPart tells of text and of the first n ids.
func (t *turn) showPart(text string, n int) error {
	t.res.Text += text
	t.shown += utf8.RuneCountInString(text)
	d := Delta{Text: text, IDs: t.ids[:n:n]}
	t.ids = t.ids[n:]
	if t.r.TopLogprobs >= 0 {
		d.Logprobs, t.lps = t.lps[:n:n], t.lps[n:]
		for i := range d.Logprobs { // of a stop text that is left out
			d.Logprobs[i].Offset = min(d.Logprobs[i].Offset, t.shown)
		}
		t.res.Logprobs = append(t.res.Logprobs, d.Logprobs...)
	}
	if t.emit == nil {
		return nil
	}
	return t.emit(d)
}
