package api

import (
	"context"
	"strings"

	"whorl/client"
	"whorl/swarm"
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

// adaptedBy lists a model with each of the adapters that servers announce for it.
func (a *API) adaptedBy(e Engine) []adapted {
	var out []adapted
	for _, x := range a.viewOf(e).Adapters() {
		out = append(out, adapted{e, x})
	}
	return out
}

// viewOf is the present snapshot of a model's servers, empty if there is none.
func (a *API) viewOf(e Engine) swarm.View {
	uid := e.Model().UID
	for _, v := range a.cfg.Directory.Views() {
		if v.Manifest.UID() == uid {
			return v
		}
	}
	return swarm.View{}
}

// byAdapter finds the model that "MODEL:ADAPTER" names, or the adapter's name alone, which
// chat clients of Petals give instead of the model's.
func (a *API) byAdapter(all []Engine, name string) (Engine, bool) {
	for _, e := range all {
		base := e.Model().Name
		want, full := strings.CutPrefix(name, base+":")
		for _, x := range a.adaptedBy(e) {
			if full && x.adapter.Name == want || x.adapter.Name == name {
				return x, true
			}
		}
	}
	return nil, false
}
