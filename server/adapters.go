package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"whorl/internal/backoff"
	"whorl/server/blocks"
	"whorl/swarm"
)

// heldAdapter is an adapter in its place; one without a name is a place that is free.
type heldAdapter struct {
	swarm.Adapter
	leaving bool // no new sessions: it goes once those that use it have ended
}

// offeredLocked are the adapters that new sessions may ask for.
func (s *Server) offeredLocked() []swarm.Adapter {
	var out []swarm.Adapter
	for _, a := range s.adapters {
		if a.Name != "" && !a.leaving {
			out = append(out, a.Adapter)
		}
	}
	return out
}

// Adapters lists the adapters that the server holds, by their places.
func (s *Server) Adapters() []swarm.AdapterStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []swarm.AdapterStatus
	for use, a := range s.adapters {
		if a.Name != "" {
			out = append(out, swarm.AdapterStatus{Adapter: a.Adapter, Leaving: a.leaving, Sessions: s.usersLocked(use)})
		}
	}
	return out
}

// usersLocked counts the sessions and passes with an adapter.
func (s *Server) usersLocked(use int) (n int) {
	for _, x := range s.byKey {
		if x.adapter == use {
			n++
		}
	}
	for _, c := range s.containersLocked() {
		for _, p := range c.trains {
			if p.adapter == use {
				n++
			}
		}
	}
	return n
}

// adapterLocked finds the place of the adapter that a session asks for, -1 for none.
func (s *Server) adapterLocked(want *swarm.Adapter) (int, error) {
	if want == nil {
		return -1, nil
	}
	offered := s.offeredLocked()
	if err := want.Validate(); err != nil {
		return -1, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a session asks for an adapter that cannot be (%w): %s", err, s.holds(offered))
	}
	asked := fmt.Sprintf("a session asks for the adapter %q with digest %.12q", want.Name, want.Digest)
	for use, a := range s.adapters {
		switch {
		case a.leaving || a.Name == "":
		case a.Adapter == *want:
			return use, nil
		case a.Name == want.Name:
			return -1, swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "%s, and server %s holds another of this name, with digest %.12q: ask for that one, or start a server with the same files",
				asked, s.deps.Self.Short(), a.Digest)
		}
	}
	return -1, swarm.Errorf(swarm.CodeWrongModel, swarm.Elsewhere, "%s: %s", asked, s.holds(offered))
}

// holdsMost is how many adapters a refusal lists.
const holdsMost = 8

// holds says which adapters there are, and what may be done.
func (s *Server) holds(offered []swarm.Adapter) string {
	self := s.deps.Self.Short()
	if len(offered) == 0 {
		return fmt.Sprintf("server %s holds none: ask a server that was started with --adapters", self)
	}
	var names []string
	for _, a := range offered[:min(len(offered), holdsMost)] {
		names = append(names, fmt.Sprintf("%q", a.Name))
	}
	if more := len(offered) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("server %s holds %s: ask for one of these, or start a server with --adapters", self, strings.Join(names, ", "))
}

// LoadAdapter has the server hold another adapter, beside its sessions, and announce it. The caller
// keeps a open until UnloadAdapter has returned or the server has ended.
func (s *Server) LoadAdapter(ctx context.Context, a *blocks.AdapterFile) error {
	l, ok := s.deps.Loader.(adapting)
	if !ok {
		return swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "this server cannot take adapters while it runs")
	}
	named := swarm.Adapter{Name: a.Name, Digest: a.Digest}
	return s.orderWhenFree(ctx, func(ctx context.Context) error {
		s.mu.Lock()
		c, state, held := s.container, s.state, 0
		for _, b := range s.adapters {
			switch {
			case b.Name == a.Name && b.leaving:
				s.mu.Unlock()
				return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "an adapter named %q is being unloaded: load this one once that has ended", a.Name)
			case b.Name == a.Name:
				s.mu.Unlock()
				return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "an adapter named %q is held already, with digest %.12s: unload that one first", a.Name, b.Digest)
			case b.Name != "":
				held++
			}
		}
		s.mu.Unlock()
		switch {
		case held >= swarm.MaxAdapters:
			return swarm.Errorf(swarm.CodeTooMany, swarm.Caller, "the server holds %d adapters, and a record announces no more: unload one, or load it on another server", held)
		case state != swarm.Online || c.broken != nil:
			return notThere(state)
		}
		took := int64(0)
		use, err := l.AddAdapter(ctx, c.engine, a, func(bytes int64) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if left := s.room.Spare - s.cfg.Spare; bytes > left {
				return swarm.Errorf(swarm.CodeTooMany, swarm.Caller, "not enough memory: the adapter takes %s on %d blocks and %s is left: unload another, or start the server with fewer blocks (--num-blocks)",
					size(bytes), c.span.Len(), size(max(0, left)))
			}
			took = bytes
			return nil
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.room.Adapters, s.room.Spare = s.room.Adapters+took, s.room.Spare-took
		for use >= len(s.adapters) {
			s.adapters = append(s.adapters, heldAdapter{})
		}
		s.adapters[use] = heldAdapter{Adapter: named}
		s.adapted++
		s.reviseLocked()
		s.mu.Unlock()
		s.revised(ctx)
		s.log.Info("adapter loaded", "name", a.Name, "digest", fmt.Sprintf("%.12s", a.Digest))
		return nil
	})
}

// UnloadAdapter takes no new sessions with an adapter, waits until those that have it have ended,
// and gives it up. tell hears how many are left. An end of ctx meanwhile offers it again.
func (s *Server) UnloadAdapter(ctx context.Context, name string, tell func(sessions int)) error {
	l, ok := s.deps.Loader.(adapting)
	if !ok {
		return swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "this server cannot give up adapters while it runs")
	}
	use := -1
	s.mu.Lock()
	for i := range s.adapters {
		if s.adapters[i].Name == name && !s.adapters[i].leaving {
			use, s.adapters[i].leaving = i, true
		}
	}
	if use >= 0 {
		s.reviseLocked()
	}
	s.mu.Unlock()
	if use < 0 {
		return ErrNoAdapter
	}
	s.revised(ctx)
	err := s.noneLeft(ctx, func() int { return s.usersLocked(use) }, tell)
	if err == nil {
		err = s.orderWhenFree(ctx, func(context.Context) error {
			bytes := l.RemoveAdapter(s.container.engine, use)
			s.mu.Lock()
			s.room.Adapters, s.room.Spare = s.room.Adapters-bytes, s.room.Spare+bytes
			s.adapters[use] = heldAdapter{}
			s.adapted++
			s.mu.Unlock()
			s.log.Info("adapter unloaded", "name", name)
			return nil
		})
	}
	if err != nil {
		s.mu.Lock()
		s.adapters[use].leaving = false
		s.reviseLocked()
		s.mu.Unlock()
	}
	return err
}

// ErrNoAdapter says that a server holds no adapter of a name, or is giving it up already.
var ErrNoAdapter = errors.New("the server holds no such adapter")

// orderAgain is the wait before a server that moves is asked again.
const orderAgain = 100 * time.Millisecond

// orderWhenFree has something done once no move or restart runs.
func (s *Server) orderWhenFree(ctx context.Context, do func(ctx context.Context) error) error {
	for {
		s.mu.Lock()
		state, stopping := s.state, s.stopping
		s.mu.Unlock()
		if stopping || state == swarm.Joining && s.notReady() {
			return errNotThere
		}
		if err := s.order(ctx, order{do: do}); !errors.Is(err, errBusy) {
			return err
		}
		if !backoff.Wait(ctx, orderAgain) {
			return context.Cause(ctx)
		}
	}
}

// notReady tells whether the server has never been online.
func (s *Server) notReady() bool {
	select {
	case <-s.ready:
		return false
	default:
		return true
	}
}
