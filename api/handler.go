package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/websocket"

	"whorl/api/gen"
	"whorl/internal/keys"
	"whorl/swarm"
)

// Handler serves the routes of one listener. admin is for the one that has control, and neither
// inference nor pages.
func (a *API) Handler(l Listener, admin bool, server gen.ServerInterface) http.Handler {
	s := &site{Listener: l, admin: admin}
	router := chi.NewRouter()
	router.Use(middleware.GetHead)
	gen.HandlerWithOptions(server, gen.ChiServerOptions{
		BaseRouter:       router,
		Middlewares:      []gen.MiddlewareFunc{func(next http.Handler) http.Handler { return a.authorised(s, next) }},
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { a.Fail(w, r, Invalid("", "%w", err)) },
	})
	// OpenAPI has no parameter over several path segments, but model names have slashes.
	router.Get("/v1/models/*", a.authorised(s, a.slashedModel(server)).ServeHTTP)
	router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		if pages := a.pages(s, r.URL.Path); pages != nil {
			if changes(r) && !sameOrigin(r) {
				a.Fail(w, r, Refused(CodeForbiddenOrigin, "pages of %q may not do this here", Clip(r.Header.Get("Origin"))))
				return
			}
			pages.ServeHTTP(w, r)
			return
		}
		a.Fail(w, r, Refused(CodeNoRoute, "no such route: %s %s", r.Method, Clip(r.URL.Path)))
	})
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(methodsOf(router, r.URL.Path), ", "))
		a.Fail(w, r, Refused(CodeMethod, "%s is not possible on %s", r.Method, Clip(r.URL.Path)))
	})
	return a.observed(counted(a.recovered(a.named(s, router))))
}

// pages are what serves a path that is no route; nil if nothing does.
func (a *API) pages(s *site, path string) http.Handler {
	_, listed := a.rules.form(path)
	switch {
	case listed:
		return nil
	case !s.admin:
		return a.Pages
	case path == "/" || path == "/reference" || path == "/keys" || strings.HasPrefix(path, "/static/"):
		return a.AdminPages
	}
	return nil
}

// named lets only requests through that name this listener, and answers preflights.
func (a *API) named(s *site, router chi.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hostAllowed(r) {
			a.Fail(w, r, Refused(CodeForbiddenHost, "the Host %q is not a name of this listener: use its address, or configure the name", Clip(r.Host)))
			return
		}
		if a.rules.off[r.URL.Path] {
			a.Fail(w, r, Refused(CodeNoRoute, "no such route: %s %s", r.Method, r.URL.Path))
			return
		}
		if method := r.Header.Get("Access-Control-Request-Method"); r.Method == http.MethodOptions && method != "" {
			a.preflight(s, router, w, r, method)
			return
		}
		router.ServeHTTP(w, r)
	})
}

// preflight tells a browser what a page may send. Without the headers it sends nothing.
func (a *API) preflight(s *site, router chi.Router, w http.ResponseWriter, r *http.Request, method string) {
	at := chi.NewRouteContext()
	if router.Match(at, method, r.URL.Path) {
		to, _ := a.rules.of(method, at.RoutePattern())
		s.cors(w, r, to)
	}
	if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", method)
		h.Set("Access-Control-Allow-Headers", strings.Join(headersAsked(r), ", "))
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// maxHeadersAsked is how many headers a preflight allows.
const maxHeadersAsked = 64

// headersAsked are the headers that a page may send: those that this API reads and those that
// the page asks for. Client libraries send many of their own, which do nothing here, and where
// one is not allowed the browser sends nothing.
func headersAsked(r *http.Request) []string {
	out := []string{"authorization", "content-type", "x-request-id", "x-request-timeout", "x-whorl-verify"}
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "" && len(out) < maxHeadersAsked && !slices.Contains(out, name) && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "" {
			out = append(out, name)
		}
	}
	return out
}

func (a *API) authorised(s *site, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, pattern := a.rules.of(r.Method, chi.RouteContext(r.Context()).RoutePattern())
		if p, ok := r.Context().Value(passportKey{}).(*passport); ok {
			p.route = pattern
		}
		s.cors(w, r, to)
		h, err := a.authorise(s, r, to)
		if err == nil && h != nil {
			err = a.enter(w, r, h, to)
		}
		if err != nil {
			if swarm.CodeOf(err) == CodeNoToken && tokenOf(r) != "" {
				a.guesses.wrong(addressOf(r), time.Now())
			}
			a.Fail(w, r, err)
			return
		}
		if to.listener == "admin" {
			a.once(next).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func methodsOf(router chi.Router, path string) []string {
	var out []string
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if router.Match(chi.NewRouteContext(), m, path) {
			out = append(out, m)
		}
	}
	return out
}

// passport is what is known of a request.
type passport struct {
	id    string       // in logs and replies
	route string       // the pattern it matched, for metrics
	key   *keys.Holder // that it showed; nil for none
}

type passportKey struct{}

// RequestID is the name of a request in logs and replies.
func RequestID(r *http.Request) string {
	if p, ok := r.Context().Value(passportKey{}).(*passport); ok {
		return p.id
	}
	return ""
}

// newRequestID takes the caller's id if it is harmless.
func newRequestID(given string) string {
	ok := given != "" && len(given) <= 64 && !strings.ContainsFunc(given, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.')
	})
	if ok {
		return given
	}
	return "req_" + RandomHex(12)
}

// RandomHex is so many random bytes.
func RandomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// observed names, counts and logs requests. Nothing of what is said in them is logged.
func (a *API) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := newRequestID(r.Header.Get("X-Request-Id"))
		w.Header().Set("X-Request-Id", id)
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		p := &passport{id: id, route: "other"}
		begin := time.Now()
		defer func() { // also where the answer is cut off
			status, took := statusOf(r, ww), time.Since(begin)
			a.metrics.request(p.route, r.Method, status, took)
			a.Log.Debug("request", "id", id, "method", r.Method, "route", p.route, "status", status, "took", took)
		}()
		next.ServeHTTP(ww, r.WithContext(context.WithValue(r.Context(), passportKey{}, p)))
	})
}

// statusOf is the status that a request ended with.
func statusOf(r *http.Request, w middleware.WrapResponseWriter) int {
	switch status := w.Status(); {
	case r.Context().Err() != nil && w.BytesWritten() == 0:
		return 499 // the client went away before it was answered
	case status != 0:
		return status
	case websocket.IsWebSocketUpgrade(r):
		return http.StatusSwitchingProtocols // written behind the writer's back
	}
	return http.StatusOK
}

// recovered turns a panic into an error: one broken request does not end the node.
func (a *API) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			a.Log.Error("a handler panicked", "id", RequestID(r), "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() == 0 {
				a.Fail(w, r, fmt.Errorf("panic: %v", p))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// slashedModel is getOpenAIModel for names written with their slashes.
func (a *API) slashedModel(server gen.ServerInterface) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := chi.URLParam(r, "*")
		if name == "" {
			a.Fail(w, r, Refused(CodeNoRoute, "no such route: %s %s", r.Method, r.URL.Path))
			return
		}
		if r.URL.RawPath != "" {
			plain, err := url.PathUnescape(name)
			if err != nil {
				a.Fail(w, r, Invalid("id", "the model's name is not well escaped"))
				return
			}
			name = plain
		}
		server.GetOpenAIModel(w, r, name)
	})
}
