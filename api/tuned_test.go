package api

import (
	"context"
	"testing"

	"whorl/client"
	"whorl/swarm"
)

// bare is an engine that remembers how it was asked.
type bare struct {
	Engine
	asked *client.SessionOptions
}

func (b bare) Model() client.Model { return client.Model{Name: "some/model", MaxLength: 100} }

func (b bare) Open(_ context.Context, o client.SessionOptions) (Session, error) {
	*b.asked = o
	return nil, nil
}

func (b bare) Room(_ context.Context, o client.SessionOptions) int { return 50 - o.Prompts.Tokens }

// A model with prompts is a model of its own, and all its sessions have them; without a name the
// model itself answers.
func TestTuned(t *testing.T) {
	var asked client.SessionOptions
	p := &client.Prompts{Tokens: 8}
	base := bare{asked: &asked}
	e := Tuned(base, "mood", p)
	if m := e.Model(); m.Name != "some/model:mood" || m.MaxLength != 92 {
		t.Errorf("%+v", m)
	}
	if e.Open(t.Context(), client.SessionOptions{MaxLength: 9}); asked.Prompts != p || asked.MaxLength != 9 {
		t.Errorf("%+v", asked)
	}
	if n := e.Room(t.Context(), client.SessionOptions{}); n != 42 {
		t.Errorf("room for %d", n)
	}
	if _, err := e.Mean(t.Context(), nil); swarm.CodeOf(err) != swarm.CodeUnsupported {
		t.Error(err)
	}
	l := Labelling(base, "kind", 8, []string{"a", "b"}, func(context.Context, [][]int32) ([][]float64, error) { return [][]float64{{0.2, 0.8}}, nil })
	if _, err := l.Open(t.Context(), client.SessionOptions{}); swarm.CodeOf(err) != swarm.CodeUnsupported {
		t.Error(err)
	}
	a := &API{Config: Config{Engines: func() []Engine { return []Engine{base, e, l} }}}
	for name, want := range map[string]string{"": "some/model", "some/model": "some/model", "some/model:mood": "some/model:mood"} {
		if got, err := a.Engine(t.Context(), name); err != nil || got.Model().Name != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
