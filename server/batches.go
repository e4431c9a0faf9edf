package server

import (
	"time"

	"whorl/swarm"
)

// batches counts how sessions shared iterations.
type batches struct {
	steps, sessions uint64
	rows, prefill   uint64 // rows in all, and those of prompts and replays
	waited          time.Duration
	recent          float64 // mean of the last ones
}

// batchGain is the weight of one iteration in the recent mean.
const batchGain = 1.0 / 64

// add counts an iteration of so many sessions and rows, some of them of prompts.
func (b *batches) add(sessions, rows, prefill int, waited time.Duration) {
	b.steps++
	b.rows += uint64(rows)
	b.sessions += uint64(sessions)
	b.prefill += uint64(prefill)
	b.waited += waited
	b.recent += max(batchGain, 1/float64(b.steps)) * (float64(sessions) - b.recent)
}

func (b *batches) status() swarm.BatchStatus {
	return swarm.BatchStatus{Sessions: b.sessions, Rows: b.rows, PrefillRows: b.prefill, WaitedSeconds: b.waited.Seconds(), Recent: b.recent}
}
