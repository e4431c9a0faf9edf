package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// contract is that of the API.
func contract(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The page about the API has every route, and a form for those that its listener serves.
func TestReference(t *testing.T) {
	r := newRig(t)
	r.refresh(t, nil)
	doc, err := openapi3.NewLoader().LoadFromData(contract(t))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := Admin(contract(t))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	alone.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/reference", nil))
	admin := w.Body.String()
	if policy := w.Header().Get("Content-Security-Policy"); w.Code != 200 || !strings.Contains(policy, "default-src 'self'") {
		t.Fatalf("status %d, policy %q", w.Code, policy)
	}
	status, public := r.get(t, "/reference")
	if status != 200 {
		t.Fatalf("status %d", status)
	}
	form := func(page, id string) bool {
		_, at, ok := strings.Cut(page, `data-testid="`+id+`"`)
		if !ok {
			t.Errorf("the page lacks %s", id)
		}
		at, _, _ = strings.Cut(at, `<details class="route"`)
		return strings.Contains(at, `<form class="try"`)
	}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			form(public, op.OperationID)
			form(admin, op.OperationID)
		}
	}
	for _, c := range []struct {
		id            string
		public, admin bool
	}{{"getNode", true, true}, {"drainNode", false, true}, {"createCompletion", true, false}, {"getLivez", true, true}, {"generateSocket", false, false}} {
		if p, a := form(public, c.id), form(admin, c.id); p != c.public || a != c.admin {
			t.Errorf("%s can be tried on the public page: %v, on the admin page: %v", c.id, p, a)
		}
	}
	wantText(t, admin, "Take no new sessions", "deadline_s", "integer, 1 to 86400", "How long sessions that run may go on")
	wantNot(t, admin, `href="/play"`)
	w = httptest.NewRecorder()
	alone.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusFound || w.Header().Get("Location") != "/reference" {
		t.Errorf("/: status %d to %s", w.Code, w.Header().Get("Location"))
	}
	if _, err := Admin([]byte("paths: [")); err == nil {
		t.Error("a contract that is none is taken")
	}
}

// The page about keys is of the admin listener alone, and holds nothing of them: what it shows its
// script asks for.
func TestKeysPage(t *testing.T) {
	admin, err := Admin(contract(t))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/keys", nil))
	body := w.Body.String()
	if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'self'") {
		t.Fatalf("status %d", w.Code)
	}
	wantText(t, body, `id="keys-table"`, "Answer tokens", "/static/keys.", `<a href="/keys" aria-current="page">`, `<a href="/reference">`, "whorl keys")
	if strings.Contains(body, `href="/play"`) {
		t.Error("the page leads to pages that its listener does not have")
	}
	if status, _ := newRig(t).get(t, "/keys"); status != http.StatusNotFound {
		t.Errorf("on the public listener: status %d", status)
	}
}
