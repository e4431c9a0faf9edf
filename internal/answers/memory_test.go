package answers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"whorl/internal/answers"
	"whorl/internal/answers/answerstest"
)

func TestMemory(t *testing.T) {
	answerstest.Shelf(t, func(_ *testing.T, l answers.Limits) answers.Shelf { return answers.NewMemory(l) })
}

func TestNone(t *testing.T) {
	var s answers.None
	if kept, err := s.Put(t.Context(), answers.Answer{ID: "resp_x"}); kept || err != nil {
		t.Error(kept, err)
	}
	if _, err := s.Get(t.Context(), "", "resp_x", time.Now()); !errors.Is(err, answers.ErrNone) {
		t.Error(err)
	}
	if err := errors.Join(s.Drop(t.Context(), "", "resp_x"), s.Prune(t.Context(), time.Now())); !errors.Is(err, answers.ErrNone) {
		t.Error(err)
	}
}

// What was forgotten is counted no more.
func TestMemoryCounts(t *testing.T) {
	m := answers.NewMemory(answers.MemoryLimits())
	for i := range 50 {
		id := fmt.Sprint(i)
		if _, err := m.Put(t.Context(), answers.Answer{ID: id, User: fmt.Sprint(i % 3), Body: make([]byte, i)}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			m.Drop(t.Context(), "", id)
		}
	}
	if err := m.Prune(t.Context(), time.Now()); err != nil { // all are of the year 1
		t.Fatal(err)
	}
	if n, bytes, users := m.Taken(); n != 0 || bytes != 0 || users != 0 {
		t.Errorf("%d answers of %d bytes by %d users are left of nothing", n, bytes, users)
	}
}
