// Package courtesy has this process give way to the other programs of its machine, and
// measures what of the processor they leave it. How threads are scheduled changes no result.
package courtesy

import (
	"sync"
	"time"
)

// sample is how much processor time the machine and this process have used so far, summed
// over processors.
type sample struct {
	at   time.Time
	idle time.Duration // of the machine: nobody wanted it
	own  time.Duration // of this process
}

// left is the part of so many threads that others left this process between two samples, 0
// to 1: what it used and what nobody did, of what its threads could have used.
func left(from, to sample, threads int) float64 {
	want := to.at.Sub(from.at) * time.Duration(threads)
	if want <= 0 {
		return 1
	}
	return min(max(float64(to.idle-from.idle+to.own-from.own)/float64(want), 0), 1)
}

// Windows of a Meter: a first look after the least, a new one after the usual, of which each
// counts for half.
const (
	leastWindow = 200 * time.Millisecond
	window      = 5 * time.Second
)

// Meter follows what others leave this process. Safe for concurrent use.
type Meter struct {
	threads int
	look    func() (sample, error)

	mu    sync.Mutex // guards all below
	last  sample
	share float64
	known bool // share is of a whole window
}

// NewMeter begins to follow, for a process that computes with so many threads. On systems that
// do not tell, the error says so, and the meter stays at 1.
func NewMeter(threads int) (*Meter, error) {
	m := &Meter{threads: threads, look: look, share: 1}
	var err error
	m.last, err = m.look()
	return m, err
}

// Share is the part of its threads' time that others leave this process, 0 to 1, of late.
func (m *Meter) Share() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.look()
	if err != nil || m.last.at.IsZero() {
		return 1
	}
	switch took := now.at.Sub(m.last.at); {
	case took >= window:
		part := left(m.last, now, m.threads)
		if m.known {
			part = (part + m.share) / 2
		}
		m.share, m.known, m.last = part, true, now
	case !m.known && took >= leastWindow:
		m.share = left(m.last, now, m.threads)
	}
	return m.share
}
