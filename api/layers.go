package api

import (
	"context"

	"whorl/client"
	"whorl/swarm"
)

// Layers is an Engine whose parts can be computed with by themselves: rows in, rows and gradients
// out. Safe for concurrent use.
type Layers interface {
	// Head is what is outside of the blocks.
	Head() client.Head
	// Outputs and Gradients are those of client.Remote.
	Outputs(ctx context.Context, blocks swarm.Span, o client.RemoteOptions, b *client.Batch) ([]float32, error)
	Gradients(ctx context.Context, blocks swarm.Span, o client.RemoteOptions, b *client.Batch, grads []float32) (rows, prompts []float32, err error)
	OpenRows(ctx context.Context, o client.RowOptions) (RowSession, error)
}

// RowSession is a session that is given rows; see client.RowSession.
type RowSession interface {
	ID() string
	Step(ctx context.Context, rows []float32) ([]float32, error)
	Position() int
	Truncate(pos int) error
	Reroutes() int
	Close() error
}

func (s served) Outputs(ctx context.Context, blocks swarm.Span, o client.RemoteOptions, b *client.Batch) ([]float32, error) {
	r, err := s.Remote(blocks, o)
	if err != nil {
		return nil, err
	}
	return r.Outputs(ctx, b)
}

func (s served) Gradients(ctx context.Context, blocks swarm.Span, o client.RemoteOptions, b *client.Batch, grads []float32) (rows, prompts []float32, err error) {
	r, err := s.Remote(blocks, o)
	if err != nil {
		return nil, nil, err
	}
	return r.Gradients(ctx, b, grads)
}

func (s served) OpenRows(ctx context.Context, o client.RowOptions) (RowSession, error) {
	session, err := s.Engine.OpenRows(ctx, o)
	if err != nil {
		return nil, err
	}
	return session, nil
}

// LayersOf is a model whose parts can be computed with; of one with trained prompts or a head of its
// own they are those of the model below, which has another name.
func LayersOf(e Engine) (Layers, error) {
	switch x := e.(type) {
	case adapted:
		below, err := LayersOf(x.Engine)
		if err != nil {
			return nil, err
		}
		return adaptedLayers{below, x.asked.String()}, nil
	case Layers:
		return x, nil
	case interface{ Unwrap() Engine }: // the same by another name
		return LayersOf(x.Unwrap())
	}
	return nil, Unsupported("model", "the model %q has prompts or a classifier of its own: ask for the model without them", Clip(e.Model().Name))
}

// AdapterOf is the LoRA adapter of a model that has one, NAME@DIGEST; "" if it has none.
func AdapterOf(e Engine) string {
	switch x := e.(type) {
	case adapted:
		return x.adapter.String()
	case interface{ Unwrap() Engine }: // the same by another name
		return AdapterOf(x.Unwrap())
	}
	return ""
}

// adaptedLayers are those of a model with an adapter.
type adaptedLayers struct {
	Layers
	adapter string
}

func (l adaptedLayers) Outputs(ctx context.Context, blocks swarm.Span, o client.RemoteOptions, b *client.Batch) ([]float32, error) {
	o.Adapter = l.adapter
	return l.Layers.Outputs(ctx, blocks, o, b)
}

func (l adaptedLayers) Gradients(ctx context.Context, blocks swarm.Span, o client.RemoteOptions, b *client.Batch, grads []float32) (rows, prompts []float32, err error) {
	o.Adapter = l.adapter
	return l.Layers.Gradients(ctx, blocks, o, b, grads)
}

func (l adaptedLayers) OpenRows(ctx context.Context, o client.RowOptions) (RowSession, error) {
	o.Adapter = l.adapter
	return l.Layers.OpenRows(ctx, o)
}
