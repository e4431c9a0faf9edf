// Package operations keeps what takes a while and is watched meanwhile, such as a node's move to
// other blocks: how far it is, how it ended, and whether somebody wants it ended. It is bounded,
// survives the process in a file, and knows nothing of what is done.
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

	"whorl/swarm"
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
	Group string            // one of a group runs at a time
	Final bool              // it cannot be cancelled
	About map[string]string // what was asked for, for people; nobody changes it
	Key   string            // names the request that began it (Asked); "" if it has no name
	Of    string            // tells requests of one Key apart
}

var (
	// ErrCancelled is why work is to end that nobody wants any more.
	ErrCancelled = errors.New("cancelled by the operator")
	// ErrFinal says that an operation cannot be cancelled.
	ErrFinal = errors.New("it cannot be cancelled")
	// ErrNone says that there is no operation of an id, or none any more.
	ErrNone = errors.New("there is no such operation")
	// ErrOver is why work failed that ran when its process ended.
	ErrOver error = swarm.Errorf(CodeInterrupted, swarm.Again, "the node's process ended while this ran: begin it again if it is still wanted")
)

// CodeInterrupted is that of ErrOver.
const CodeInterrupted swarm.Code = "interrupted"

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
	save    func([]Operation) // keeps all that there are
	saves   sync.Mutex        // held while the set changes and that is kept; before mu

	mu  sync.Mutex // guards all below
	all []*entry   // oldest first
}

type entry struct {
	Operation
	cut    bool // the process ended while it ran
	cancel context.CancelCauseFunc
	next   chan struct{} // closed at the next change
}

// New makes a set in memory alone, whose work ends with ctx, the life of its node. changed, which
// may be nil, hears of each operation that begins or ends.
func New(ctx context.Context, changed func(Operation)) *Set {
	return &Set{ctx: ctx, changed: changed, save: func([]Operation) {}}
}

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
	return s.start(e, work), nil
}

// Continue goes on with the newest operation of a kind that the end of the process cut off; false
// if there is none. work is as for Begin.
func (s *Set) Continue(kind string, work Work) (Operation, bool) {
	s.begins.Lock()
	defer s.begins.Unlock()
	s.mu.Lock()
	var e *entry
	for _, x := range s.all {
		if x.cut && x.Kind == kind {
			e = x
		}
	}
	s.mu.Unlock()
	if e == nil {
		return Operation{}, false
	}
	return s.start(e, work), true
}

// start runs an operation, which is new or was cut off. Whoever hears of it hears of one that is
// kept.
func (s *Set) start(e *entry, work Work) Operation {
	var ctx context.Context
	s.saves.Lock()
	s.mu.Lock()
	e.State, e.Err, e.Ended, e.cut = Running, nil, time.Time{}, false
	ctx, e.cancel = context.WithCancelCause(s.ctx)
	all := s.all
	if !slices.Contains(all, e) {
		all = append(slices.Clone(all), e)
	}
	for i := 0; len(all) > kept && i < len(all); {
		if all[i].State == Running {
			i++
			continue
		}
		all = slices.Delete(all, i, i+1)
	}
	begun, list := e.Operation, snapshot(all)
	s.mu.Unlock()
	s.save(list)
	s.mu.Lock()
	s.all = all
	s.tell(begun)
	s.mu.Unlock()
	s.saves.Unlock()
	if work == nil {
		return s.end(e, nil, nil)
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
	return begun
}

func snapshot(all []*entry) []Operation {
	out := make([]Operation, len(all))
	for i, e := range all {
		out[i] = e.Operation
	}
	return out
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

// end ends an operation. What the end of the process cuts off stays as it is in the file: the next
// run says what becomes of it.
func (s *Set) end(e *entry, result any, err error) Operation {
	s.saves.Lock()
	defer s.saves.Unlock()
	s.mu.Lock()
	o := e.Operation
	o.Ended = time.Now()
	over := err != nil && s.ctx.Err() != nil && !errors.Is(err, ErrCancelled)
	switch {
	case err == nil:
		o.State, o.Result = Done, result
	case errors.Is(err, ErrCancelled):
		o.State, o.Err = Cancelled, err
	case over:
		o.State, o.Err = Failed, ErrOver
	default:
		o.State, o.Err = Failed, err
	}
	list := snapshot(s.all)
	s.mu.Unlock()
	for i := range list {
		if list[i].ID == o.ID {
			list[i] = o
		}
	}
	if !over {
		s.save(list)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Operation = o
	e.cancel(nil)
	s.tell(o)
	e.wakeLocked()
	return o
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
	return snapshot(s.all)
}

// Asked finds the operation that a request began, by the key that it came with.
func (s *Set) Asked(key string) (Operation, bool) {
	for _, o := range slices.Backward(s.List()) {
		if key != "" && o.Key == key {
			return o, true
		}
	}
	return Operation{}, false
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
