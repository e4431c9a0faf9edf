package routes

import (
	"encoding/json"
	"strings"
	"testing"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

const stranger = "0123456789abcdef0123"

// adapterBench has one server that holds an adapter on all blocks, and one that holds
// another on some; the operator offers both and one that nobody holds. A stranger announces
// models of its own choice.
func adapterBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, func(c *api.Config) {
		c.Adapters = func() []swarm.Adapter {
			return []swarm.Adapter{{Name: "poems"}, {Name: "org/prose", Digest: "d2"}, {Name: "unheld"}}
		}
	})
	whole, part := fakeRecord("12D3KooWa", 0, 8, swarm.Online), fakeRecord("12D3KooWb", 4, 8, swarm.Online)
	whole.Adapters = []swarm.Adapter{{Name: "poems", Digest: "d1"}}
	part.Adapters = []swarm.Adapter{{Name: "org/prose", Digest: "d2"}}
	liar := fakeRecord("12D3KooWc", 0, 8, swarm.Online)
	liar.Adapters = []swarm.Adapter{{Name: "gpt-4o", Digest: stranger}, {Name: "org/prose", Digest: stranger}}
	b.node.views = []swarm.View{fakeView(whole, part, liar)}
	return b
}

func TestAdaptersAreModels(t *testing.T) {
	b := adapterBench(t)
	var list gen.OpenAIModelList
	w := do(b.api.Public(), "GET", "/v1/models", "")
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	states := map[string]gen.ModelState{}
	for _, m := range list.Data {
		states[m.Id] = m.State
	}
	if len(list.Data) != 3 || states["org/toy"] != gen.ModelStateHealthy || states["org/toy:poems"] != gen.ModelStateHealthy || states["org/toy:org/prose"] != gen.ModelStateBroken {
		t.Errorf("models %v", states)
	}
	if w := do(b.api.Public(), "GET", "/v1/models/org/toy:poems", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"org/toy:poems"`) {
		t.Errorf("one model: status %d, %s", w.Code, w.Body)
	}
}

func TestAdapterOfARequest(t *testing.T) {
	b := adapterBench(t)
	for _, tt := range []struct{ model, adapter, name string }{
		{"org/toy", "", "org/toy"},
		{"org/toy:poems", "poems", "org/toy:poems"},
		{"poems", "poems", "org/toy:poems"},                // as clients of Petals name adapters
		{"org/prose", "org/prose@d2", "org/toy:org/prose"}, // the operator's, though a stranger holds more blocks of its own
		{"org/toy:gpt-4o@" + stranger[:12], "gpt-4o@" + stranger, "org/toy:gpt-4o"},
	} {
		b.engine.opened = nil
		w := do(b.api.Public(), "POST", "/v1/completions", `{"model":"`+tt.model+`","prompt":"a","max_tokens":2}`)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"model":"`+tt.name+`"`) {
			t.Errorf("%s: status %d, %s", tt.model, w.Code, w.Body)
			continue
		}
		if len(b.engine.opened) != 1 || b.engine.opened[0].Adapter != tt.adapter {
			t.Errorf("%s: opened %+v", tt.model, b.engine.opened)
		}
	}
	for _, model := range []string{"gpt-4o", "org/toy:gpt-4o", "gpt-4o@" + stranger, "org/toy:gpt-4o@" + stranger[:11], "org/toy:gpt-4o@00" + stranger, "org/toy:unheld"} {
		w := do(b.api.Public(), "POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"a"}]}`)
		if w.Code != 404 || !strings.Contains(w.Body.String(), "model_not_found") {
			t.Errorf("%s: status %d, %s", model, w.Code, w.Body)
		}
	}
	w := do(b.api.Public(), "POST", "/v1/chat/completions", `{"model":"org/toy:songs","messages":[{"role":"user","content":"a"}]}`)
	if w.Code != 404 || !strings.Contains(w.Body.String(), "model_not_found") || !strings.Contains(w.Body.String(), "org/toy:poems") {
		t.Errorf("unknown adapter: status %d, %s", w.Code, w.Body)
	}
}

func TestLegacyStateShowsAdapters(t *testing.T) {
	w := do(adapterBench(t).api.Public(), "GET", "/api/v1/state", "")
	for _, want := range []string{`{"name":"org/prose","short_name":"prose"}`, `"adapters":["poems"]`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in %s", want, w.Body)
		}
	}
}
