// Package operations keeps what takes a while and is watched meanwhile, such as a node's move to
// other blocks: how far it is, how it ended, and whether somebody wants it ended. It is bounded,
// holds no file, and knows nothing of what is done.
package operations

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// kept is how many operations are remembered; the oldest that have ended go first.
const kept = 100

// State is how an operation is.
type State string

// States. All but Running are ends.
const (
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Progress is how far an operation is; of the zero value nothing is known.
type Progress struct {
	Done, Total float64
	Unit        string // what is counted
	Note        string
}

// Operation is a moment of one.
type Operation struct {
	ID string
	Spec
	State    State
	Began    time.Time
	Ended    time.Time // zero while it runs
	Progress Progress
	Result   any   // of one that is done
	Err      error // of one that failed or was cancelled
}

// Work does something until it is done or ctx ends, of which ErrCancelled is the cause if
// somebody wants it ended. tell may be called from anywhere until the return.
type Work func(ctx context.Context, tell func(Progress)) (result any, err error)

// Spec says what an operation is to others.
type Spec struct {
	Kind  string
	Group string // one of a group runs at a time
	Final bool   // it cannot be cancelled
}

var (
	// ErrCancelled is why work is to end that nobody wants any more.
	ErrCancelled = errors.New("cancelled by the operator")
	// ErrFinal says that an operation cannot be cancelled.
	ErrFinal = errors.New("it cannot be cancelled")
	// ErrNone says that there is no operation of an id, or none any more.
	ErrNone = errors.New("there is no such operation")
)

// Busy says that another operation of the group runs.
type Busy struct{ Running Operation }

func (e *Busy) Error() string {
	return fmt.Sprintf("the operation %s (%s) is running", e.Running.ID, e.Running.Kind)
}

// Set is the operations of a node. Safe for concurrent use.
type Set struct {
	ctx     context.Context // of all work: the node's life, not that of a request
	changed func(Operation) // hears of each that begins or ends, before others do; it does not call the set. nil: nobody
	begins  sync.Mutex      // held while one begins
	work    sync.WaitGroup

	mu  sync.Mutex // guards all below
	all []*entry   // oldest first
}

type entry struct {
	Operation
	cancel context.CancelCauseFunc
	next   chan struct{} // closed at the next change
}

// New makes a set whose work ends with ctx, the life of its node. changed, which may be nil, hears
// of each operation that begins or ends.
func New(ctx context.Context, changed func(Operation)) *Set { return &Set{ctx: ctx, changed: changed} }

// Begin begins an operation. prepare does what others must see at once, refuses what cannot be
// done, and returns the work that is left; nil if none is. It is not called where an operation of
// the group runs: that is a *Busy.
func (s *Set) Begin(spec Spec, prepare func() (Work, error)) (Operation, error) {
	s.begins.Lock()
	defer s.begins.Unlock()
	if running, ok := s.running(spec.Group); ok {
		return Operation{}, &Busy{running}
	}
	work, err := prepare()
	if err != nil {
		return Operation{}, err
	}
	var id [6]byte
	rand.Read(id[:])
	e := &entry{Operation: Operation{ID: "op_" + hex.EncodeToString(id[:]), Spec: spec, State: Running, Began: time.Now()}, next: make(chan struct{})}
	var ctx context.Context
	ctx, e.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	s.all = append(s.all, e)
	for i := 0; len(s.all) > kept && i < len(s.all); {
		if s.all[i].State == Running {
			i++
			continue
		}
		s.all = slices.Delete(s.all, i, i+1)
	}
	begun := e.Operation
	s.tell(begun)
	s.mu.Unlock()
	if work == nil {
		return s.end(e, nil, nil), nil
	}
	s.work.Go(func() {
		result, err := work(ctx, func(p Progress) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if p != e.Progress && e.State == Running {
				e.Progress = p
				e.wakeLocked()
			}
		})
		s.end(e, result, err)
	})
	return begun, nil
}

// running is the one of a group that runs.
func (s *Set) running(group string) (Operation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.Group == group && e.State == Running {
			return e.Operation, true
		}
	}
	return Operation{}, false
}

func (s *Set) end(e *entry, result any, err error) Operation {
	s.mu.Lock()
	e.Ended = time.Now()
	switch {
	case err == nil:
		e.State, e.Result = Done, result
	case errors.Is(err, ErrCancelled):
		e.State, e.Err = Cancelled, err
	default:
		e.State, e.Err = Failed, err
	}
	e.cancel(nil)
	s.tell(e.Operation)
	e.wakeLocked()
	defer s.mu.Unlock()
	return e.Operation
}

func (s *Set) tell(o Operation) {
	if s.changed != nil {
		s.changed(o)
	}
}

func (e *entry) wakeLocked() {
	close(e.next)
	e.next = make(chan struct{})
}

// Get is an operation as it is, and a channel that is closed once it has changed.
func (s *Set) Get(id string) (Operation, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.ID == id {
			return e.Operation, e.next, nil
		}
	}
	return Operation{}, nil, ErrNone
}

// Wait waits until an operation has ended, or ctx has, and tells how it is then.
func (s *Set) Wait(ctx context.Context, id string) (Operation, error) {
	for {
		o, next, err := s.Get(id)
		if err != nil || o.State != Running {
			return o, err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return o, nil
		}
	}
}

// List is all that are remembered, oldest first.
func (s *Set) List() []Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Operation, len(s.all))
	for i, e := range s.all {
		out[i] = e.Operation
	}
	return out
}

// Cancel asks an operation to end. One that has ended stays as it is.
func (s *Set) Cancel(id string) (Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.ID != id {
			continue
		}
		if e.State == Running {
			if e.Final {
				return e.Operation, ErrFinal
			}
			e.cancel(ErrCancelled)
		}
		return e.Operation, nil
	}
	return Operation{}, ErrNone
}

// Stop cancels the one of a group that runs, if one does, and waits until it has ended, or ctx has.
func (s *Set) Stop(ctx context.Context, group string) {
	if o, ok := s.running(group); ok {
		if _, err := s.Cancel(o.ID); err == nil {
			s.Wait(ctx, o.ID)
		}
	}
}

// Close waits until all work has ended. The node's context must have.
func (s *Set) Close() { s.work.Wait() }
