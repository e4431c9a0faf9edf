package hidden

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/tensor"
)

// talk is what a socket's messages are about: at most one session, of several sequences with a cache
// each.
type talk struct {
	*socket
	sequences []api.RowSession // none unless it is open
	give      func()           // gives back what it holds
}

func (t *talk) close() {
	for _, s := range t.sequences {
		s.Close()
	}
	if t.sequences = nil; t.give != nil {
		t.give()
		t.give = nil
	}
}

// handle answers one request; false if nobody takes the answer.
func (t *talk) handle(ctx context.Context, q *request) bool {
	p, err := &reply{}, q.err
	if err == nil {
		within, cancel := context.WithTimeout(ctx, t.patience(q))
		p, err = t.answer(within, q)
		cancel()
	}
	if ctx.Err() != nil { // the socket is over, and its last message says why
		return false
	}
	if err != nil {
		if t.sequences != nil && swarm.CodeOf(err) == swarm.CodeNoSession {
			t.close()
		}
		return t.write(t.failed(q.Id, err))
	}
	p.Id = q.Id
	if codecOf(q.Dtype) == codec.BF16 && p.values != nil {
		b := gen.HiddenReplyDtypeBf16
		p.Dtype = &b
	}
	return t.write(p)
}

func (t *talk) patience(q *request) time.Duration {
	if q.TimeoutMs != nil {
		return time.Duration(*q.TimeoutMs) * time.Millisecond
	}
	return t.api.Limits.Timeout
}

func (t *talk) answer(ctx context.Context, q *request) (*reply, error) {
	switch q.Type {
	case gen.HiddenRequestTypeOpen, gen.HiddenRequestTypeForward, gen.HiddenRequestTypeBackward:
		leave, err := t.api.BeginTurn(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	switch q.Type {
	case gen.HiddenRequestTypeStep, gen.HiddenRequestTypeForward, gen.HiddenRequestTypeBackward:
		api.Spend(ctx, q.size.rows/t.model.hidden, 0)
	}
	switch q.Type {
	case gen.HiddenRequestTypeOpen:
		return t.open(ctx, q)
	case gen.HiddenRequestTypeStep:
		return t.step(ctx, q)
	case gen.HiddenRequestTypeTruncate:
		return t.truncate(q)
	case gen.HiddenRequestTypeClose:
		t.close()
		return t.state(), nil
	case gen.HiddenRequestTypeForward, gen.HiddenRequestTypeBackward:
		return t.pass(ctx, q)
	}
	return t.head(ctx, q)
}

// rowsReply has rows of so many columns.
func rowsReply(kind gen.HiddenReplyType, columns int, values ...[]float32) *reply {
	n := 0
	for _, v := range values {
		n += len(v)
	}
	n /= columns
	return &reply{HiddenReply: gen.HiddenReply{Type: kind, Rows: &n, Columns: &columns}, values: values}
}

// open opens the session.
func (t *talk) open(ctx context.Context, q *request) (*reply, error) {
	if t.sequences != nil {
		return nil, api.Invalid("type", "a session is open on this socket already: close it first, or open another socket")
	}
	batch, length, prompt := api.Value(q.Batch, 1), *q.MaxLength, api.Value(q.Prompt, 0)
	if prompt > length {
		return nil, api.Invalid("prompt", "prompt is %d in a session of %d positions", prompt, length)
	}
	o := client.RowOptions{Blocks: swarm.Span{Start: q.Blocks.Start, End: q.Blocks.End}, MaxLength: length, Prompt: prompt, Activations: activations(q), Beside: batch}
	give, err := t.api.Hold(t.user, t.engine, batch*length)
	if err != nil {
		return nil, err
	}
	sequences := make([]api.RowSession, batch)
	tasks, within := errgroup.WithContext(ctx)
	for i := range sequences {
		tasks.Go(func() error {
			o := o
			o.Prompts = promptsOf(q, i, batch, t.model.hidden)
			s, err := t.layers.OpenRows(within, o)
			if err == nil {
				sequences[i] = s
			}
			return err
		})
	}
	if err := tasks.Wait(); err != nil {
		for _, s := range sequences {
			if s != nil {
				s.Close()
			}
		}
		give()
		return nil, err
	}
	free := q.free // the session holds its rows from here on
	q.free = func() {}
	t.sequences, t.give = sequences, func() { give(); free() }
	p := &reply{HiddenReply: gen.HiddenReply{Type: gen.HiddenReplyTypeOpened}}
	for _, s := range sequences {
		p.Sessions = append(p.Sessions, s.ID())
	}
	return p, nil
}

// promptsOf are those of one sequence, [blocks][prompt][hidden].
func promptsOf(q *request, sequence, batch, hidden int) []float32 {
	if batch == 1 || api.Value(q.Shared, false) {
		return q.prompts
	}
	table := api.Value(q.Prompt, 0) * hidden
	var out []float32
	for block := range q.Blocks.End - q.Blocks.Start {
		at := (block*batch + sequence) * table
		out = append(out, q.prompts[at:at+table]...)
	}
	return out
}

func activations(q *request) tensor.Activations {
	if q.Activations != nil && *q.Activations == gen.HiddenRequestActivationsF32 {
		return tensor.ActF32
	}
	return tensor.Act8
}

// step runs rows through the session. If one sequence fails none has moved.
func (t *talk) step(ctx context.Context, q *request) (*reply, error) {
	if err := t.fits("lengths", len(q.Lengths)); err != nil {
		return nil, err
	}
	hidden := t.model.hidden
	before, outs := make([]int, len(t.sequences)), make([][]float32, len(t.sequences))
	tasks, within := errgroup.WithContext(ctx)
	at := 0
	for i, s := range t.sequences {
		before[i] = s.Position()
		rows := q.rows[at : at+q.Lengths[i]*hidden]
		if at += len(rows); len(rows) == 0 {
			continue
		}
		tasks.Go(func() error {
			out, err := s.Step(within, rows)
			if err == nil && api.Value(q.Last, false) {
				out = out[len(out)-hidden:]
			}
			outs[i] = out
			return err
		})
	}
	if err := tasks.Wait(); err != nil {
		for i, s := range t.sequences {
			if s.Position() > before[i] {
				err = errors.Join(err, s.Truncate(before[i]))
			}
		}
		return nil, err
	}
	p := rowsReply(gen.HiddenReplyTypeRows, hidden, outs...)
	lost := 0
	for _, s := range t.sequences {
		lost += s.Reroutes()
	}
	p.Reroutes = &lost
	return p, nil
}

// fits refuses what is not about each of the session's sequences.
func (t *talk) fits(field string, n int) error {
	switch {
	case t.sequences == nil:
		return swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "there is no session on this socket: open one first")
	case n != len(t.sequences):
		return api.Invalid(field, "%s has %d entries for a session of %d sequences", field, n, len(t.sequences))
	}
	return nil
}

// truncate cuts the sequences back: all or none.
func (t *talk) truncate(q *request) (*reply, error) {
	if err := t.fits("positions", len(q.Positions)); err != nil {
		return nil, err
	}
	for i, s := range t.sequences {
		if have := s.Position(); q.Positions[i] > have {
			return nil, api.Invalid("positions", "cannot cut sequence %d to position %d: it has %d", i, q.Positions[i], have)
		}
	}
	for i, s := range t.sequences {
		if err := s.Truncate(q.Positions[i]); err != nil {
			return nil, err
		}
	}
	return t.state(), nil
}

// state says where the session is.
func (t *talk) state() *reply {
	p := &reply{HiddenReply: gen.HiddenReply{Type: gen.HiddenReplyTypeState}}
	for _, s := range t.sequences {
		p.Positions = append(p.Positions, s.Position())
	}
	return p
}

// pass goes forward, or back.
func (t *talk) pass(ctx context.Context, q *request) (*reply, error) {
	blocks, hidden := swarm.Span{Start: q.Blocks.Start, End: q.Blocks.End}, t.model.hidden
	b := &client.Batch{Lengths: q.Lengths, Rows: q.rows, Prompt: api.Value(q.Prompt, 0), Prompts: q.prompts, Shared: api.Value(q.Shared, false)}
	var kept keeping
	defer func() { kept.give(t.memory) }()
	o := client.RemoteOptions{Length: api.Value(q.MaxLength, 0), Keep: func(n int64) error { return kept.take(t.memory, n) }}
	if q.Type == gen.HiddenRequestTypeForward {
		out, err := t.layers.Outputs(ctx, blocks, o, b)
		if err != nil {
			return nil, late(ctx, err)
		}
		return rowsReply(gen.HiddenReplyTypeRows, hidden, out), nil
	}
	rows, prompts, err := t.layers.Gradients(ctx, blocks, o, b, q.grads)
	if err != nil {
		return nil, late(ctx, err)
	}
	p := rowsReply(gen.HiddenReplyTypeGradients, hidden, rows)
	if n := len(prompts) / hidden; n > 0 {
		p.PromptRows, p.values = &n, append(p.values, prompts)
	}
	return p, nil
}

// late is what the end of a request's time, or of its caller's patience, makes of an error.
func late(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the time of the request is over")
	case errors.Is(err, context.Canceled):
		return swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "the caller went away")
	}
	return err
}
