package petals

import (
	"context"
	"errors"
	"slices"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
)

// batch is what a generate frame with several answers asks for: so many to each of its texts.
type batch struct {
	texts   []string // nil for the one text that other frames have
	n       int      // answers to each
	prompts [][]int32
}

// several tells whether there are several answers, which are told as a batch.
func (b *batch) several() bool { return b.texts != nil || b.n > 1 }

// answers is how many there are.
func (b *batch) answers() int { return max(1, len(b.texts)) * b.n }

// readBatch takes what makes a frame a batch out of its fields.
func readBatch(f *fields) (b batch, err error) {
	if list, ok := f.values["inputs"].([]any); ok {
		delete(f.values, "inputs")
		b.texts = []string{}
		for _, v := range list {
			text, ok := v.(string)
			if !ok {
				return b, api.Invalid("inputs", "inputs holds %s: want texts", kind(v))
			}
			b.texts = append(b.texts, text)
		}
		if len(list) == 0 {
			return b, api.Invalid("inputs", "inputs is an empty list")
		}
	}
	b.n, _ = f.integer("n", 1, maxAnswers, 1)
	if f.err == nil && b.answers() > maxAnswers {
		f.err = api.Invalid("inputs", "%d answers are asked for: a frame may ask for %d", b.answers(), maxAnswers)
	}
	return b, f.err
}

// maxAnswers is how many one frame may ask for.
const maxAnswers = 32

// branch makes the answers of a batch go on from what their texts have in common. Where that is
// nothing each has a session of its own.
func (t *talk) branch(st *socketTurn) error {
	held := len(t.session.IDs())
	if st.texts == nil {
		st.prompts = [][]int32{st.req.Prompt}
	}
	for _, text := range st.texts {
		ids, err := t.engine.Encode(text, held == 0)
		if err != nil {
			return api.EncodeError(t.engine, "inputs", err)
		}
		st.prompts = append(st.prompts, ids)
	}
	st.req.Prompt = common(st.prompts)
	if st.texts != nil && held+len(st.req.Prompt) == 0 {
		st.apart = true
		return nil
	}
	if n := st.answers(); n > t.beams {
		return api.Invalid("n", "%d answers go on from one text: the session was opened for at most %d (num_beams)", n, t.beams)
	}
	for _, ids := range st.prompts {
		for k := range st.n {
			b := client.Branch{Prompt: ids[len(st.req.Prompt):], Seed: st.req.Sampling.Seed + uint64(k)}
			st.req.Branches = append(st.req.Branches, b)
		}
	}
	return nil
}

// common is what lists begin with in common.
func common(lists [][]int32) []int32 {
	out := lists[0]
	for _, l := range lists[1:] {
		n := 0
		for n < min(len(out), len(l)) && out[n] == l[n] {
			n++
		}
		out = out[:n]
	}
	return slices.Clip(out)
}

// longest is the length of the longest text behind what all have in common.
func (st *socketTurn) longest() int {
	longest := 0
	for _, p := range st.prompts {
		longest = max(longest, len(p)-len(st.req.Prompt))
	}
	return longest
}

// runBatch answers a batch. Pieces are told with the number of their answer as they come, if the
// frame asks for a stream; the last frame has all answers.
func (t *talk) runBatch(ctx, turnCtx context.Context, st *socketTurn) *closing {
	out := make([]frames, st.answers())
	for i := range out {
		out[i] = frames{turn: st, send: func(v any) { t.send(ctx, v) }, index: &i}
	}
	var res client.Result
	var err error
	if st.apart {
		res, err = t.apart(turnCtx, st, out)
	} else {
		var leave func()
		if leave, err = t.api.BeginTurn(turnCtx); err == nil {
			res, err = t.api.Continue(turnCtx, t.engine, t.session, st.req, func(d client.Delta) error { return out[d.Branch].delta(d) })
			leave()
		}
	}
	t.turnRuns(nil)
	if swarm.CodeOf(err) == swarm.CodeCancelled && errors.Is(turnCtx.Err(), context.Canceled) && ctx.Err() == nil { // before the first token
		res, err = client.Result{Finish: client.FinishCancelled, Position: len(t.session.IDs())}, nil
	}
	switch {
	case err != nil && len(res.IDs) == 0:
		return t.refuse(ctx, err)
	case err != nil:
		return failed(err)
	}
	for i, a := range res.Answers {
		prompt := st.prompts[i/st.n][len(st.req.Prompt):]
		t.answers = append(t.answers, slices.Concat(prompt, a.IDs))
	}
	t.send(ctx, t.lastOfBatch(st, out, res))
	return nil
}

// lastOfBatch is the frame that ends a batch.
func (t *talk) lastOfBatch(st *socketTurn, out []frames, res client.Result) gen.SocketDelta {
	if st.stream {
		for i := range out {
			out[i].flush()
		}
	}
	reason := gen.StopReason(res.Finish)
	d := gen.SocketDelta{Ok: true, Stop: true, StopReason: &reason, Position: &res.Position, Route: routeOf(res.Route), Verified: verifiedBy(res), Warnings: st.warnings}
	d.Usage = &gen.SocketUsage{PromptTokens: res.PromptTokens, CompletionTokens: len(res.IDs)}
	for _, p := range st.prompts {
		d.Usage.PromptTokens += len(p) - len(st.req.Prompt)
	}
	if st.chat {
		d.Usage.CachedTokens = &st.cached
	}
	if res.Reroutes > 0 {
		d.Reroutes = &res.Reroutes
	}
	for _, a := range res.Answers {
		reason, match, tail := endedBy(t.engine, st.req.Stop, client.Result{IDs: a.IDs, Finish: a.Finish, StopMatch: a.StopMatch})
		if !st.req.IncludeStop {
			tail = ""
		}
		answer := gen.SocketAnswer{Outputs: a.Text + tail, StopReason: reason, TokenCount: len(a.IDs)}
		if match != "" {
			answer.StopMatch = &match
		}
		if st.ids {
			answer.TokenIds = a.IDs
		}
		d.Answers = append(d.Answers, answer)
	}
	return d
}

// apart answers a batch whose texts have nothing in common, each in a session of its own.
func (t *talk) apart(ctx context.Context, st *socketTurn, out []frames) (client.Result, error) {
	leave, err := t.api.BeginTurn(ctx)
	if err != nil {
		return client.Result{}, err
	}
	leave() // each answer waits for its own place
	tokens := st.req.MaxNewTokens
	turns, err := t.api.Turns(ctx, api.Ask{
		Engine: t.engine, Request: st.req, Prompts: st.prompts, Param: "inputs", Answers: st.n, Tokens: &tokens, Verify: t.verify,
	})
	if err != nil {
		return client.Result{}, api.FieldError(err, map[string]string{"n": "n"})
	}
	cache := 0
	for _, p := range st.prompts {
		cache += st.n * (len(p) + tokens)
	}
	give, err := t.api.Hold(t.user, t.engine, t.verify*cache)
	if err != nil {
		return client.Result{}, err
	}
	defer give()
	res := client.Result{Finish: client.FinishLength, Answers: make([]client.Answer, len(out))}
	err = t.api.Stream(ctx, turns, func(e api.Event) error {
		switch {
		case e.Delta != nil:
			return out[e.Choice].delta(*e.Delta)
		case e.Result != nil:
			r := e.Result
			res.Answers[e.Choice] = client.Answer{IDs: r.IDs, Text: r.Text, Finish: r.Finish, StopMatch: r.StopMatch}
			res.IDs = append(res.IDs, r.IDs...)
			res.Reroutes += r.Reroutes
			res.Route, res.Verified = r.Route, r.Verified
			if e.Choice == 0 {
				res.Finish = r.Finish
			}
		}
		return nil
	})
	return res, err
}

// keep puts one of the last batch's answers behind the session's text.
func (t *talk) keep(ctx context.Context, f *fields) *closing {
	index, given := f.integer("index", 0, maxAnswers, 0)
	err := f.err
	switch {
	case err != nil:
	case !given:
		err = api.Invalid("index", "index is missing: say which answer the session goes on from")
	case index >= len(t.answers):
		err = api.Invalid("index", "index is %d: the last frame but truncate and keep gave %d answers", index, len(t.answers))
	default:
		err = t.session.Keep(t.answers[index])
	}
	if err != nil {
		return t.refuse(ctx, err)
	}
	t.answers = nil
	pos := len(t.session.IDs())
	t.send(ctx, gen.SocketState{Ok: true, Type: gen.SocketStateTypeKeep, Position: &pos})
	return nil
}
