package api

import (
	"context"
	"slices"
	"strings"

	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/health"
)

// adapted is a model with a LoRA adapter: to users it is a model of its own, named
// "MODEL:ADAPTER", and answers carry that name.
type adapted struct {
	through
	adapter swarm.Adapter // that is held
}

func (e adapted) Model() client.Model {
	m := e.Engine.Model()
	m.Name += ":" + e.adapter.Name
	return m
}

// Through is a model all of whose sessions use an adapter, NAME@DIGEST, under the model's own name.
func Through(e Engine, adapter string) Engine { return through{e, swarm.ParseAdapter(adapter)} }

type through struct {
	Engine
	asked swarm.Adapter // by that name, with its digest where the operator or the user gave one
}

func (e through) Room(ctx context.Context, o client.SessionOptions) int {
	o.Adapter = e.asked.String()
	return e.Engine.Room(ctx, o)
}

func (e through) Open(ctx context.Context, o client.SessionOptions) (Session, error) {
	o.Adapter = e.asked.String()
	return e.Engine.Open(ctx, o)
}

// AdaptedBy lists a model with each of the adapters that the operator offers, if it is held.
// What servers announce beside them is the word of strangers and makes no model.
func (a *API) AdaptedBy(e Engine) []Engine {
	var out []Engine
	v := a.ViewOf(e)
	for _, x := range a.Adapters() {
		if held, ok := v.Adapter(x); ok {
			out = append(out, adapted{through{e, x}, held})
		}
	}
	return out
}

// label is what metrics call a model: one label stands for all adapters that the operator does
// not offer, since strangers name those.
func (a *API) label(e Engine) string {
	if x, ok := e.(adapted); ok && !slices.Contains(a.Adapters(), x.asked) {
		return x.Engine.Model().Name + ":other"
	}
	return e.Model().Name
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
// chat clients of Petals give instead of the model's. An adapter that the operator does
// not offer is found only by "MODEL:ADAPTER@DIGEST".
func (a *API) byAdapter(all []Engine, name string) (Engine, bool) {
	for _, e := range all {
		want, full := strings.CutPrefix(name, e.Model().Name+":")
		v := a.ViewOf(e)
		for _, x := range a.Adapters() {
			if full && x.Name == want || x.Name == name {
				if held, ok := v.Adapter(x); ok {
					return adapted{through{e, x}, held}, true
				}
			}
		}
		if asked := swarm.ParseAdapter(want); full && asked.Digest != "" {
			if held, ok := v.Adapter(asked); ok {
				return adapted{through{e, held}, held}, true
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
