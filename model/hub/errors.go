package hub

import (
	"errors"
	"fmt"
)

// Kinds of failures, for errors.Is. The message of the error says what to do.
var (
	ErrGated    = errors.New("the model is gated")
	ErrNotFound = errors.New("not found at the hub")
	ErrToken    = errors.New("the hub refuses the token")
	ErrOffline  = errors.New("offline, and not in the cache")
	ErrDisk     = errors.New("the disk is full")
	ErrLimited  = errors.New("the hub limits requests")
	ErrDamaged  = errors.New("what the hub sent is damaged")
	ErrReach    = errors.New("the hub cannot be reached")
)

// failure is an error of a kind with a message of its own.
type failure struct {
	kind error
	text string
	err  error // cause; may be nil
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.text + ": " + f.err.Error()
	}
	return f.text
}

func (f *failure) Unwrap() []error {
	if f.err != nil {
		return []error{f.kind, f.err}
	}
	return []error{f.kind}
}

func failed(kind, err error, format string, a ...any) error {
	return &failure{kind, fmt.Sprintf(format, a...), err}
}

// onDisk says of a failure to write that the disk is full, if it is.
func onDisk(err error, path string) error {
	if diskFull(err) {
		return failed(ErrDisk, err, "no room for %s: free some, choose another folder with --cache-dir, or let older models go with --max-disk-space", path)
	}
	return err
}
