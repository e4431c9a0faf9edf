package meter

import (
	"testing"
	"time"
)

var kept []byte

func TestAllocated(t *testing.T) {
	const size = 1 << 20
	if n := Allocated(func() { kept = make([]byte, size) }); n < size || n > 2*size {
		t.Errorf("%d bytes allocated, want about %d", n, size)
	}
}

// Work counts; waiting does not.
func TestWorked(t *testing.T) {
	const work = 20 * time.Millisecond
	spin := func() {
		for begin := worked(t); worked(t) < begin+work; {
		}
	}
	if n := Worked(t, spin); n < work {
		t.Errorf("%v of work, want at least %v", n, work)
	}
}
