package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/client"
	"whorl/swarm"
)

// Ask is one request for answers, whatever its dialect. How answers are drawn is in Request,
// which is the same for all of them but for prompt, seed and MaxNewTokens.
type Ask struct {
	Engine   Engine
	Request  client.Request
	BadWords []string // texts
	Prompts  [][]int32
	Param    string // the field of the prompts, for errors
	Answers  int    // of each prompt
	Tokens   *int   // most of an answer; nil: Default, or what room is left
	Default  int
	Verify   int // chains that compute the answers; see Verifying
}

// Turn is one answer, or the answers of one beam search: a session of its own that ends with
// it.
type Turn struct {
	Choice  int // the first answer that it makes, counted over all of the request
	Answers int // how many it makes
	Engine  Engine
	Request client.Request
	Verify  int // chains that compute it
}

// Event is what becomes of one answer.
type Event struct {
	Choice int
	Delta  *client.Delta  // a piece of it; or
	Result *client.Result // its end; or, if both are nil, nothing came for a while
}

// maxAnswers is how many answers one request may ask for, over all of its prompts.
const maxAnswers = 4096

// Turns checks a request, so that what is wrong with it is found before a session is opened,
// and makes its turns. Answers to one prompt differ by their seed, or are those of one beam
// search.
func (a *API) Turns(ctx context.Context, q Ask) ([]Turn, error) {
	if most := a.caps.Load().Answers; q.Answers > most {
		return nil, Unsupported("n", "n is %d: this gateway gives at most %d answers to a prompt", q.Answers, most)
	}
	if n := q.Answers * len(q.Prompts); n > maxAnswers {
		return nil, Unsupported(q.Param, "%d answers are asked for: one request may have %d", n, maxAnswers)
	}
	if err := a.FinishSampling(q.Engine, &q.Request, q.BadWords); err != nil {
		return nil, err
	}
	room, longest := q.Engine.Room(ctx, client.SessionOptions{Beams: q.Request.Beams.Beams}), 0
	for _, p := range q.Prompts {
		longest = max(longest, len(p))
	}
	if q.Request.Guidance != nil {
		longest = max(longest, len(q.Request.Guidance.Other))
	}
	q.Request.MaxNewTokens = Value(q.Tokens, max(1, min(q.Default, room-longest)))
	if err := checkGuidance(q.Engine, room, &q.Request); err != nil {
		return nil, err
	}
	turns, each := q.Answers, 1
	if q.Request.Beams.Beams > 1 {
		turns, each = 1, q.Answers
	}
	var out []Turn
	for i, p := range q.Prompts {
		if err := checkPrompt(q.Engine, room, q.Param, p, q.Request.MaxNewTokens); err != nil {
			return nil, err
		}
		for k := range turns {
			t := Turn{Choice: i*q.Answers + k, Answers: each, Engine: q.Engine, Request: q.Request, Verify: q.Verify}
			t.Request.Prompt = p
			t.Request.Sampling.Seed += uint64(k)
			out = append(out, t)
		}
	}
	return out, nil
}

// choices are the results of a turn, one for each answer: a search may find fewer.
func (t *Turn) choices(res client.Result) []client.Result {
	out := make([]client.Result, t.Answers)
	if len(res.Answers) == 0 {
		out[0] = res
	}
	for i, a := range res.Answers[:min(len(res.Answers), t.Answers)] {
		r := res
		r.IDs, r.Text, r.Finish, r.StopMatch = a.IDs, a.Text, a.Finish, a.StopMatch
		out[i] = r
	}
	return out
}

// run opens the session, generates and closes it.
func (a *API) run(ctx context.Context, t Turn, emit func(client.Delta) error) (client.Result, error) {
	leave, err := begin(ctx)
	if err != nil {
		return client.Result{}, err
	}
	defer leave()
	prompt, tokens := len(t.Request.Prompt), t.Request.MaxNewTokens
	s, err := t.Engine.Open(ctx, client.SessionOptions{MaxLength: prompt + tokens, Prompt: prompt, Beams: t.Request.Beams.Beams, Verify: t.Verify})
	var room *client.RoomError
	if errors.As(err, &room) { // servers left since it was checked
		return client.Result{}, overflow("prompt", room.Most, room.Asked, fmt.Sprintf("%d in the prompt, %d in the completion", prompt, tokens))
	}
	if err != nil {
		return client.Result{}, err
	}
	defer s.Close()
	return a.Continue(ctx, t.Engine, s, t.Request, emit)
}

// Continue runs one turn of a session and counts it.
func (a *API) Continue(ctx context.Context, e Engine, s Session, r client.Request, emit func(client.Delta) error) (client.Result, error) {
	res, err := s.Generate(ctx, r, emit)
	a.metrics.turn(a.label(e), res, err)
	Spend(ctx, res.PromptTokens, len(res.IDs))
	return res, err
}

// Answers runs turns, a few at a time, and returns what all choices came to; the first failure
// ends all.
func (a *API) Answers(ctx context.Context, turns []Turn) ([]client.Result, error) {
	parts := make([][]client.Result, len(turns))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.Limits.Choices)
	for i, t := range turns {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return contextError(ctx) // another one failed, or the time is over, before its turn came
			}
			res, err := a.run(ctx, t, nil)
			parts[i] = t.choices(res)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []client.Result
	for _, p := range parts {
		out = append(out, p...)
	}
	return out, nil
}

// ending is a turn's last word.
type ending struct {
	turn   *Turn
	result client.Result
	err    error
}

// Stream runs turns, a few at a time, and tells hear what becomes of each choice, from this
// goroutine: pieces as they come, then its end, and an empty event each time that nothing came
// for KeepAlive. It returns when all turns have ended, however that came. An error of a turn or
// of hear ends all.
func (a *API) Stream(ctx context.Context, turns []Turn, hear func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan Event) // unbuffered: a slow reader slows the turn, not our memory
	ends := make(chan ending, len(turns))
	places := make(chan struct{}, a.Limits.Choices)
	for _, t := range turns {
		go func() {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				ends <- ending{&t, client.Result{}, contextError(ctx)}
				return
			}
			res, err := a.run(ctx, t, func(d client.Delta) error {
				select {
				case news <- Event{Choice: t.Choice, Delta: &d}:
					return nil
				case <-ctx.Done():
					return contextError(ctx)
				}
			})
			ends <- ending{&t, res, err}
		}()
	}
	left, err := a.pump(ctx, hear, news, ends, len(turns))
	cancel()
	for ; left > 0; left-- {
		// What a turn died of says more than that the time is over.
		if e := <-ends; e.err != nil && (swarm.CodeOf(err) == swarm.CodeTimeout || err == nil) && swarm.CodeOf(e.err) != swarm.CodeCancelled {
			err = e.err
		}
	}
	return err
}

// pump passes on what running turns say until all have ended or something fails. left is how
// many have not ended.
func (a *API) pump(ctx context.Context, hear func(Event) error, news <-chan Event, ends <-chan ending, turns int) (left int, err error) {
	silence := time.NewTicker(a.Limits.KeepAlive)
	defer silence.Stop()
	for left = turns; left > 0 && err == nil; {
		select {
		case e := <-news:
			err = hear(e)
			silence.Reset(a.Limits.KeepAlive)
		case e := <-ends:
			left--
			switch {
			case e.err != nil:
				err = e.err
			case e.result.Finish == client.FinishCancelled && ctx.Err() != nil:
				err = contextError(ctx)
			default:
				err = hearEnd(e, hear)
			}
		case <-silence.C:
			err = hear(Event{})
		case <-ctx.Done():
			err = contextError(ctx)
		}
	}
	return left, err
}

// hearEnd tells the end of a turn's choices. Those behind the first were not told as they came.
func hearEnd(e ending, hear func(Event) error) error {
	for i, r := range e.turn.choices(e.result) {
		if i > 0 {
			if r.Echo != nil {
				if err := hear(Event{Choice: e.turn.Choice + i, Delta: &client.Delta{Text: r.Echo.Text, Echo: true}}); err != nil {
					return err
				}
			}
			if err := hear(Event{Choice: e.turn.Choice + i, Delta: &client.Delta{Text: r.Text, IDs: r.IDs}}); err != nil {
				return err
			}
		}
		if err := hear(Event{Choice: e.turn.Choice + i, Result: &r}); err != nil {
			return err
		}
	}
	return nil
}

// contextError is why a context ended, as an error with a code.
func contextError(ctx context.Context) error {
	err := context.Cause(ctx)
	var coded *swarm.Error
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the deadline of the request passed")
	case errors.Is(err, context.Canceled):
		return swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "the request was cancelled")
	}
	return err
}

// SeedOr is the seed given, or a fresh one.
func SeedOr(seed *int64) uint64 {
	if seed != nil {
		return uint64(*seed)
	}
	return rand.Uint64()
}
