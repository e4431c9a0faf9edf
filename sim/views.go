package sim

import (
	"time"

	"whorl/swarm"
	"whorl/swarm/balance"
)

// views is what servers know of each other.
type views interface {
	come(s *server)                        // it hears from its first peers
	tell(s *server)                        // it has a new record
	lose(s *server, expires time.Duration) // it is gone without a word
	census(s *server) *balance.Census
	view(s *server) swarm.View
	cut()
	join()
}

// maxViews is up to how many servers each has a view of its own.
const maxViews = 500

// shared is one view for all, in which every record arrives after a time taken from small swarms.
type shared struct {
	w *world
	c *balance.Census
	r map[swarm.PeerID]swarm.Record
}

// spreadSmall is how long the directory takes to tell everybody in a swarm of maxViews servers, at the median
// (docs/sim.md), and spreadDoubled what each doubling adds: asking three tellers, whoever lacks a
// record are fewer by much more than half in each round.
const (
	spreadSmall   = 8 * time.Second
	spreadDoubled = 500 * time.Millisecond
)

func newShared(w *world) *shared {
	return &shared{w, balance.Count(swarm.NewView(swarm.Manifest{Name: "m", Blocks: w.sc.Blocks}, epoch, nil), nil), map[swarm.PeerID]swarm.Record{}}
}

func (h *shared) delay() time.Duration {
	d := spreadSmall
	for n := len(h.w.servers); n > maxViews; n /= 2 {
		d += spreadDoubled
	}
	return d
}

func (h *shared) come(*server) {}

func (h *shared) tell(s *server) {
	r := s.record
	h.w.after(h.delay(), func() { h.put(r) })
}

func (h *shared) put(r swarm.Record) {
	if old, ok := h.r[r.Peer]; ok && old.Seq >= r.Seq {
		return
	}
	h.r[r.Peer] = r
	h.c.Put(&r, false, h.w.past.Unsteady(r.Peer, h.w.clock()))
}

func (h *shared) lose(s *server, expires time.Duration) {
	if s.record.Seq == 0 {
		return
	}
	s.record.Seq++
	gone := swarm.Record{Peer: s.Peer, State: swarm.Offline, Seq: s.record.Seq}
	h.w.after(expires, func() { h.put(gone) })
}

func (h *shared) census(*server) *balance.Census { return h.c }

func (h *shared) view(*server) swarm.View {
	all := make([]swarm.Record, 0, len(h.r))
	for _, r := range h.r {
		if r.State >= swarm.Joining {
			all = append(all, r)
		}
	}
	return swarm.NewView(swarm.Manifest{Name: "m", Blocks: h.w.sc.Blocks}, h.w.clock(), all)
}

func (h *shared) cut()  {}
func (h *shared) join() {}

// lately has a record tell the load of the last while, as a node's memory has it.
func (w *world) lately(r *swarm.Record) {
	if r.Load == nil {
		return
	}
	busy, ok := w.past.Busy(r.Peer)
	if w.sc.Readers.Deaf || !ok {
		r.Load = nil
		return
	}
	load := *r.Load
	load.Busy = busy
	r.Load = &load
}
