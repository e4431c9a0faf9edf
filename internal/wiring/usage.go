package wiring

import (
	"errors"
	"fmt"
	"strings"
)

// UsageError is an error of whoever typed the command.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Usage marks an error as wrong use; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

func Usagef(format string, a ...any) error { return Usage(fmt.Errorf(format, a...)) }

// ErrInterrupted ends a command whose answer a signal cut short.
var ErrInterrupted = errors.New("interrupted")

// OneLine is an error on one line, whatever a library put into it.
func OneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
