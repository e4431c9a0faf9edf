package share

import (
	"errors"
	"fmt"

	"whorl/swarm"
)

// Kinds of failures, for errors.Is.
var (
	// ErrNobody: nobody who was asked has it.
	ErrNobody = errors.New("nobody in the swarm has it")
	// ErrWrong: what a peer sent is not what its hash names. The peer is to blame.
	ErrWrong = errors.New("a peer sent other bytes than those asked for")
)

// Missing says what could not be had of an object.
type Missing struct {
	Object
	Lacking []int // pieces; nil for an object of which nothing is known
	Asked   int   // peers that answered or failed
	Last    error // of the failures the last; nil if all answered
}

func (m *Missing) Error() string {
	what := "object " + m.Root.Short()
	if n := m.Pieces(); n > 0 && m.Lacking != nil {
		what = fmt.Sprintf("%d of %d MiB of %s", len(m.Lacking), n, what)
	}
	text := fmt.Sprintf("%s: %v (%d peers asked)", what, ErrNobody, m.Asked)
	if m.Last != nil {
		text += "; the last failure: " + m.Last.Error()
	}
	return text
}

// Unwrap gives the kind and the last cause.
func (m *Missing) Unwrap() []error {
	if m.Last == nil {
		return []error{ErrNobody}
	}
	return []error{ErrNobody, m.Last}
}

// wrong is the error for bytes that a peer sent.
func wrong(p swarm.PeerID, format string, a ...any) error {
	return fmt.Errorf("%w: %s %s", ErrWrong, p.Short(), fmt.Sprintf(format, a...))
}
