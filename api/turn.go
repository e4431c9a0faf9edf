package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"whorl/client"
	"whorl/swarm"
)

// turn is one answer of a one-shot request: a session of its own that ends with it.
type turn struct {
	index   int // of the choice
	answers int // choices that it makes, this one and those behind it; 0: another turn makes it
	engine  Engine
	req     client.Request
}

// choices are the results of a turn, one for each answer.
func (t *turn) choices(res client.Result) []client.Result {
	if len(res.Answers) == 0 {
		return []client.Result{res}
	}
	var out []client.Result
	for _, a := range res.Answers {
		r := res
		r.IDs, r.Text, r.Finish, r.StopMatch = a.IDs, a.Text, a.Finish, a.StopMatch
		out = append(out, r)
	}
	return out
}

// run opens the session, generates and closes it.
func (a *API) run(ctx context.Context, t turn, emit func(client.Delta) error) (client.Result, error) {
	s, err := t.engine.Open(ctx, client.SessionOptions{MaxLength: len(t.req.Prompt) + t.req.MaxNewTokens, Beams: t.req.Beams.Beams})
	var room *client.RoomError
	if errors.As(err, &room) { // servers left since it was checked
		return client.Result{}, overflow("prompt", room.Most, room.Asked, fmt.Sprintf("%d in the prompt, %d in the completion", len(t.req.Prompt), t.req.MaxNewTokens))
	}
	if err != nil {
		return client.Result{}, err
	}
	defer s.Close()
	return a.generate(ctx, t.engine, s, t.req, emit)
}

// generate runs one turn of a session and counts it.
func (a *API) generate(ctx context.Context, e Engine, s Session, r client.Request, emit func(client.Delta) error) (client.Result, error) {
	res, err := s.Generate(ctx, r, emit)
	a.metrics.turn(e.Model().Name, res, err)
	return res, err
}

// runAll runs the turns side by side; the first failure ends all.
func (a *API) runAll(ctx context.Context, turns []turn) ([]client.Result, error) {
	results := make([]client.Result, len(turns))
	group, ctx := errgroup.WithContext(ctx)
	for i, t := range turns {
		if t.answers == 0 {
			continue
		}
		group.Go(func() error {
			res, err := a.run(ctx, t, nil)
			if err == nil {
				copy(results[i:i+t.answers], t.choices(res))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return results, nil
}

// checkPrompt refuses what can be refused before a session is opened: a prompt that says
// nothing, ids that are none, and more positions than there is room for.
func checkPrompt(e Engine, room int, param string, prompt []int32, asked int) error {
	m := e.Model()
	if len(prompt) == 0 {
		return invalid(param, "%s is empty: there is nothing to continue", param)
	}
	for _, id := range prompt {
		if id < 0 || int(id) >= m.Vocab {
			return invalid(param, "%s has the id %d, which is outside the vocabulary of %d", param, id, m.Vocab)
		}
	}
	if len(prompt)+asked > room {
		return overflow(param, room, len(prompt)+asked, fmt.Sprintf("%d in the %s, %d in the completion", len(prompt), param, asked))
	}
	return nil
}

// overflow says that a request has more tokens than there is room for, in the words that
// clients know: some shorten the conversation when they read them.
func overflow(param string, room, asked int, parts string) error {
	return &paramError{param, swarm.Errorf(swarm.CodeTooLong, swarm.Caller,
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%s). Please reduce the length of the %s or of the completion.",
		room, asked, parts, param)}
}

// encodeError makes what goes wrong with a text the caller's concern.
func encodeError(e Engine, param string, err error) error {
	var coded *swarm.Error
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, client.ErrTooLong):
		limit := e.Model().MaxLength
		return overflow(param, limit, 2*limit+1, fmt.Sprintf("that many or more in the %s", param))
	case errors.Is(err, client.ErrNoTemplate), errors.Is(err, client.ErrNoTokenizer):
		return unsupported(param, "%w", err)
	}
	return invalid(param, "%s cannot be turned into tokens: %w", param, err)
}

// seedOr is the seed given, or a fresh one.
func seedOr(seed *int64) uint64 {
	if seed != nil {
		return uint64(*seed)
	}
	return rand.Uint64()
}

// fingerprint changes when equal seeds may give other answers.
func fingerprint(m client.Model) string { return "fp_" + string(m.UID[:min(12, len(m.UID))]) }

func value[T any](p *T, d T) T {
	if p == nil {
		return d
	}
	return *p
}
