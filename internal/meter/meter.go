// Package meter measures what tests bound: memory that a call allocates and time that the
// processor worked, neither of which a busy machine changes. It is for tests alone, of which
// none runs in parallel with others of its package.
package meter

import (
	"runtime"
	"testing"
	"time"
)

// Allocated is how many bytes f allocates, those that were freed since too.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Worked is the processor time that f takes, of all threads.
func Worked(t testing.TB, f func()) time.Duration {
	t.Helper()
	begin := worked(t)
	f()
	return worked(t) - begin
}

// worked is the processor time that this process has used.
func worked(t testing.TB) time.Duration {
	t.Helper()
	took, err := processorTime()
	if err != nil {
		t.Fatal(err)
	}
	return took
}
