package api

import (
	"context"
	"errors"
	"fmt"

	"whorl/client"
	"whorl/swarm"
)

// checkPrompt refuses what can be refused before a session is opened: a prompt that says
// nothing, ids that are none, and more positions than there is room for.
func checkPrompt(e Engine, room int, param string, prompt []int32, asked int) error {
	if len(prompt) == 0 {
		return Invalid(param, "%s is empty: there is nothing to continue", param)
	}
	if err := CheckIDs(e, param, prompt); err != nil {
		return err
	}
	if len(prompt)+asked > room {
		return overflow(param, room, len(prompt)+asked, fmt.Sprintf("%d in the %s, %d in the completion", len(prompt), param, asked))
	}
	return nil
}

// CheckPrompt is the same for a prompt that gets no answer.
func CheckPrompt(ctx context.Context, e Engine, param string, prompt []int32) error {
	return checkPrompt(e, e.Room(ctx, client.SessionOptions{}), param, prompt, 0)
}

// CheckIDs refuses ids that a model does not have.
func CheckIDs(e Engine, param string, ids []int32) error {
	vocab := e.Model().Vocab
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return Invalid(param, "%s has the id %d, which is outside the vocabulary of %d", param, id, vocab)
		}
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

// EncodeError makes what goes wrong with a text the caller's concern.
func EncodeError(e Engine, param string, err error) error {
	var coded *swarm.Error
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, client.ErrTooLong):
		room := e.Room(context.Background(), client.SessionOptions{}) // of the view that there is: this waits for nothing
		return overflow(param, room, 2*e.Model().MaxLength+1, fmt.Sprintf("that many or more in the %s", param))
	case errors.Is(err, client.ErrNoTemplate), errors.Is(err, client.ErrNoTokenizer):
		return Unsupported(param, "%w", err)
	}
	return Invalid(param, "%s cannot be turned into tokens: %w", param, err)
}
