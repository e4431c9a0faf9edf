package control

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"whorl/api"
	"whorl/api/gen"
)

// GetLivez says that the process runs; it looks at nothing else.
func (a Dialect) GetLivez(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, gen.Health{Status: gen.HealthStatusOk, Checks: map[string]gen.Check{}})
}

// GetReadyz says whether the node can be used, and why not.
func (a Dialect) GetReadyz(w http.ResponseWriter, r *http.Request, params gen.GetReadyzParams) {
	out := gen.Health{Status: gen.HealthStatusOk, Checks: map[string]gen.Check{}}
	status := http.StatusOK
	for name, err := range a.Config.Node.Ready() {
		if slices.Contains(params.Exclude, name) {
			continue
		}
		c := gen.Check{Ok: err == nil}
		if err != nil {
			text := api.OneLine(err.Error())
			c.Error = &text
			out.Status, status = gen.HealthStatusUnavailable, http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "5")
		}
		out.Checks[name] = c
	}
	api.WriteJSON(w, status, "application/json", out)
}

// GetMetrics shows the registry.
func (a Dialect) GetMetrics(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(a.Config.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
}

// GetPrometheus is GetMetrics under another name.
func (a Dialect) GetPrometheus(w http.ResponseWriter, r *http.Request) { a.GetMetrics(w, r) }

// GetVersion says which program answers.
func (a Dialect) GetVersion(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, gen.Version{Name: gen.VersionNameWhorl, Version: a.Config.Node.Status().Version, Api: a.Document().Info.Version})
}

// GetOpenapiJSON serves the contract to tools that do not read YAML.
func (a Dialect) GetOpenapiJSON(w http.ResponseWriter, r *http.Request) { api.Reply(w, a.Document()) }

// GetOpenapi serves the contract.
func (a Dialect) GetOpenapi(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(gen.Document)
}
