package wiring

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"whorl/server/blocks"
)

// What was measured once is known to the next run and to other processes; another length of
// the span, device or version has figures of its own, and nobody measures beside another.
func TestSpeeds(t *testing.T) {
	s := &speeds{filepath.Join(t.TempDir(), "new", "throughput.json"), "toy on cpu"}
	var runs, busy atomic.Int32
	measure := func() (blocks.Rates, error) {
		if busy.Add(1) > 1 {
			t.Error("two measure at one time")
		}
		defer busy.Add(-1)
		return blocks.Rates{Inference: 100, Forward: 700 + float64(runs.Add(1))}, nil
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if r, _, err := s.Of(t.Context(), 4, false, measure); err != nil || r.Forward != 701 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	if r, known, err := s.Of(t.Context(), 4, false, measure); err != nil || !known || r.Forward != 701 || runs.Load() != 1 {
		t.Errorf("%+v, %v, %v after %d runs", r, known, err, runs.Load())
	}
	if r, known, err := s.Of(t.Context(), 4, true, measure); err != nil || known || r.Forward != 702 {
		t.Errorf("a fresh one: %+v, %v, %v", r, known, err)
	}
	if r, known, _ := s.Of(t.Context(), 5, false, measure); known || r.Forward != 703 {
		t.Errorf("another length: %+v, %v", r, known)
	}
	other := &speeds{s.path, "toy on cuda"}
	if r, known, _ := other.Of(t.Context(), 4, false, measure); known || r.Forward != 704 {
		t.Errorf("another device: %+v, %v", r, known)
	}
	if err := s.Keep(4, blocks.Rates{Inference: 50, Forward: 350}); err != nil {
		t.Fatal(err)
	}
	if r, known, _ := s.Of(t.Context(), 4, false, measure); !known || r.Forward != 350 {
		t.Errorf("what sessions found: %+v, %v", r, known)
	}
	for _, text := range []string{"", "{", `{"4 blocks of toy on cpu": {"inference_rps": -1, "forward_rps": 1}}`, `{"4 blocks of toy on cpu": {"inference_rps": 1e300, "forward_rps": 1}}`, "[]"} {
		if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, known, err := s.Of(t.Context(), 4, false, measure); err != nil || known || r.Inference != 100 {
			t.Errorf("a file of %q: %+v, %v, %v", text, r, known, err)
		}
	}
	if _, _, err := s.Of(t.Context(), 9, false, func() (blocks.Rates, error) { return blocks.Rates{}, errors.New("hot") }); err == nil {
		t.Error("an error is kept")
	}
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if _, _, err := s.Of(ctx, 10, false, measure); err == nil || err.Error() != "stopped" {
		t.Errorf("stopped while another measures: %v", err)
	}
	unlock()
}
