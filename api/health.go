package api

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"whorl/api/gen"
)

// GetLivez says that the process runs; it looks at nothing else.
func (a *API) GetLivez(w http.ResponseWriter, r *http.Request) {
	reply(w, gen.Health{Status: gen.HealthStatusOk, Checks: map[string]gen.Check{}})
}

// GetReadyz says whether the node can be used, and why not.
func (a *API) GetReadyz(w http.ResponseWriter, r *http.Request, params gen.GetReadyzParams) {
	out := gen.Health{Status: gen.HealthStatusOk, Checks: map[string]gen.Check{}}
	status := http.StatusOK
	for name, err := range a.cfg.Node.Ready() {
		if slices.Contains(params.Exclude, name) {
			continue
		}
		c := gen.Check{Ok: err == nil}
		if err != nil {
			text := oneLine(err.Error())
			c.Error = &text
			out.Status, status = gen.HealthStatusUnavailable, http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "5")
		}
		out.Checks[name] = c
	}
	writeJSON(w, status, "application/json", out)
}

// GetMetrics shows the registry.
func (a *API) GetMetrics(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(a.cfg.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
}

// GetPrometheus is GetMetrics under another name.
func (a *API) GetPrometheus(w http.ResponseWriter, r *http.Request) { a.GetMetrics(w, r) }

// GetVersion says which program answers.
func (a *API) GetVersion(w http.ResponseWriter, r *http.Request) {
	reply(w, gen.Version{Name: gen.VersionNameWhorl, Version: a.cfg.Node.Status().Version, Api: a.doc.Info.Version})
}

// GetOpenapiJSON serves the contract to tools that do not read YAML.
func (a *API) GetOpenapiJSON(w http.ResponseWriter, r *http.Request) { reply(w, a.doc) }

// GetOpenapi serves the contract.
func (a *API) GetOpenapi(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(gen.Document)
}
