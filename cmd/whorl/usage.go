package main

import (
	"errors"
	"fmt"
	"strings"
)

// usageError is an error of whoever typed the command.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usage marks an error as wrong use; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

func usagef(format string, a ...any) error { return usage(fmt.Errorf(format, a...)) }

// errInterrupted ends a command whose answer a signal cut short.
var errInterrupted = errors.New("interrupted")

// oneLine is an error on one line, whatever a library put into it.
func oneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
