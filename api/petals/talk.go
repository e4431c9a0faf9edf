package petals

import (
	"context"
	"encoding/json"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
	"whorl/swarm"
)

// talk is what a socket's frames are about: at most one session.
type talk struct {
	*socket
	engine  api.Engine
	session api.Session // nil until opened
	limit   int         // positions of the session
	verify  int         // chains that compute it
	beams   int         // sequences that it may have
	answers [][]int32   // of the last batch, each with the text that was its own
	give    func()      // gives back what the session holds of the user's share; nil until opened
}

func (t *talk) close() {
	if t.session != nil {
		t.session.Close()
		t.give()
	}
}

// handle does what one frame asks for. A result ends the socket.
func (t *talk) handle(ctx context.Context, m inbound) *closing {
	switch {
	case m.err != nil:
		return failed(m.err)
	case m.kind == "close":
		t.send(ctx, gen.SocketState{Ok: true, Type: gen.SocketStateTypeClose})
		return &closing{code: 1000, why: "closed as asked"}
	case (m.kind == "open_inference_session") == (t.session != nil):
		return failed(api.Refused(api.CodeFrame, "the type %s is not the one expected next: open one session, then generate", m.kind))
	}
	switch m.kind {
	case "open_inference_session":
		return t.open(ctx, m.fields)
	case "truncate":
		return t.truncate(ctx, m.fields)
	case "keep":
		return t.keep(ctx, m.fields)
	}
	return t.generate(ctx, m.fields)
}

// open opens the session.
func (t *talk) open(ctx context.Context, f *fields) *closing {
	model := f.text("model", maxModelName)
	limit, given := f.integer("max_length", 1, maxPositions, 0)
	beams, _ := f.integer("num_beams", 1, sample.MaxBeams, 1)
	wait, _ := f.number("wait", 0, maxSeconds, 0)
	verify, _ := f.integer("whorl_verify", 1, client.MaxVerify, max(1, t.api.Verify))
	if f.err == nil && !given {
		f.fail("max_length", "is missing: say how many positions the session needs")
	}
	if f.err != nil {
		return failed(f.err)
	}
	if err := t.api.CheckBeams(beams); err != nil {
		return failed(err)
	}
	e, err := t.api.Engine(ctx, model)
	if err != nil {
		return failed(err)
	}
	give, err := t.api.Hold(t.user, e, verify*beams*limit)
	if err != nil {
		return failed(err)
	}
	s, err := e.Open(ctx, client.SessionOptions{MaxLength: limit, Beams: beams, Wait: seconds(wait), Verify: verify})
	if err != nil {
		give()
		return failed(err)
	}
	t.engine, t.session, t.limit, t.verify, t.beams, t.give = e, s, limit, verify, beams, give
	t.send(ctx, gen.SocketOpened{
		Ok: true, SessionId: s.ID(), Model: e.Model().Name, MaxLength: limit, Protocol: socketProtocol, Warnings: api.Warnings(f.unknown()),
	})
	return nil
}

// refuse tells of an error. One of the caller's, found before any compute, leaves the
// session as it was and the socket open: a dialogue must not be lost to a typing error.
func (t *talk) refuse(ctx context.Context, err error) *closing {
	f := api.Describe(err)
	if swarm.AsError(err).Verdict != swarm.Caller || f.Code == swarm.CodeNoSession || f.Code == swarm.CodeCancelled {
		return failed(err)
	}
	t.send(ctx, failureOf(f, err))
	return nil
}

func (t *talk) truncate(ctx context.Context, f *fields) *closing {
	pos, given := f.integer("position", 0, maxPositions, 0)
	if f.err == nil && !given {
		f.fail("position", "is missing: say how many ids the session keeps")
	}
	err := f.err
	if err == nil {
		err = t.session.Truncate(pos)
		t.answers = nil
	}
	if err != nil {
		return t.refuse(ctx, err)
	}
	t.send(ctx, gen.SocketState{Ok: true, Type: gen.SocketStateTypeTruncate, Position: &pos})
	return nil
}

// socketTurn is a generate frame made ready.
type socketTurn struct {
	legacyTurn
	position int  // ids the session holds before the prompt
	cached   int  // of messages: ids that the session held already
	chat     bool // by messages
	untilEnd bool // by stop_sequence: until it comes or the session is full
	group    int  // tokens per frame; 0: all in the last frame
	batch
	apart bool // of a batch: each answer has a session of its own
}

// generate runs one turn.
func (t *talk) generate(ctx context.Context, f *fields) *closing {
	st, err := t.prepare(f)
	t.answers = nil
	if err != nil {
		return t.refuse(ctx, err)
	}
	if g := st.req.Guidance; g != nil { // the session of its other context
		give, err := t.api.Hold(t.user, t.engine, t.verify*(max(1, len(g.Other))+st.req.MaxNewTokens))
		if err != nil {
			return t.refuse(ctx, err)
		}
		defer give()
	}
	var cancel context.CancelFunc
	turnCtx := ctx
	if st.timeout > 0 {
		turnCtx, cancel = context.WithTimeout(ctx, seconds(st.timeout))
	} else {
		turnCtx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	t.turnRuns(cancel)
	if st.several() {
		return t.runBatch(ctx, turnCtx, &st)
	}
	out := frames{turn: &st, send: func(v any) { t.send(ctx, v) }}
	leave, err := t.api.BeginTurn(turnCtx)
	var res client.Result
	if err == nil {
		res, err = t.api.Continue(turnCtx, t.engine, t.session, st.req, out.delta)
		leave()
	}
	t.turnRuns(nil)

	if swarm.CodeOf(err) == swarm.CodeCancelled && turnCtx.Err() == context.Canceled && ctx.Err() == nil { // by a cancel frame, before the first token
		res, err = client.Result{Finish: client.FinishCancelled, PromptTokens: res.PromptTokens, Position: len(t.session.IDs()), Route: res.Route}, nil
	}
	switch {
	case err != nil && len(res.IDs) == 0:
		return t.refuse(ctx, err)
	case err != nil:
		return failed(err)
	case st.untilEnd && res.Finish == client.FinishLength && len(res.IDs) == st.req.MaxNewTokens:
		out.flush()
		return t.refuse(ctx, &budgetError{res.Position, 0, 1, t.limit})
	}
	t.send(ctx, out.last(t.engine, res))
	return nil
}

// prepare makes a generate frame ready, and the session for it. What can be refused is
// refused here.
func (t *talk) prepare(f *fields) (socketTurn, error) {
	several, err := readBatch(f)
	if err != nil {
		return socketTurn{}, err
	}
	legacy, err := parseTurn(f)
	if err != nil {
		return socketTurn{}, err
	}
	st := socketTurn{legacyTurn: legacy, batch: several}
	if st.req.Guidance, err = api.Guide(t.engine, st.guidance); err != nil {
		return st, err
	}
	if err := t.api.FinishSampling(t.engine, &st.req, st.badWords); err != nil {
		return st, api.FieldError(err, nil)
	}
	st.stream, _ = f.flag("stream", false)
	if st.messages, err = t.messages(f); err == nil {
		err = f.err
	}
	if err != nil {
		return st, err
	}
	if st.chat = st.messages != nil; st.chat && (st.inputs != "" || st.texts != nil) {
		return st, api.Invalid("messages", "give either inputs or messages")
	}
	st.warnings = append(st.warnings, api.Warnings(f.unknown())...)
	if err := t.prompt(&st, f); err != nil {
		return st, err
	}
	prompt := len(st.req.Prompt) + st.longest()
	asked, err := st.budget(st.position, prompt, t.limit)
	if err != nil {
		return st, err
	}
	rest := t.limit - st.position - prompt
	st.untilEnd = st.stop != "" && !st.stream && !st.chat && !st.several()
	switch {
	case st.untilEnd:
		st.group, asked = max(1, asked), rest
	case st.stream || st.chat || st.several() && st.stop != "":
		if asked == 0 {
			asked = rest
		}
		if st.stream {
			st.group = 1
		}
	case asked == 0:
		return st, api.Invalid("max_new_tokens", badLimits)
	}
	st.req.MaxNewTokens = asked
	if err := st.req.Validate(t.engine.Model().Vocab); err != nil { // now that all of it is known
		return st, api.FieldError(err, nil)
	}
	if held := len(t.session.IDs()); st.position < held {
		return st, t.session.Truncate(st.position)
	}
	return st, nil
}

// prompt finds the new ids of a turn and the position they begin at.
func (t *talk) prompt(st *socketTurn, f *fields) error {
	held := t.session.IDs()
	if st.chat {
		ids, err := api.EncodeMessages(t.engine, st.messages, client.ChatExtras{})
		if err != nil {
			return err
		}
		// What the session holds of the conversation stays; the last id at least runs
		// again, for its logits.
		for st.cached < min(len(held), len(ids)-1) && held[st.cached] == ids[st.cached] {
			st.cached++
		}
		st.position, st.req.Prompt = st.cached, ids[st.cached:]
		st.req.IgnoreEOS, _ = f.flag("ignore_eos", false)
		st.req.IncludeStop = false
	} else if st.inputs != "" {
		ids, err := t.engine.Encode(st.inputs, len(held) == 0) // marks of a text's beginning only there
		if err != nil {
			return api.EncodeError(t.engine, "inputs", err)
		}
		st.position, st.req.Prompt = len(held), ids
	} else {
		st.position = len(held)
	}
	if st.several() {
		if err := t.branch(st); err != nil || st.apart {
			return err
		}
	}
	if st.position+len(st.req.Prompt) == 0 {
		return api.Invalid("inputs", "inputs is empty, and so is the session: there is nothing to continue")
	}
	return nil
}

// messages reads and checks the conversation, nil if there is none.
func (t *talk) messages(f *fields) ([]gen.ChatMessage, error) {
	v := f.get("messages")
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(map[string]any{"messages": v})
	if err != nil {
		return nil, api.Invalid("messages", "%w", err)
	}
	var req gen.ChatRequest
	if _, err := t.api.Decode(b, "ChatRequest", &req); err != nil {
		return nil, err
	}
	return req.Messages, nil
}

// frames turns deltas into frames of a turn.
type frames struct {
	turn  *socketTurn
	send  func(any)
	index *int    // of the answer in a batch; nil of others
	text  string  // not sent yet
	ids   []int32 // not sent yet
}

// delta takes a piece of the answer and sends a frame when one is full.
func (o *frames) delta(d client.Delta) error {
	o.text += d.Text
	o.ids = append(o.ids, d.IDs...)
	if o.turn.group > 0 && len(o.ids) >= o.turn.group {
		o.flush()
	}
	return nil
}

// flush sends what there is.
func (o *frames) flush() {
	if o.text != "" || len(o.ids) > 0 {
		o.send(o.frame())
	}
}

func (o *frames) frame() gen.SocketDelta {
	d := gen.SocketDelta{Ok: true, Index: o.index, Outputs: o.text, TokenCount: len(o.ids)}
	if o.turn.ids {
		d.TokenIds = o.ids
	}
	o.text, o.ids = "", nil
	return d
}

// last is the frame that ends the turn.
func (o *frames) last(e api.Engine, res client.Result) gen.SocketDelta {
	reason, match, tail := endedBy(e, o.turn.req.Stop, res)
	if o.turn.req.IncludeStop {
		o.text += tail
	}
	d := o.frame()
	d.Stop, d.StopReason, d.Position, d.Route = true, &reason, &res.Position, routeOf(res.Route)
	d.Usage = &gen.SocketUsage{PromptTokens: res.PromptTokens, CompletionTokens: len(res.IDs)}
	if match != "" {
		d.StopMatch = &match
	}
	if o.turn.chat {
		d.Usage.CachedTokens = &o.turn.cached
	}
	if res.Reroutes > 0 {
		d.Reroutes = &res.Reroutes
	}
	d.Verified = verifiedBy(res)
	d.Warnings = o.turn.warnings
	return d
}

// seconds is a field's duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
