package wiring

import (
	"testing"
	"testing/synctest"
	"time"

	"whorl/swarm/share"
)

// While a node computes for users, and a second longer, its files go at a twentieth of the
// limit and no slower; then they go at all of it.
func TestUploadsYieldToUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute)
		steps := uint64(7)
		busy := &activity{count: func() uint64 { return steps }}
		pace := share.NewPace(20<<20, busy.now)
		mib := func() float64 { // a second
			began := time.Now()
			for range 64 {
				if err := pace.Wait(t.Context(), 64<<10); err != nil {
					t.Fatal(err)
				}
			}
			return 4 / time.Since(began).Seconds()
		}
		busy.now() // the first look is at what was before
		time.Sleep(2 * time.Second)
		if got := mib(); got < 19 {
			t.Errorf("nobody asks for answers, and files go at %.1f of 20 MiB/s", got)
		}
		stop := make(chan struct{})
		go func() {
			for tick := time.Tick(50 * time.Millisecond); ; {
				select {
				case <-tick:
					steps++
				case <-stop:
					return
				}
			}
		}()
		time.Sleep(time.Second)
		if got := mib(); got < 0.99 || got > 1.1 {
			t.Errorf("beside an answer files go at %.2f of 20 MiB/s, want a twentieth", got)
		}
		close(stop)
		busy.now()
		time.Sleep(2 * time.Second)
		if got := mib(); got < 19 {
			t.Errorf("after an answer files go at %.1f of 20 MiB/s", got)
		}
	})
}
