package openai

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// ListOpenAIModels lists the models this gateway answers with, and each with the adapters
// that its operator offers and servers hold. One that lacks blocks is listed too: its state says so, and it may come back.
func (a Dialect) ListOpenAIModels(w http.ResponseWriter, r *http.Request) {
	out := gen.OpenAIModelList{Object: gen.OpenAIModelListObjectList, Data: []gen.OpenAIModel{}}
	for _, e := range a.Engines() {
		out.Data = append(out.Data, a.openAIModel(r.Context(), e))
		for _, x := range a.AdaptedBy(e) {
			out.Data = append(out.Data, a.openAIModel(r.Context(), x))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Aliases)) {
		e, err := a.Find(name)
		if err == nil && e.Model().Name != name {
			out.Data = append(out.Data, a.alias(r.Context(), name, e))
		}
	}
	api.Reply(w, out)
}

// alias is a model under another name.
func (a Dialect) alias(ctx context.Context, name string, e api.Engine) gen.OpenAIModel {
	m := a.openAIModel(ctx, e)
	root := m.Id
	m.Id, m.Root = name, &root
	return m
}

// GetOpenAIModel tells of one.
func (a Dialect) GetOpenAIModel(w http.ResponseWriter, r *http.Request, id gen.ModelName) {
	e, err := a.Find(id)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	if _, ok := a.Aliases[id]; ok && e.Model().Name != id {
		api.Reply(w, a.alias(r.Context(), id, e))
		return
	}
	api.Reply(w, a.openAIModel(r.Context(), e))
}

func (a Dialect) openAIModel(ctx context.Context, e api.Engine) gen.OpenAIModel {
	m, state := e.Model(), gen.ModelStateUnknown
	if v := a.ViewOf(e); v.Manifest.UID() == m.UID {
		_, state = api.Judge(v)
	}
	return gen.OpenAIModel{
		Id: m.Name, Object: gen.OpenAIModelObjectModel, Created: m.Created.Unix(), OwnedBy: "whorl", State: state,
		ContextLength: e.Room(ctx, client.SessionOptions{}),
	}
}
