package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"whorl/web/view"
)

// Admin are the pages of a listener of control: /reference about its API, by its contract; /keys
// about who calls the node; what they need, and / which leads to the first. They hold nothing of the node:
// their scripts ask the listener, which checks the token.
func Admin(contract []byte) (http.Handler, error) {
	reference, err := readReference(contract, true)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(guarded)
	for path, page := range map[string]struct {
		title, kind string
		fill        interface{ Sections(*view.Page) }
	}{
		"/reference": {"API reference", "reference", reference},
		"/keys":      {"Keys", "keys", view.Keys{}},
	} {
		r.With(middleware.Compress(5, "text/html")).Get(path, func(w http.ResponseWriter, r *http.Request) {
			none := view.Section{Body: templ.NopComponent}
			p := &view.Page{Title: page.title, Kind: page.kind, Nav: path, Admin: true, Now: time.Now(), Banner: none, AsOf: none}
			p.Banner.ID, p.AsOf.ID = "banner", "asof"
			page.fill.Sections(p)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			if err := view.Document(p).Render(r.Context(), w); err != nil {
				slog.Debug("admin page not sent", "path", path, "error", err)
			}
		})
	}
	r.Get("/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/reference", http.StatusFound) })
	r.Get("/static/*", view.Static)
	return r, nil
}
