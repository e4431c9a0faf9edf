package web

import (
	"net/http"
	"slices"

	"whorl/swarm"
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
				m.MaxLength = sessionLimit(j.view)
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

// sessionLimit is the longest session that all online servers accept, 0 if none says.
func sessionLimit(v swarm.View) (limit int) {
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State == swarm.Online && r.MaxLength > 0 && (limit == 0 || r.MaxLength < limit) {
			limit = r.MaxLength
		}
	}
	return limit
}

// origin is the address by which the visitor reached this listener.
func origin(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
