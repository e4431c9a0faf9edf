package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/keys"
)

// newRing has the keys alice and carol.
func newRing(t testing.TB) *keys.Ring {
	t.Helper()
	book, err := keys.OpenFile(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := keys.NewRing(book)
	for _, name := range []string{"alice", "carol"} {
		addKey(t, r, name, keys.Limits{}, time.Time{}, keys.Infer)
	}
	return r
}

// addKey puts a key into a ring.
func addKey(t testing.TB, r *keys.Ring, name string, l keys.Limits, expires time.Time, scopes ...keys.Scope) (secret string) {
	t.Helper()
	k, secret, err := keys.New(name, scopes, l, time.Now(), expires)
	if err == nil {
		err = r.Add(context.Background(), k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// A key opens what its scopes allow, on either listener, and nothing else; the listeners' own
// tokens stay good.
func TestKeysAndScopes(t *testing.T) {
	b := newBench(t, func(c *api.Config) {
		c.Public = api.Listener{Token: "the operator's own", Keys: true}
		c.Admin = api.Listener{Token: "the admin's token", Keys: true}
	})
	secret := map[string]string{"nobody": "", "stranger": "whorl_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "operator": "the operator's own", "root": "the admin's token"}
	for _, s := range keys.Scopes() {
		secret[string(s)] = addKey(t, b.cfg.Keys, "k "+string(s), keys.Limits{}, time.Time{}, s)
	}
	const infers, looks, drains, settings = "POST /v1/completions", "GET /api/v1/node", "POST /api/v1/node/drain", "GET /api/v1/keys"
	for _, c := range []struct {
		who   string
		what  string
		admin bool
		want  int
	}{
		{"nobody", infers, false, 401}, {"stranger", infers, false, 401}, {"operator", infers, false, 200}, {"root", infers, false, 401},
		{"infer", infers, false, 200}, {"read", infers, false, 403}, {"operate", infers, false, 403}, {"admin", infers, false, 200},
		{"infer", looks, false, 403}, {"read", looks, false, 200}, {"operate", looks, true, 200}, {"operator", looks, true, 401}, {"root", looks, true, 200},
		{"infer", drains, true, 403}, {"read", drains, true, 403}, {"operate", drains, true, 202}, {"admin", drains, true, 202}, {"nobody", drains, true, 401},
		{"operate", settings, true, 403}, {"admin", settings, true, 200}, {"admin", settings, false, 404},
		{"nobody", "GET /livez", false, 200}, {"stranger", "GET /api/v1/swarm/models", false, 200},
	} {
		h := b.api.Public()
		if c.admin {
			h = b.api.Admin()
		}
		method, path, _ := strings.Cut(c.what, " ")
		body := ""
		if c.what == infers {
			body = `{"prompt":"x","max_tokens":1}`
		}
		w := do(h, method, path, body, "Authorization: Bearer "+secret[c.who])
		if w.Code != c.want {
			t.Errorf("%s: %s on admin %v: status %d, want %d: %s", c.who, c.what, c.admin, w.Code, c.want, w.Body)
		}
		if path != "/livez" {
			conforms(t, b.doc, method, path, w)
		}
		if w.Code == 403 && !strings.Contains(w.Body.String(), "insufficient_scope") {
			t.Errorf("%s: %s", c.who, w.Body)
		}
	}
}

// Without keys a token means nothing on an open listener; a key that is shown there counts.
func TestKeysOnAnOpenListener(t *testing.T) {
	b := newBench(t, nil)
	secret := addKey(t, b.cfg.Keys, "app", keys.Limits{Requests: 1}, time.Time{}, keys.Infer)
	for i, want := range []int{200, 429} {
		if w := do(b.api.Public(), "GET", "/v1/models", "", "X-Api-Key: "+secret); w.Code != want {
			t.Errorf("request %d: status %d", i, w.Code)
		}
	}
	if w := do(b.api.Public(), "GET", "/v1/models", "", "X-Api-Key: sk-whatever"); w.Code != 200 {
		t.Errorf("another token: status %d", w.Code)
	}
}

// Limits are told in headers, and what is beyond them by when to come back.
func TestKeyLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Public.Keys = true })
		h := b.api.Public()
		expires := time.Now().Add(time.Hour)
		secret := addKey(t, b.cfg.Keys, "app", keys.Limits{Requests: 6, Tokens: 60}, expires, keys.Infer)
		ask := func() *httptest.ResponseRecorder {
			return do(h, "POST", "/v1/completions", `{"prompt":"four","max_tokens":8}`, "Authorization: Bearer "+secret)
		}
		w := ask()
		var out gen.Completion
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
		used := out.Usage.TotalTokens
		if got := w.Header().Get("X-RateLimit-Remaining-Requests"); got != "5" || w.Header().Get("X-RateLimit-Limit-Tokens") != "60" {
			t.Errorf("headers %v", w.Header())
		}
		if w = ask(); w.Header().Get("X-RateLimit-Remaining-Tokens") != fmt.Sprint(60-used) || w.Header().Get("X-RateLimit-Reset-Requests") != "20s" {
			t.Errorf("after %d tokens: headers %v", used, w.Header())
		}
		for w.Code == 200 {
			w = ask()
		}
		if w.Code != 429 || w.Header().Get("Retry-After") == "" || w.Header().Get("X-Should-Retry") != "true" || !strings.Contains(w.Body.String(), "a minute") {
			t.Errorf("beyond: status %d, %v, %s", w.Code, w.Header(), w.Body)
		}
		time.Sleep(2 * time.Minute)
		if w = ask(); w.Code != 200 {
			t.Errorf("two minutes later: %s", w.Body)
		}
		metrics := do(b.api.Public(), "GET", "/metrics", "", "Authorization: Bearer "+addKey(t, b.cfg.Keys, "watch", keys.Limits{}, time.Time{}, keys.Read)).Body.String()
		for _, line := range []string{`whorl_key_requests_total{key="app"}`, `whorl_key_tokens_total{key="app",kind="completion"}`, `whorl_key_answers{key="app"} 0`} {
			if !strings.Contains(metrics, line) {
				t.Errorf("no %s in metrics", line)
			}
		}
		time.Sleep(time.Hour)
		if w = ask(); w.Code != 401 || !strings.Contains(w.Body.String(), "expired") {
			t.Errorf("an hour later: %d %s", w.Code, w.Body)
		}
	})
}

// A key is made, used, seen and removed by the control plane alone; its secret is shown once.
func TestKeysByControl(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Public.Keys = true })
	admin := b.api.Admin()
	var made gen.NewKey
	w := do(admin, "POST", "/api/v1/keys", `{"name":"dora","expires":"2999-01-01T00:00:00Z"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 201 || !strings.HasPrefix(made.Secret, "whorl_") {
		t.Fatal(w.Code, w.Body)
	}
	if w := do(b.api.Public(), "GET", "/v1/models", "", "Authorization: Bearer "+made.Secret); w.Code != 200 {
		t.Errorf("status %d", w.Code)
	}
	list := do(admin, "GET", "/api/v1/keys", "").Body.String()
	if strings.Contains(list, made.Secret) || !strings.Contains(list, `"requests":1`) {
		t.Error(list)
	}
	if text := do(admin, "GET", "/api/v1/keys", "", "Accept: text/plain").Body.String(); !strings.Contains(text, "dora") || !strings.Contains(text, "2999-01-01T00:00:00Z") {
		t.Error(text)
	}
	for _, body := range []string{`{"name":"dora"}`, `{"name":""}`, `{"name":"x","scopes":[]}`, `{"name":"x","scopes":["root"]}`, `{"name":"x","expires":"2001-01-01T00:00:00Z"}`, `{"name":"x","answers":-1}`} {
		if w := do(admin, "POST", "/api/v1/keys", body); w.Code != 400 && w.Code != 409 {
			t.Errorf("%s: status %d", body, w.Code)
		}
	}
	if w := do(admin, "DELETE", "/api/v1/keys/"+made.Id, ""); w.Code != 204 {
		t.Errorf("status %d", w.Code)
	}
	if w := do(b.api.Public(), "GET", "/v1/models", "", "Authorization: Bearer "+made.Secret); w.Code != 401 {
		t.Errorf("after it was removed: status %d", w.Code)
	}
	without := newBench(t, func(c *api.Config) { c.Keys = nil })
	if w := do(without.api.Admin(), "GET", "/api/v1/keys", ""); w.Code != 409 || !strings.Contains(w.Body.String(), "--keys") {
		t.Errorf("a node without keys: %d %s", w.Code, w.Body)
	}
}
