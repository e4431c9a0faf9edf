package wiring

import (
	"fmt"
	"slices"
	"sync"

	"whorl/swarm"
)

// offers are the adapters that users of a node may ask for by name: those that it holds, by name
// and digest, and those on other servers that its operator allows.
type offers struct {
	mu            sync.Mutex // guards all below
	held, allowed []swarm.Adapter
}

func (o *offers) hold(list []swarm.Adapter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = list
}

func (o *offers) allow(list []swarm.Adapter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.allowed = list
}

func (o *offers) list() []swarm.Adapter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Concat(o.allowed, o.held)
}

// parseAllowed reads names of adapters, whose digests may be left out.
func parseAllowed(texts []string) (out []swarm.Adapter, err error) {
	for _, text := range texts {
		a := swarm.ParseAdapter(text)
		if err := (swarm.Adapter{Name: a.Name, Digest: a.Digest + "-"}).Validate(); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		out = append(out, a)
	}
	return out, nil
}
