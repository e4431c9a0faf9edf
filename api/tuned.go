package api

import (
	"context"

	"whorl/client"
	"whorl/swarm"
)

// Tuned is a model that begins all of its sessions with trained prompts: to users it is a model of
// its own, named "MODEL:NAME". The gateway holds the prompts; servers are sent those of their blocks.
func Tuned(e Engine, name string, p *client.Prompts) Engine { return tuned{e, name, p} }

type tuned struct {
	Engine
	name    string
	prompts *client.Prompts
}

func (e tuned) Model() client.Model {
	m := e.Engine.Model()
	m.Name += ":" + e.name
	m.MaxLength -= e.prompts.Tokens
	return m
}

func (e tuned) Room(ctx context.Context, o client.SessionOptions) int {
	o.Prompts = e.prompts
	return e.Engine.Room(ctx, o)
}

func (e tuned) Open(ctx context.Context, o client.SessionOptions) (Session, error) {
	o.Prompts = e.prompts
	return e.Engine.Open(ctx, o)
}

// Mean is refused: no prompts were trained for vectors.
func (e tuned) Mean(context.Context, []int32) ([]float32, error) {
	return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "vectors are made by the model %s without prompts: ask for that", e.Engine.Model().Name)
}

// bases are the models without prompts.
func bases(all []Engine) (out []Engine) {
	for _, e := range all {
		if _, ok := e.(tuned); !ok {
			out = append(out, e)
		}
	}
	return out
}
