package server

import (
	"cmp"
	"slices"

	"whorl/swarm"
)

// Status is what the server contributes to its node's status: all fields but addresses,
// roles, peers and the swarm's name.
func (s *Server) Status() swarm.NodeStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.cfg.Manifest
	rates, offered := s.pacedLocked()
	if rates.NetworkRPS == nil {
		assumed, _ := s.network()
		rates.AssumedRPS = &assumed
	}
	return swarm.NodeStatus{
		Peer: s.deps.Self, Version: s.cfg.Version, Started: s.started, Manifest: &m, UID: s.uid,
		State: s.state, Span: s.span, PublicName: s.cfg.PublicName, Rates: rates, Throughput: offered,
		Cache: s.cacheStatusLocked(), Sessions: len(s.byKey), Served: uint64(s.keys), Steps: s.batch.steps, Batch: s.batch.status(), Device: s.cfg.Device, Tier: s.cfg.Tier,
		Next: s.next, Placement: s.placement, Moves: slices.Clone(s.moves), Trouble: s.trouble, Memory: s.memory.status(s.shedOnes),
	}
}

// cacheStatusLocked reads the counters of the cache; there may be none yet.
func (s *Server) cacheStatusLocked() swarm.CacheStatus {
	if s.cache == nil {
		return swarm.CacheStatus{}
	}
	c := s.cache.Stats()
	return swarm.CacheStatus{
		TotalTokens: c.TotalTokens, UsedTokens: c.UsedTokens, LeftTokens: c.LeftTokens,
		TotalBytes: c.TotalBytes, UsedBytes: c.UsedBytes, Waiting: s.admits.Waiting(),
	}
}

// Blocks lists the blocks that are loaded or being loaded, in order.
func (s *Server) Blocks() []swarm.BlockStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]swarm.BlockStatus, 0, len(s.loading))
	for _, b := range s.loading {
		for _, x := range s.byKey {
			if x.span.Holds(b.Index) {
				b.Session++
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b swarm.BlockStatus) int { return a.Index - b.Index })
	return out
}

// Sessions lists the sessions this server is a stage of, oldest first.
func (s *Server) Sessions() []swarm.SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]swarm.SessionStatus, 0, len(s.byKey))
	for _, x := range s.byKey {
		span, bytes, queued := x.span, int64(0), 0
		for _, f := range x.frames {
			queued += f.count - f.done
		}
		if x.home.cache != nil {
			bytes = x.home.cache.Bytes(len(x.pages))
		}
		out = append(out, swarm.SessionStatus{
			ID: x.id.String(), Role: "server", Model: s.cfg.Manifest.Name, Peer: x.client, Span: &span, Epoch: x.route.Epoch,
			Position: x.positionLocked(), MaxLength: x.maxLength, Bytes: bytes, Opened: x.opened, Steps: x.steps, Queued: queued, Stages: x.stride.stages(s.deps.Self, x.span),
		})
	}
	slices.SortFunc(out, func(a, b swarm.SessionStatus) int {
		return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.ID, b.ID), a.Span.Start-b.Span.Start)
	})
	return out
}
