package server

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"whorl/swarm"
	"whorl/swarm/wire"
)

// recordLocked is what the server says of itself now.
func (s *Server) recordLocked() swarm.Record {
	rates, offered := s.pacedLocked()
	r := swarm.Record{
		Protocol: wire.Version, Features: s.features(), Peer: s.deps.Self, UID: s.uid, Manifest: s.cfg.Manifest, Span: *s.span, State: s.state,
		PublicName: s.cfg.PublicName, Version: s.cfg.Version,
		Rates: rates, Throughput: offered, Adapters: s.offeredLocked(),
	}
	if s.deps.Addrs != nil {
		r.Addrs = s.deps.Addrs()
	}
	r.Relay = s.deps.Relayed != nil && s.deps.Relayed()
	if s.cache != nil {
		c := s.cache.Stats()
		r.CacheTotal, r.CacheLeft = c.TotalTokens, s.leftLocked()
		r.MaxLength = s.maxLength(int(c.TotalTokens))
	}
	r.NextRTT, r.Next, r.Load = s.nextRTT, s.next, s.loadLocked()
	if s.state == swarm.Joining && s.deps.Loading != nil {
		r.Loading = s.deps.Loading()
	}
	return r
}

// announce publishes the record.
func (s *Server) announce(ctx context.Context) error {
	s.mu.Lock()
	r, edition := s.recordLocked(), s.edition
	s.mu.Unlock()
	if err := s.deps.Directory.Announce(ctx, r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if edition > s.published {
		s.published = edition
		s.changed.wake()
	}
	return nil
}

// publishedWithin is how long a change waits until others may hear of it.
const publishedWithin = 5 * time.Second

// reviseLocked has others hear at once of what the server is and not only how it fares: its
// adapters, its name.
func (s *Server) reviseLocked() {
	s.edition++
	poke(s.publish)
}

// revised waits until that is announced, which others then ask for; not for long, since the next
// record says it in any case.
func (s *Server) revised(ctx context.Context) {
	late := time.NewTimer(publishedWithin)
	defer late.Stop()
	for {
		s.mu.Lock()
		done, next := s.published >= s.edition, s.changed.next()
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-next:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Tell has others hear of the server as it is now, and waits until it is announced, though not for long.
func (s *Server) Tell(ctx context.Context) {
	s.mu.Lock()
	s.reviseLocked()
	s.mu.Unlock()
	s.revised(ctx)
}

// Republish has the record announced anew, because something that it says has changed.
func (s *Server) Republish() { poke(s.publish) }

// announcer publishes the record after a while, then every Timeouts.Update, and soon after it
// has changed.
func (s *Server) announcer(ctx context.Context, first time.Duration) {
	t := &s.cfg.Timeouts
	next := time.NewTimer(max(first, 1)) // no timer of 0: scripts/check.sh says why
	defer next.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.publish:
			// Cache figures change with every session; states are worth a record at once.
			if !s.changedState() && !s.coalesce(ctx, last.Add(t.Coalesce)) {
				return
			}
		case <-next.C:
			s.pingNext(ctx)
			next.Reset(t.Update)
		}
		last = time.Now()
		if err := s.announce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("announcing failed, trying again", "in", t.Update, "reason", err)
		}
	}
}

// coalesce waits until a time, or until there is something that others must hear of at once;
// false if ctx ended first.
func (s *Server) coalesce(ctx context.Context, until time.Time) bool {
	t := time.NewTimer(max(time.Until(until), 1)) // as in announcer
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-s.publish:
			if s.changedState() {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// said is what of a record others must hear of at once.
type said struct {
	state swarm.State
	span  swarm.Span
	next  swarm.Intent

	edition int
}

// changedState tells whether that differs from when it was last asked.
func (s *Server) changedState() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := said{state: s.state, span: *s.span, edition: s.edition}
	if s.next != nil {
		now.next = *s.next
	}
	changed := now != s.told
	s.told = now
	return changed
}

// maxNext is how many possible successors are measured.
const maxNext = 5

// pingNext measures the round trips to servers that could come after this one in a chain:
// those that hold the block after the span.
func (s *Server) pingNext(ctx context.Context) {
	s.mu.Lock()
	end := s.span.End
	s.mu.Unlock()
	if s.deps.Pinger == nil || end == s.cfg.Manifest.Blocks {
		return
	}
	view, err := s.deps.Directory.View(ctx, s.uid)
	if err != nil {
		return
	}
	var peers []swarm.PeerID
	for i := range view.Servers {
		if r := &view.Servers[i]; r.State == swarm.Online && r.Span.Holds(end) && r.Peer != s.deps.Self {
			peers = append(peers, r.Peer)
		}
	}
	rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	peers = peers[:min(len(peers), maxNext)]
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeouts.Ping)
	defer cancel()
	var mu sync.Mutex // guards rtt
	rtt := map[swarm.PeerID]float64{}
	var pings sync.WaitGroup
	for _, p := range peers {
		pings.Go(func() {
			if d, err := s.deps.Pinger.Ping(ctx, p); err == nil {
				mu.Lock()
				defer mu.Unlock()
				rtt[p] = float64(d.Microseconds()) / 1000
			}
		})
	}
	pings.Wait()
	s.mu.Lock()
	s.nextRTT = rtt
	s.mu.Unlock()
}
