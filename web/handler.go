package web

import (
	"bytes"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"whorl/web/view"
)

// policy lets pages load and call nothing but this listener.
const policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// pager makes a page of a snapshot. It is called anew for each, with the same request.
type pager func(r *http.Request, snap *snapshot) (page *view.Page, status int)

// Handler serves the pages. It checks no Host and no token: the listener's handler does,
// before it passes a request on.
func (s *Site) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(guarded)
	for path, page := range map[string]pager{
		"/": s.overviewPage, "/models/{uid}": s.modelPage, "/servers/{peer}": s.serverPage, "/events": s.eventsPage, "/play": s.playPage, "/reference": s.referencePage,
	} {
		r.With(middleware.Compress(5, "text/html")).Get(path, s.page(page))
		r.Get("/ui/live"+path, s.stream(page))
	}
	r.Get("/static/*", view.Static)
	r.Get("/favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, view.Asset("logo.svg"), http.StatusFound)
	})
	r.NotFound(s.page(func(r *http.Request, snap *snapshot) (*view.Page, int) {
		return s.problem(r, snap, "There is no such page.", "The overview shows all models of the swarm.")
	}))
	return r
}

// guarded sets the headers that keep foreign pages and foreign content out.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// page serves a page once.
func (s *Site) page(make pager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, status := make(r, s.now.Load())
		var body bytes.Buffer // so that a failure is a status and not half a page
		if err := view.Document(page).Render(r.Context(), &body); err != nil {
			s.log.Error("dashboard: page not rendered", "path", r.URL.Path, "error", err)
			http.Error(w, "the page could not be made", http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		w.Write(body.Bytes())
	}
}

// frame is what all pages have in common. args are those of the page's own parameters that
// are set.
func (s *Site) frame(snap *snapshot, title, kind, path string, args url.Values) *view.Page {
	now := time.Now()
	p := &view.Page{
		Title: title, Kind: kind, Nav: path, Period: s.cfg.Period, Now: now, Stale: snap.stale(now, s.cfg.Period), Live: link("/ui/live"+path, args, "", ""),
	}
	if s.deps.Node != nil {
		p.Swarm = s.deps.Node.Status().Swarm
	}
	text := ""
	if p.Stale && !snap.at.IsZero() {
		text = "The swarm has not been heard from recently."
		if snap.crawl.Error != "" {
			text += " " + sentence(snap.crawl.Error)
		}
	}
	p.Banner = view.Section{ID: "banner", Body: view.Banner(text, snap.okAt)}
	p.AsOf = view.Section{ID: "asof", Body: view.AsOf(snap.okAt, s.cfg.Period)}
	return p
}

// problem is a page that says what is wrong.
func (s *Site) problem(r *http.Request, snap *snapshot, title, text string) (*view.Page, int) {
	p := s.frame(snap, title, "problem", "", nil)
	p.Live = ""
	view.Problem{Title: title, Text: text}.Sections(p)
	return p, http.StatusNotFound
}

// pathParam is a part of the path, as it was before it was escaped.
func pathParam(r *http.Request, name string) string {
	raw := chi.URLParam(r, name)
	if text, err := url.PathUnescape(raw); err == nil {
		return text
	}
	return raw
}

// link is a path with parameters, one of them set to another value; "" leaves it out.
func link(path string, args url.Values, name, value string) string {
	q := url.Values{}
	for k := range args {
		q.Set(k, args.Get(k))
	}
	if name != "" {
		q.Del(name)
		if value != "" {
			q.Set(name, value)
		}
	}
	u := url.URL{Path: path, RawQuery: q.Encode()}
	return u.String()
}
