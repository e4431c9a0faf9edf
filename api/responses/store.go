package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/answers"
	"whorl/swarm"
)

// shelfTime bounds a look into what is kept, and keeping something: an answer waits for it.
const shelfTime = 5 * time.Second

// stored is a response with what it answered, as it is kept.
type stored struct {
	Response gen.Response       `json:"response"`
	Input    []gen.ResponseItem `json:"input"`
	History  []gen.ChatMessage  `json:"history"` // all up to its end, without instructions
}

// put keeps a response for whoever sent a request; false if it is not kept.
func (a Dialect) put(r *http.Request, s *stored) bool {
	body, err := json.Marshal(s)
	if err != nil {
		panic(err) // our own types
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), shelfTime)
	defer cancel()
	kept, err := a.Kept.Put(ctx, answers.Answer{
		ID: s.Response.Id, Owner: api.OwnerOf(ctx), User: api.UserOf(r), Body: body, Created: time.Now().UTC().Truncate(time.Microsecond),
	})
	if err != nil { // the answer itself is there: it is told, with store: false
		a.Log.Warn("a response could not be kept, so nobody can go on from it", "response", s.Response.Id, "reason", err)
	}
	return kept
}

// get is a kept response; an error if there is none for whoever asks.
func (a Dialect) get(ctx context.Context, id string) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, shelfTime)
	defer cancel()
	body, err := a.Kept.Get(ctx, api.OwnerOf(ctx), id, time.Now())
	if err != nil {
		return nil, shelfError(err)
	}
	s := new(stored)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, shelfError(err)
	}
	return s, nil
}

// drop forgets a kept response.
func (a Dialect) drop(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, shelfTime)
	defer cancel()
	return shelfError(a.Kept.Drop(ctx, api.OwnerOf(ctx), id))
}

// shelfError says what a look into what is kept came to.
func shelfError(err error) error {
	if err == nil || errors.Is(err, answers.ErrNone) {
		return err
	}
	return swarm.Errorf(api.CodeShelf, swarm.Again, "responses that are kept cannot be reached now: %w", err)
}
