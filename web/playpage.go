package web

import (
	"net/http"
	"slices"

	"whorl/swarm/health"
	"whorl/web/view"
)

func (s *Site) playPage(r *http.Request, snap *snapshot) (*view.Page, int) {
	p := s.frame(snap, "Playground", "play", "/play", nil)
	p.Live = "" // a conversation must not be exchanged under the visitor's hands
	names := slices.Clone(s.deps.Models())
	v := view.Play{Socket: s.cfg.APIBase + "/api/v2/generate", Curl: origin(r) + s.cfg.APIBase + "/v1/chat/completions"}
	wanted := r.URL.Query().Get("model")
	for i, name := range names {
		m := view.PlayModel{Name: name, Selected: name == wanted || i == 0 && !slices.Contains(names, wanted)}
		for i := range snap.views {
			if snap.views[i].Manifest.Name == name {
				j := s.judge(snap, i, p.Now)
				m.MaxLength = health.Capacity(j.view, 1)
				if j.condition != health.Healthy {
					m.State = " (" + string(j.condition) + ")"
				}
			}
		}
		v.Models = append(v.Models, m)
	}
	v.Sections(p)
	return p, http.StatusOK
}

// origin is the address by which the visitor reached this listener.
func origin(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
