package openai

import (
	"context"
	"net/http"

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
	api.Reply(w, out)
}

// GetOpenAIModel tells of one.
func (a Dialect) GetOpenAIModel(w http.ResponseWriter, r *http.Request, id gen.ModelName) {
	e, err := a.Engine(id)
	if err != nil {
		a.Fail(w, r, err)
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
