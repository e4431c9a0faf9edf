package api

import (
	"context"
	"strings"

	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/health"
)

// adapted is a model with a LoRA adapter: to users it is a model of its own, named
// "MODEL:ADAPTER", and answers carry that name.
type adapted struct {
	Engine
	adapter swarm.Adapter
}

func (e adapted) Model() client.Model {
	m := e.Engine.Model()
	m.Name += ":" + e.adapter.Name
	return m
}

func (e adapted) Room(ctx context.Context, o client.SessionOptions) int {
	o.Adapter = e.adapter.Name
	return e.Engine.Room(ctx, o)
}

func (e adapted) Open(ctx context.Context, o client.SessionOptions) (Session, error) {
	o.Adapter = e.adapter.Name
	return e.Engine.Open(ctx, o)
}

// AdaptedBy lists a model with each of the adapters that servers announce for it.
func (a *API) AdaptedBy(e Engine) []Engine {
	var out []Engine
	for _, x := range a.ViewOf(e).Adapters() {
		out = append(out, adapted{e, x})
	}
	return out
}

// ViewOf is the present snapshot of a model's servers, of those that hold its adapter if it has
// one; empty if there is none.
func (a *API) ViewOf(e Engine) swarm.View {
	uid := e.Model().UID
	for _, v := range a.Directory.Views() {
		if v.Manifest.UID() != uid {
			continue
		}
		if x, ok := e.(adapted); ok {
			return v.Holding(x.adapter)
		}
		return v
	}
	return swarm.View{}
}

// byAdapter finds the model that "MODEL:ADAPTER" names, or the adapter's name alone, which
// chat clients of Petals give instead of the model's.
func (a *API) byAdapter(all []Engine, name string) (Engine, bool) {
	for _, e := range all {
		base := e.Model().Name
		want, full := strings.CutPrefix(name, base+":")
		for _, x := range a.ViewOf(e).Adapters() {
			if full && x.Name == want || x.Name == name {
				return adapted{e, x}, true
			}
		}
	}
	return nil, false
}

// Judge measures a view as the dashboard does: one holder per block is enough.
func Judge(v swarm.View) (health.Coverage, gen.ModelState) {
	if v.At.IsZero() {
		return health.Coverage{}, gen.ModelStateUnknown
	}
	c := health.Measure(v)
	return c, gen.ModelState(c.Condition(1))
}
