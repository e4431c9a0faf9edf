package api

import (
	"net/http"

	"whorl/api/gen"
)

// DrainNode stops new sessions; a body with a reason is optional.
func (a *API) DrainNode(w http.ResponseWriter, r *http.Request) {
	var req gen.DrainRequest
	if r.ContentLength != 0 {
		if err := a.readJSON(w, r, "DrainRequest", &req); err != nil {
			a.fail(w, r, err)
			return
		}
	}
	reason := ""
	if req.Reason != nil {
		reason = *req.Reason
	}
	if err := a.cfg.Control.Drain(r.Context(), reason); err != nil {
		a.fail(w, r, err)
		return
	}
	a.log.Info("drain asked for", "id", requestID(r), "reason", reason)
	reply(w, nodeStatus(a.cfg.Node.Status()))
}

// ResumeNode takes sessions again.
func (a *API) ResumeNode(w http.ResponseWriter, r *http.Request) {
	if err := a.cfg.Control.Resume(r.Context()); err != nil {
		a.fail(w, r, err)
		return
	}
	a.log.Info("resume asked for", "id", requestID(r))
	reply(w, nodeStatus(a.cfg.Node.Status()))
}

// ShutdownNode begins the end of the process.
func (a *API) ShutdownNode(w http.ResponseWriter, r *http.Request) {
	status := nodeStatus(a.cfg.Node.Status())
	a.log.Info("shutdown asked for", "id", requestID(r))
	a.cfg.Control.Shutdown()
	writeJSON(w, http.StatusAccepted, "application/json", status)
}

// DeleteSession ends a session.
func (a *API) DeleteSession(w http.ResponseWriter, r *http.Request, id string) {
	if err := a.cfg.Control.KillSession(id); err != nil {
		a.fail(w, r, err)
		return
	}
	a.log.Info("session ended by the operator", "id", requestID(r), "session", clip(id))
	w.WriteHeader(http.StatusNoContent)
}
