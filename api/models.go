package api

import (
	"context"
	"net/http"

	"whorl/api/gen"
	"whorl/client"
)

// ListOpenAIModels lists the models this gateway answers with, and each with the adapters
// that servers announce. One that lacks blocks is
// listed too: its state says so, and it may come back.
func (a *API) ListOpenAIModels(w http.ResponseWriter, r *http.Request) {
	out := gen.OpenAIModelList{Object: gen.OpenAIModelListObjectList, Data: []gen.OpenAIModel{}}
	for _, e := range a.cfg.Engines() {
		out.Data = append(out.Data, a.openAIModel(r.Context(), e))
		for _, x := range a.adaptedBy(e) {
			out.Data = append(out.Data, a.openAIModel(r.Context(), x))
		}
	}
	reply(w, out)
}

// GetOpenAIModel tells of one.
func (a *API) GetOpenAIModel(w http.ResponseWriter, r *http.Request, id gen.ModelName) {
	e, err := a.engine(id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply(w, a.openAIModel(r.Context(), e))
}

func (a *API) openAIModel(ctx context.Context, e Engine) gen.OpenAIModel {
	m, state := e.Model(), gen.ModelStateUnknown
	if v := a.viewOf(e); v.Manifest.UID() == m.UID {
		if x, ok := e.(adapted); ok {
			v = v.Holding(x.adapter)
		}
		_, state = judge(v)
	}
	return gen.OpenAIModel{
		Id: m.Name, Object: gen.OpenAIModelObjectModel, Created: m.Created.Unix(), OwnedBy: "whorl", State: state,
		ContextLength: e.Room(ctx, client.SessionOptions{}),
	}
}
