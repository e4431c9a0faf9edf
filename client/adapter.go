package client

import (
	"context"
	"fmt"

	"whorl/swarm"
)

// namesMost is how many adapters a refusal lists: records of strangers name them.
const namesMost = 16

// adapter finds what NAME or NAME@DIGEST stands for now; the session keeps to it, since
// another adapter may take the name. nil for no name.
func (e *Engine) adapter(view swarm.View, name string) (*swarm.Adapter, error) {
	if name == "" {
		return nil, nil
	}
	if a, ok := view.Adapter(swarm.ParseAdapter(name)); ok {
		return &a, nil
	}
	var known []string
	for _, a := range view.Adapters() {
		known = append(known, a.Name)
	}
	more := ""
	if n := len(known) - namesMost; n > 0 {
		known, more = known[:namesMost], fmt.Sprintf(" and %d more", n)
	}
	return nil, swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "no server of %s holds the adapter %.100q: those that are held are %q%s", e.cfg.Manifest.Name, name, known, more)
}

// Adapter is what NAME or NAME@DIGEST stands for in the swarm now.
func (e *Engine) Adapter(ctx context.Context, name string) (swarm.Adapter, error) {
	view, err := e.cfg.Directory.View(ctx, e.uid)
	if err != nil {
		return swarm.Adapter{}, err
	}
	a, err := e.adapter(view, name)
	if err != nil {
		return swarm.Adapter{}, err
	}
	return *a, nil
}

// holding keeps the servers that hold an adapter; all of them if there is none.
func holding(v swarm.View, a *swarm.Adapter) swarm.View {
	if a == nil {
		return v
	}
	return v.Holding(*a)
}

// ofAdapter says of a failure to find servers that only those with the adapter counted.
func ofAdapter(err error, a *swarm.Adapter) error {
	if a == nil {
		return err
	}
	e := *swarm.AsError(err)
	e.Message = fmt.Sprintf("%s (only servers that hold the adapter %s count)", e.Message, a.Name)
	return &e
}
