package ollama

import (
	"net/http"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// OllamaTags lists the models this gateway answers with, and each with the adapters that its
// operator offers and servers hold.
func (a Dialect) OllamaTags(w http.ResponseWriter, r *http.Request) {
	out := gen.OllamaModels{Models: []gen.OllamaModel{}}
	for _, e := range a.Engines() {
		for _, x := range append([]api.Engine{e}, a.AdaptedBy(e)...) {
			m := x.Model()
			out.Models = append(out.Models, gen.OllamaModel{Name: m.Name, Model: m.Name, ModifiedAt: m.Created.UTC(), Digest: string(m.UID), Details: details(m)})
		}
	}
	api.Reply(w, out)
}

func details(m client.Model) gen.OllamaDetails {
	return gen.OllamaDetails{Format: "whorl", Families: []string{}, QuantizationLevel: m.Manifest.Class.Quant}
}

// OllamaVersion says which program answers.
func (a Dialect) OllamaVersion(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, gen.OllamaVersion{Version: a.Config.Node.Status().Version})
}

// OllamaShow tells of one model.
func (a Dialect) OllamaShow(w http.ResponseWriter, r *http.Request) {
	var req gen.OllamaShowRequest
	if err := a.ReadJSON(w, r, "OllamaShowRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	e, err := a.model(r.Context(), api.Value(req.Model, api.Value(req.Name, "")))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	m := e.Model()
	out := gen.OllamaShown{ModifiedAt: m.Created.UTC(), Details: details(m), Capabilities: []gen.OllamaShownCapabilities{gen.OllamaShownCapabilitiesCompletion, gen.OllamaShownCapabilitiesTools}, ModelInfo: gen.OllamaInfo{
		GeneralArchitecture: "whorl", GeneralBasename: m.Name, WhorlBlockCount: m.Manifest.Blocks, WhorlEmbeddingLength: m.Manifest.Hidden,
		WhorlContextLength: e.Room(r.Context(), client.SessionOptions{}), WhorlVocabSize: m.Vocab,
	}}
	if e.Thinks() {
		out.Capabilities = append(out.Capabilities, gen.OllamaShownCapabilitiesThinking)
	}
	api.Reply(w, out)
}
