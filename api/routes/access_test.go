package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/api"
)

func TestCheckListen(t *testing.T) {
	for _, c := range []struct {
		addr, token string
		keys, ok    bool
	}{
		{"127.0.0.1:8300", "", false, true}, {"localhost:0", "", false, true}, {"[::1]:8300", "", false, true}, {"127.8.8.8:1", "", false, true},
		{":8300", "", false, false}, {"0.0.0.0:8300", "", false, false}, {"[::]:8300", "", false, false}, {"192.168.1.5:8300", "", false, false}, {"example.org:80", "", false, false},
		{"0.0.0.0:8300", "sixteen letters.", false, true}, {":8300", "sixteen letters.", false, true},
		{"0.0.0.0:8300", "fifteen letters", false, false}, {"127.0.0.1:8300", "x", false, false},
		{":8300", "", true, true}, {":8300", "x", true, false},
		{"8300", "secret", false, false}, {"", "", false, false},
	} {
		if err := api.CheckListen(c.addr, c.token, c.keys); (err == nil) != c.ok {
			t.Errorf("CheckListen(%q, %q) = %v", c.addr, c.token, err)
		}
	}
}

func TestHost(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Public.Hosts = []string{"swarm.example.org"} })
	h := b.api.Public()
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{"127.0.0.1:8300", true}, {"localhost:8300", true}, {"[::1]:8300", true}, {"[::1]", true}, {"node.localhost", true}, {"swarm.example.org", true}, {"SWARM.example.org:443", true},
		{"10.0.0.5:8300", true}, // the address the request came in by, below
		{"10.0.0.6:8300", false}, {"evil.example", false}, {"127.0.0.1.evil.example", false}, {"localhost.evil.example:8300", false}, {"", false},
	} {
		r := httptest.NewRequest("GET", "http://x/livez", nil)
		r.Host = c.host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 8300}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if ok := w.Code == 200; ok != c.ok || !ok && w.Code != 403 {
			t.Errorf("Host %q: status %d", c.host, w.Code)
		}
	}
}

func TestOrigin(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Public.Origins = []string{"https://chat.example.org"} })
	const gen = `{"prompt":"x","max_tokens":1}`
	for _, c := range []struct {
		name, method, path, body, origin string
		admin                            bool
		status                           int
		allowed                          string // Access-Control-Allow-Origin
	}{
		{"no page", "POST", "/v1/completions", gen, "", false, 200, ""},
		{"own page", "POST", "/v1/completions", gen, "http://127.0.0.1", false, 200, "http://127.0.0.1"},
		{"page of this machine", "POST", "/v1/completions", gen, "http://localhost:3000", false, 200, "http://localhost:3000"},
		{"configured page", "POST", "/v1/completions", gen, "https://chat.example.org", false, 200, "https://chat.example.org"},
		{"foreign page", "POST", "/v1/completions", gen, "https://evil.example", false, 403, ""},
		{"foreign page, simple request", "POST", "/api/v1/generate", gen, "https://evil.example", false, 403, ""},
		{"hidden page", "POST", "/v1/completions", gen, "null", false, 403, ""},
		{"no such thing", "POST", "/v1/completions", gen, "http://localhost.evil.example", false, 403, ""},
		{"foreign page reads the swarm", "GET", "/api/v1/swarm/models", "", "https://evil.example", false, 200, "*"},
		{"foreign page reads sessions", "GET", "/api/v1/sessions", "", "https://evil.example", false, 200, ""}, // the browser withholds it
		{"configured page controls", "POST", "/api/v1/node/drain", "", "https://chat.example.org", true, 403, ""},
		{"page of this machine controls", "POST", "/api/v1/node/drain", "", "http://localhost:3000", true, 403, ""},
		{"own page controls", "POST", "/api/v1/node/drain", "", "http://127.0.0.1", true, 202, ""},
		{"foreign page ends a session", "DELETE", "/api/v1/sessions/aa", "", "https://evil.example", true, 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := b.api.Public()
			if c.admin {
				h = b.api.Admin()
			}
			var headers []string
			if c.origin != "" {
				headers = []string{"Origin: " + c.origin}
			}
			w := do(h, c.method, c.path, c.body, headers...)
			if w.Code != c.status || w.Header().Get("Access-Control-Allow-Origin") != c.allowed {
				t.Errorf("status %d, allowed %q: %s", w.Code, w.Header().Get("Access-Control-Allow-Origin"), w.Body)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	b := newBench(t, func(c *api.Config) {
		c.Public = api.Listener{Origins: []string{"https://chat.example.org"}, Token: "secret"}
	})
	for _, c := range []struct {
		path, origin, method string
		ok                   bool
	}{
		{"/v1/chat/completions", "https://chat.example.org", "POST", true},
		{"/v1/models/org/toy", "https://chat.example.org", "GET", true},
		{"/v1/chat/completions", "https://evil.example", "POST", false},
		{"/api/v1/node", "https://chat.example.org", "GET", false},
		{"/nowhere", "https://chat.example.org", "POST", false},
	} {
		w := do(b.api.Public(), "OPTIONS", c.path, "", "Origin: "+c.origin, "Access-Control-Request-Method: "+c.method)
		got := w.Header().Get("Access-Control-Allow-Origin") == c.origin && strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "authorization")
		if w.Code != 204 || got != c.ok {
			t.Errorf("%s from %s: status %d, headers %v", c.path, c.origin, w.Code, w.Header())
		}
	}
}

func TestToken(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Public.Token, c.Admin.Token = "secret", "other" })
	for _, c := range []struct {
		path, auth string
		admin      bool
		status     int
	}{
		{"/v1/models", "", false, 401}, {"/v1/models", "Bearer secret", false, 200}, {"/v1/models", "bearer secret", false, 200},
		{"/v1/models", "Bearer secre", false, 401}, {"/v1/models", "Bearer secret2", false, 401}, {"/v1/models", "Basic secret", false, 401}, {"/v1/models", "Bearer other", false, 401},
		{"/v1/models?token=secret", "", false, 401},
		{"/api/v1/node", "", false, 401}, {"/api/v1/sessions", "", false, 401}, {"/metrics", "", false, 401},
		{"/livez", "", false, 200}, {"/api/v1/swarm/models", "", false, 200}, {"/api/v1/state", "", false, 200},
		{"/api/v1/node", "Bearer secret", true, 401}, {"/api/v1/node", "Bearer other", true, 200},
	} {
		h := b.api.Public()
		if c.admin {
			h = b.api.Admin()
		}
		w := do(h, "GET", c.path, "", "Authorization: "+c.auth)
		if w.Code != c.status || w.Code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s with %q: status %d, %v", c.path, c.auth, w.Code, w.Header())
		}
	}
}

// Whoever shows wrong tokens must wait, and others need not.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Public.Token = "sixteen letters." })
		h := b.api.Public()
		ask := func(from, token string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "http://127.0.0.1/v1/models", nil)
			r.RemoteAddr = from
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		const guesser, other, proxy = "203.0.113.9:1000", "203.0.113.8:1000", "127.0.0.1:1000"
		status := map[int]int{}
		for i := range 6000 {
			w := ask(guesser, fmt.Sprint("guess ", i))
			if status[w.Code]++; w.Code == 429 && w.Header().Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		}
		if status[401] != 20 || status[429] != 5980 {
			t.Errorf("statuses %v", status)
		}
		if w := ask(guesser, "sixteen letters."); w.Code != 429 {
			t.Errorf("the right token among guesses: status %d", w.Code)
		}
		if w := ask(other, "sixteen letters."); w.Code != 200 {
			t.Errorf("another address: status %d", w.Code)
		}
		if w := ask(guesser, ""); w.Code != 401 { // no guess
			t.Errorf("without a token: status %d", w.Code)
		}
		time.Sleep(3 * time.Second)
		if w := ask(guesser, "sixteen letters."); w.Code != 200 {
			t.Errorf("after the wait: status %d", w.Code)
		}
		for range 100 {
			ask(proxy, "wrong")
		}
		if w := ask(proxy, "sixteen letters."); w.Code != 200 {
			t.Errorf("behind a proxy: status %d", w.Code)
		}
		for i := range 10_000 { // many addresses take no more than their memory
			ask(fmt.Sprintf("198.51.%d.%d:1", i/250, i%250), "wrong")
		}
	})
}

func TestListenersApart(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct {
		method, path string
		admin        bool
	}{
		{"POST", "/api/v1/node/drain", false}, {"POST", "/api/v1/node/resume", false}, {"POST", "/api/v1/node/restart", false}, {"POST", "/api/v1/node/rebalance", false}, {"POST", "/api/v1/node/shutdown", false}, {"POST", "/api/v1/node/benchmark", false}, {"GET", "/api/v1/operations", false}, {"POST", "/api/v1/invitations", false}, {"DELETE", "/api/v1/sessions/aa", false},
		{"POST", "/v1/completions", true}, {"GET", "/v1/models", true}, {"POST", "/api/v1/generate", true}, {"GET", "/api/v2/generate", true}, {"GET", "/api/v1/hidden", true},
	} {
		h := b.api.Public()
		if c.admin {
			h = b.api.Admin()
		}
		if w := do(h, c.method, c.path, ""); w.Code != 404 {
			t.Errorf("%s %s, admin %v: status %d", c.method, c.path, c.admin, w.Code)
		}
	}
	if b.node.stopped || b.node.state != 3 || len(b.node.killed) > 0 {
		t.Error("the public listener changed the node")
	}
}

func TestUnknownRoutes(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("page")) })
	b := newBench(t, func(c *api.Config) { c.Pages = pages })
	for _, c := range []struct {
		method, path string
		status       int
		key          string // of the JSON reply; "" for the page
	}{
		{"GET", "/v1/images", 404, "error"}, {"POST", "/v1/audio/speech", 404, "error"}, {"GET", "/v1/chat/completions", 405, "error"},
		{"GET", "/api/v1/nothing", 404, "detail"}, {"DELETE", "/api/v1/node", 405, "detail"},
		{"GET", "/", 200, ""}, {"GET", "/models/x", 200, ""},
	} {
		w := do(b.api.Public(), c.method, c.path, "")
		var v map[string]any
		json.Unmarshal(w.Body.Bytes(), &v)
		if w.Code != c.status || c.key != "" && v[c.key] == nil || c.key == "" && w.Body.String() != "page" {
			t.Errorf("%s %s: status %d, %s", c.method, c.path, w.Code, w.Body)
		}
		if e, ok := v["error"].(map[string]any); ok {
			for _, key := range []string{"message", "type", "param", "code"} {
				if _, ok := e[key]; !ok {
					t.Errorf("%s %s: the error lacks %s", c.method, c.path, key)
				}
			}
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if w := do(b.api.Public(), "HEAD", "/livez", ""); w.Code != 200 {
		t.Errorf("HEAD /livez: status %d", w.Code)
	}
	if w := do(b.api.Public(), "GET", "/", "", badHost); w.Code != 403 {
		t.Errorf("a page under another site's name: status %d", w.Code)
	}
	if w := do(b.api.Public(), "POST", "/form", "x=1", "Origin: https://evil.example"); w.Code != 403 {
		t.Errorf("a page's form from another site: status %d", w.Code)
	}
	if w := do(b.api.Admin(), "GET", "/", ""); w.Code != 404 {
		t.Errorf("a page on the admin listener: status %d", w.Code)
	}
}

func TestRequestID(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct {
		given string
		kept  bool
	}{{"abc-1.2_X", true}, {"", false}, {"a b", false}, {"a\"b", false}, {strings.Repeat("x", 65), false}} {
		got := do(b.api.Public(), "GET", "/livez", "", "X-Request-Id: "+c.given).Header().Get("X-Request-Id")
		if (got == c.given) != c.kept || got == "" {
			t.Errorf("given %q, got %q", c.given, got)
		}
	}
}

func TestPanicIsOneError(t *testing.T) {
	b := newBench(t, func(c *api.Config) {
		c.Pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret text") })
	})
	w := do(b.api.Public(), "GET", "/", "")
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t, nil)
	do(b.api.Public(), "POST", "/v1/completions", `{"prompt":"x","max_tokens":3}`)
	do(b.api.Public(), "BREW", "/v1/nowhere/17", "")
	text := do(b.api.Public(), "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`whorl_http_requests_total{code="200",method="POST",route="/v1/completions"} 1`,
		`whorl_http_requests_total{code="405",method="other",route="other"} 1`,
		`whorl_tokens_total{kind="completion",model="org/toy"} 3`,
		`whorl_tokens_total{kind="prompt",model="org/toy"} 2`,
		`whorl_answers_total{finish="length",model="org/toy"} 1`,
		`whorl_first_token_seconds_count{model="org/toy"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if _, err := New(b.cfg); err != nil {
		t.Errorf("a second API on one registry: %v", err)
	}
}
