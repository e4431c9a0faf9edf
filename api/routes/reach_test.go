package routes

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/api/gen"
	"whorl/swarm"
)

// A server that answers is reachable; one that refuses or is silent is not, and the message
// says why. Peers that nobody announced are not probed.
// probes is how many may run at the same time.
const probes = 8

func TestReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.node.views = append(b.node.views, fakeView(fakeRecord("12D3KooWs1ent", 0, 8, swarm.Online)))
		for _, c := range []struct {
			id, message string
			success     bool
		}{
			{"12D3KooWa", "it answers after 1.4 ms", true},
			{"12D3KooWb", "it does not answer: connection refused", false},
			{"12D3KooWother", "no server of this swarm announces itself as", false},
			{"12D3KooWabcdef", "this is the node that answers", true},
		} {
			w := do(b.api.Public(), "GET", "/api/v1/is_reachable/"+c.id, "")
			var got gen.Reachable
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
				t.Fatalf("%s: status %d, %v: %s", c.id, w.Code, err, w.Body)
			}
			if got.Success != c.success || !strings.HasPrefix(got.Message, c.message) || got.YourIp != "192.0.2.1" {
				t.Errorf("%s: %+v", c.id, got)
			}
		}
	})
}

// Strangers cannot make a node probe without bound: a silent server is given up, and one
// more probe than the most is refused at once.
func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.node.views = []swarm.View{fakeView(fakeRecord("12D3KooWsiXent", 0, 8, swarm.Online))}
		public, path := b.api.Public(), "/api/v1/is_reachable/12D3KooWsiXent"
		done := make(chan *httptest.ResponseRecorder, probes)
		for range probes {
			go func() { done <- do(public, "GET", path, "") }()
		}
		synctest.Wait()
		if w := do(public, "GET", path, ""); w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("one probe too many: status %d: %s", w.Code, w.Body)
		}
		for range probes {
			if w := <-done; w.Code != 200 || !strings.Contains(w.Body.String(), `"success":false`) || !strings.Contains(w.Body.String(), "within 5s") {
				t.Errorf("a silent server: status %d: %s", w.Code, w.Body)
			}
		}
	})
}

// The JSON form of the contract is a contract with the same operations.
func TestOpenapiJSON(t *testing.T) {
	b := newBench(t, nil)
	doc, err := openapi3.NewLoader().LoadFromData(do(b.api.Public(), "GET", "/openapi.json", "").Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := doc.Paths.Len(), b.doc.Paths.Len(); got != want || doc.Info.Version != b.doc.Info.Version {
		t.Errorf("%d paths of version %s, want %d", got, doc.Info.Version, want)
	}
}
