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
	m.MaxLength = max(0, m.MaxLength-e.prompts.Tokens)
	return m
}

// Base is the model without prompts.
func (e tuned) Base() Engine { return e.Engine }

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

// Classifier is an Engine that tells labels of texts instead of going on with them.
type Classifier interface {
	// Labels are all that there are.
	Labels() []string
	// Classify gives the probabilities of the labels for each text, of at least one id.
	Classify(ctx context.Context, texts [][]int32) ([][]float64, error)
}

// Labelling is a model with a trained classifier, named "MODEL:NAME".
func Labelling(e Engine, name string, rows int, labels []string, classify func(ctx context.Context, texts [][]int32) ([][]float64, error)) Engine {
	return labelling{tuned{e, name, &client.Prompts{Tokens: rows}}, labels, classify}
}

type labelling struct {
	tuned
	labels   []string
	classify func(ctx context.Context, texts [][]int32) ([][]float64, error)
}

func (e labelling) Labels() []string { return e.labels }

func (e labelling) Classify(ctx context.Context, texts [][]int32) ([][]float64, error) {
	return e.classify(ctx, texts)
}

func (e labelling) Open(context.Context, client.SessionOptions) (Session, error) {
	return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "the model %s tells labels and writes no texts: POST /api/v1/classify", e.Model().Name)
}

// bases are the models without prompts.
func bases(all []Engine) (out []Engine) {
	for _, e := range all {
		if _, more := e.(interface{ Base() Engine }); !more {
			out = append(out, e)
		}
	}
	return out
}
