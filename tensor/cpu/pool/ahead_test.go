package pool

import "testing"

// The caller takes tiles from the last on, workers from the first on.
func TestPoolTakesFromBothEnds(t *testing.T) {
	p := New(1)
	p.ticket.Store(5 << 32)
	for _, want := range []struct{ worker, tile int }{{0, 4}, {1, 0}, {2, 1}, {0, 3}, {1, 2}} {
		if got, ok := p.next(want.worker); !ok || got != want.tile {
			t.Errorf("worker %d won tile %d, %v; want %d", want.worker, got, ok, want.tile)
		}
	}
	for worker := range 3 {
		if got, ok := p.next(worker); ok {
			t.Errorf("worker %d won tile %d when all were taken", worker, got)
		}
	}
}

// A thread reads each of its runs, chunk by chunk, and then no more; a new forecast starts anew.
func TestReadsItsRunsOnce(t *testing.T) {
	f := Forecast{nil, {{Chunks: 3}, {Chunks: 0}, {Chunks: 2}}}
	g := Forecast{{{Chunks: 1}}, nil}
	r := reader{}
	for i, want := range []struct {
		of     *Forecast
		thread int
		chunks int
	}{{nil, 1, 0}, {&f, 1, 5}, {&f, 1, 0}, {&g, 0, 1}, {&f, 1, 5}, {&f, 0, 0}} {
		chunks := 0
		for r.read(want.of, want.thread) {
			chunks++
		}
		if chunks != want.chunks {
			t.Errorf("%d: read %d chunks, want %d", i, chunks, want.chunks)
		}
	}
}
