package wiring

import (
	"context"

	"whorl/api"
	"whorl/client"
	"whorl/client/grammar"
	"whorl/swarm"
)

// A shelved model is an api.Engine that tells what the swarm says of it. All else asks for it to
// be woken first.

// Model is what the manifest says.
func (x *shelved) Model() client.Model {
	x.shelf.mu.Lock()
	name, e := x.name, x.engine
	x.shelf.mu.Unlock()
	if e != nil {
		m := e.Model()
		m.Name = name
		return m
	}
	return client.Model{Name: name, UID: x.man.UID(), Manifest: x.man, MaxLength: capacity(x.view()), Created: x.since}
}

// Room is what the model's servers take.
func (x *shelved) Room(ctx context.Context, o client.SessionOptions) int {
	x.shelf.mu.Lock()
	e := x.engine
	x.shelf.mu.Unlock()
	if e != nil {
		return e.Room(ctx, o)
	}
	room := capacity(x.view())
	if o.Prompts != nil {
		room -= o.Prompts.Tokens
	}
	return max(0, room)
}

func (x *shelved) asleep() error {
	return swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "%s is not in memory", x.man.Name)
}

func (x *shelved) Encode(string, bool) ([]int32, error) { return nil, x.asleep() }
func (x *shelved) EncodeChat([]client.Message, client.ChatExtras) ([]int32, error) {
	return nil, x.asleep()
}
func (x *shelved) BadWords([]string) ([][]int32, error)             { return nil, x.asleep() }
func (x *shelved) Decode([]int32) string                            { return "" }
func (x *shelved) EncodeMarks(string) ([]int32, error)              { return nil, x.asleep() }
func (x *shelved) Template() string                                 { return "" }
func (x *shelved) Specials() map[string]string                      { return nil }
func (x *shelved) Grammar(grammar.Spec) (*grammar.Grammar, error)   { return nil, x.asleep() }
func (x *shelved) Thinks() bool                                     { return false }
func (x *shelved) TokenText(int32) string                           { return "" }
func (x *shelved) TokenBytes(int32, bool) []byte                    { return nil }
func (x *shelved) Mean(context.Context, []int32) ([]float32, error) { return nil, x.asleep() }
func (x *shelved) Open(context.Context, client.SessionOptions) (api.Session, error) {
	return nil, x.asleep()
}
