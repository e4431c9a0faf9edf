package petals

import (
	"errors"
	"fmt"
	"strings"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

// budgetError says that a turn does not fit its session, with the numbers.
type budgetError struct {
	position, prompt, asked, limit int
}

func (e *budgetError) Error() string {
	return fmt.Sprintf("Maximum length exceeded: prefix %d + prompt %d + new %d exceeds pre-allocated maximum %d", e.position, e.prompt, e.asked, e.limit)
}

func (e *budgetError) Unwrap() error {
	return &swarm.Error{Code: swarm.CodeTooLong, Verdict: swarm.Caller, Message: e.Error()}
}

// Traceback is a failure as clients of the Petals gateway expect it.
func Traceback(f api.Failure, _ string) (mediaType string, body any) {
	return "application/json", failure(f, nil)
}

// failureOf is an error as a frame, with the numbers if it is about a session's length.
func failureOf(f api.Failure, err error) gen.SocketFailure {
	var b *budgetError
	errors.As(err, &b)
	return failure(f, b)
}

func failure(f api.Failure, b *budgetError) gen.SocketFailure {
	text := f.Message
	if !strings.Contains(text, f.Phrase) {
		text = f.Phrase + ": " + text
	}
	e := f.Socket()
	if b != nil {
		e.Position, e.PromptTokens, e.MaxNewTokens, e.MaxLength = &b.position, &b.prompt, &b.asked, &b.limit
	}
	return gen.SocketFailure{Traceback: text, Error: e}
}
