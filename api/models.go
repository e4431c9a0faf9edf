package api

import (
	"net/http"

	"whorl/api/gen"
	"whorl/client"
)

// ListOpenAIModels lists the models this gateway answers with. One that lacks blocks is
// listed too: its state says so, and it may come back.
func (a *API) ListOpenAIModels(w http.ResponseWriter, r *http.Request) {
	out := gen.OpenAIModelList{Object: gen.OpenAIModelListObjectList, Data: []gen.OpenAIModel{}}
	for _, e := range a.cfg.Engines() {
		out.Data = append(out.Data, a.openAIModel(e.Model()))
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
	reply(w, a.openAIModel(e.Model()))
}

func (a *API) openAIModel(m client.Model) gen.OpenAIModel {
	state := gen.ModelStateUnknown
	for _, v := range a.cfg.Directory.Views() {
		if v.Manifest.UID() == m.UID {
			state = modelState(v)
		}
	}
	return gen.OpenAIModel{
		Id: m.Name, Object: gen.OpenAIModelObjectModel, Created: m.Created.Unix(), OwnedBy: "whorl", State: state, ContextLength: m.MaxLength,
	}
}
