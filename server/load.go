package server

import (
	"math"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// busyOver is the time over which the share of time in which the server computes is averaged:
// some records long, so that those who choose by it do not all swing to and fro.
const busyOver = 10 * time.Second

// busy is how much of its time the server computes, of late.
type busy struct {
	mean float64   // share of the time, 0 to 1
	at   time.Time // of the last iteration's end; zero before the first
}

// add takes in that an iteration that ended now took so long.
func (b *busy) add(now time.Time, took time.Duration) {
	if b.at.IsZero() {
		b.at = now.Add(-took)
	}
	passed := max(now.Sub(b.at), took, time.Microsecond)
	share := min(1, took.Seconds()/passed.Seconds())
	b.mean = share + (b.mean-share)*math.Exp(-passed.Seconds()/busyOver.Seconds())
	b.at = now
}

// share is the mean now: nothing was computed since the last iteration.
func (b *busy) share(now time.Time) float64 {
	if b.at.IsZero() {
		return 0
	}
	return math.Round(100*b.mean*math.Exp(-max(0, now.Sub(b.at).Seconds())/busyOver.Seconds())) / 100
}

// tellEvery is the least time between two loads that one session is told.
const tellEvery = 500 * time.Millisecond

// tellLocked has a report say how much the server has to do, if its client reads that.
func (o *outbox) tellLocked(now time.Time) {
	s := o.x.srv
	if !o.x.tells || o.x.home != s.container || now.Sub(o.told) < tellEvery {
		return
	}
	if load := s.loadLocked(); load != nil {
		o.done.Tells, o.done.Told, o.told = true, wire.Told{Load: *load, Left: s.leftLocked()}, now
	}
}

// leftLocked is how many tokens of cache are free for others.
func (s *Server) leftLocked() int64 {
	if s.memory.short != "" { // it takes no sessions
		return 0
	}
	return s.cache.Stats().LeftTokens
}

// loadLocked is how much the server has to do; nil before it serves.
func (s *Server) loadLocked() *swarm.Load {
	if s.state != swarm.Online || s.admits == nil {
		return nil
	}
	return &swarm.Load{Busy: s.busy.share(time.Now()), Sessions: s.count, Waiting: s.admits.Waiting()}
}
