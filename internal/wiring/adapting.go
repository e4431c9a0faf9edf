package wiring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"whorl/internal/operations"
	"whorl/server"
	"whorl/swarm"
)

// adapting is the adapters of a node while it runs: their open files beside what its server holds.
type adapting struct {
	mu    sync.Mutex // guards all below, and the model's list of adapters
	flags *ModelOptions
	model *Model
}

// of says which model adapters are for.
func (a *adapting) of(flags *ModelOptions, m *Model) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flags, a.model = flags, m
}

func (a *adapting) parts() (*ModelOptions, *Model) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flags, a.model
}

// holds changes the list of what the node holds, and says so to those who ask.
func (n *Node) holds(f func(list []*adapter) []*adapter) {
	n.adapters.mu.Lock()
	defer n.adapters.mu.Unlock()
	m := n.adapters.model
	m.adapters = f(m.adapters)
	held := m.held()
	n.offers.hold(held)
	names := make([]string, len(held))
	for i, a := range held {
		names[i] = a.Name
	}
	n.settings.note("adapters", "["+strings.Join(names, ",")+"]")
}

// Adapters are those that the node's server holds.
func (n *Node) Adapters() []swarm.AdapterStatus {
	srv, _ := n.parts()
	if srv == nil {
		return nil
	}
	return srv.Adapters()
}

// LoadAdapter loads one from a folder of this machine or from the hub.
func (n *Node) LoadAdapter(source string) (operations.Work, error) {
	srv, err := n.serving()
	if err != nil {
		return nil, err
	}
	flags, m := n.adapters.parts()
	return func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		tell(operations.Progress{Total: 2, Unit: "steps", Note: "opening " + source})
		a, err := flags.openAdapter(ctx, source, m.Checkpoint)
		if err == nil {
			err = a.names().Validate()
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if err != nil {
			a.close()
			if errors.Is(err, operations.ErrCancelled) {
				return nil, err
			}
			return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "%w", err)
		}
		tell(operations.Progress{Done: 1, Total: 2, Unit: "steps", Note: "loading it for each block"})
		if err := srv.LoadAdapter(ctx, a.Adapter); err != nil {
			a.close()
			return nil, err
		}
		n.holds(func(list []*adapter) []*adapter { return append(list, a) })
		return a.names(), nil
	}, nil
}

// close is Close of an adapter that may not have been opened.
func (a *adapter) close() {
	if a != nil {
		a.Close()
	}
}

// UnloadAdapter gives one up once no session uses it.
func (n *Node) UnloadAdapter(name string) (operations.Work, error) {
	srv, err := n.serving()
	if err != nil {
		return nil, err
	}
	named := func(a *adapter) bool { return a.Name == name }
	if !slices.ContainsFunc(srv.Adapters(), func(a swarm.AdapterStatus) bool { return a.Name == name && !a.Leaving }) {
		return nil, errNoAdapter(name)
	}
	return func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		most := 0
		err := srv.UnloadAdapter(ctx, name, func(left int) {
			most = max(most, left)
			tell(operations.Progress{Done: float64(most - left), Total: float64(most), Unit: "sessions"})
		})
		if errors.Is(err, server.ErrNoAdapter) {
			err = errNoAdapter(name)
		}
		if err != nil {
			return nil, err
		}
		n.holds(func(list []*adapter) []*adapter {
			for _, a := range list {
				if named(a) {
					a.Close()
				}
			}
			return slices.DeleteFunc(list, named)
		})
		return nil, nil
	}, nil
}

func errNoAdapter(name string) error {
	return swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "this node holds no adapter %q: GET /api/v1/adapters lists those that it holds", fmt.Sprintf("%.100s", name))
}
