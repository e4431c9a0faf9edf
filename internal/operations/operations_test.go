package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counts tells of three steps, a second each.
func counts(ctx context.Context, tell func(Progress)) (any, error) {
	for i := range 3 {
		tell(Progress{Done: float64(i), Total: 3, Unit: "steps"})
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return 42, nil
}

func ready(w Work) func() (Work, error) { return func() (Work, error) { return w, nil } }

func show(o Operation) string {
	return fmt.Sprintf("%s %s %v/%v %v %v %v", o.Kind, o.State, o.Progress.Done, o.Progress.Total, o.Result, o.Err, o.Ended.IsZero())
}

func TestOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		var heard []string
		s := New(ctx, func(o Operation) { heard = append(heard, o.Kind+" "+string(o.State)) })
		o, err := s.Begin(Spec{Kind: "move", Group: "blocks"}, ready(counts))
		if err != nil || o.State != Running {
			t.Fatal(o, err)
		}
		var busy *Busy
		if _, err := s.Begin(Spec{Kind: "restart", Group: "blocks"}, func() (Work, error) { panic("it is prepared") }); !errors.As(err, &busy) || busy.Running.ID != o.ID {
			t.Errorf("another of the group: %v", err)
		}
		if _, err := s.Begin(Spec{Kind: "drain", Group: "sessions"}, func() (Work, error) { return nil, errors.New("no blocks") }); err == nil || len(s.List()) != 1 {
			t.Errorf("one that is refused: %v, %v", err, s.List())
		}
		short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if o, _ := s.Wait(short, o.ID); show(o) != "move running 1/3 <nil> <nil> true" {
			t.Error(show(o))
		}
		if o, _ := s.Wait(t.Context(), o.ID); show(o) != "move done 2/3 42 <nil> false" || o.Ended.Sub(o.Began) != 3*time.Second {
			t.Error(show(o))
		}
		if o, err := s.Cancel(o.ID); err != nil || o.State != Done {
			t.Errorf("cancelled after its end: %v %v", show(o), err)
		}

		// What is cancelled ends when its work does, and another may begin then.
		o, _ = s.Begin(Spec{Kind: "restart", Group: "blocks"}, ready(counts))
		time.Sleep(time.Second)
		s.Stop(t.Context(), "blocks")
		if o, _, _ := s.Get(o.ID); show(o) != "restart cancelled 1/3 <nil> cancelled by the operator false" {
			t.Error(show(o))
		}
		if o, err := s.Begin(Spec{Kind: "resume", Group: "blocks"}, ready(nil)); err != nil || show(o) != "resume done 0/0 <nil> <nil> false" {
			t.Error(show(o), err)
		}
		o, _ = s.Begin(Spec{Kind: "shutdown", Group: "end", Final: true}, ready(func(ctx context.Context, _ func(Progress)) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}))
		if _, err := s.Cancel(o.ID); !errors.Is(err, ErrFinal) {
			t.Errorf("what cannot be cancelled: %v", err)
		}
		if _, err := s.Cancel("op_x"); !errors.Is(err, ErrNone) {
			t.Errorf("what is not there: %v", err)
		}
		stop(errors.New("the node ends"))
		s.Close()
		if o, _, _ := s.Get(o.ID); show(o) != "shutdown failed 0/0 <nil> "+ErrOver.Error()+" false" {
			t.Error(show(o))
		}
		want := "move running, move done, restart running, restart cancelled, resume running, resume done, shutdown running, shutdown failed"
		if got := strings.Join(heard, ", "); got != want {
			t.Errorf("heard %s", got)
		}
	})
}

// Many operations take no more than their memory, and one that runs is never forgotten.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := New(ctx, nil)
		first, _ := s.Begin(Spec{Kind: "drain", Group: "sessions"}, ready(func(ctx context.Context, _ func(Progress)) (any, error) {
			<-ctx.Done()
			return nil, nil
		}))
		second, _ := s.Begin(Spec{Kind: "resume", Group: "a"}, ready(nil))
		for range 1000 {
			s.Begin(Spec{Kind: "resume", Group: "a"}, ready(nil))
		}
		if n := len(s.List()); n != kept || s.List()[0].ID != first.ID {
			t.Errorf("%d are kept", n)
		}
		if _, _, err := s.Get(second.ID); !errors.Is(err, ErrNone) {
			t.Errorf("an old one: %v", err)
		}
		stop()
		s.Close()
	})
}
