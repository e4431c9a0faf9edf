package control

import (
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

// DrainNode stops new sessions; a body with a reason is optional.
func (a Dialect) DrainNode(w http.ResponseWriter, r *http.Request) {
	var req gen.DrainRequest
	if r.ContentLength != 0 {
		if err := a.ReadJSON(w, r, "DrainRequest", &req); err != nil {
			a.Fail(w, r, err)
			return
		}
	}
	reason := ""
	if req.Reason != nil {
		reason = *req.Reason
	}
	if err := a.Config.Control.Drain(r.Context(), reason); err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("drain asked for", "id", api.RequestID(r), "reason", reason)
	api.Reply(w, nodeStatus(a.Config.Node.Status()))
}

// ResumeNode takes sessions again.
func (a Dialect) ResumeNode(w http.ResponseWriter, r *http.Request) {
	if err := a.Config.Control.Resume(r.Context()); err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("resume asked for", "id", api.RequestID(r))
	api.Reply(w, nodeStatus(a.Config.Node.Status()))
}

// RestartNode loads the blocks anew.
func (a Dialect) RestartNode(w http.ResponseWriter, r *http.Request) {
	a.Log.Info("restart asked for", "id", api.RequestID(r))
	if err := a.Config.Control.Restart(r.Context()); err != nil {
		a.Fail(w, r, err)
		return
	}
	api.Reply(w, nodeStatus(a.Config.Node.Status()))
}

// RebalanceNode decides anew which blocks the node should hold; a body is optional.
func (a Dialect) RebalanceNode(w http.ResponseWriter, r *http.Request) {
	var req gen.RebalanceRequest
	if r.ContentLength != 0 {
		if err := a.ReadJSON(w, r, "RebalanceRequest", &req); err != nil {
			a.Fail(w, r, err)
			return
		}
	}
	d, err := a.Config.Control.Rebalance(r.Context(), req.DryRun != nil && *req.DryRun)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("rebalance asked for", "id", api.RequestID(r), "decision", d.Do, "blocks", d.Span.String(), "why", d.Reason)
	api.Reply(w, d)
}

// ShutdownNode begins the end of the process.
func (a Dialect) ShutdownNode(w http.ResponseWriter, r *http.Request) {
	status := nodeStatus(a.Config.Node.Status())
	a.Log.Info("shutdown asked for", "id", api.RequestID(r))
	a.Config.Control.Shutdown()
	api.WriteJSON(w, http.StatusAccepted, "application/json", status)
}

// BanPeer has the node ask a peer for nothing.
func (a Dialect) BanPeer(w http.ResponseWriter, r *http.Request, id string) {
	var req gen.BanRequest
	if err := a.ReadJSON(w, r, "BanRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	if !isPeerID(id) {
		a.Fail(w, r, noPeerID(id))
		return
	}
	reason := ""
	if req.Reason != nil {
		reason = *req.Reason
	}
	a.Config.Control.Ban(swarm.PeerID(id), time.Duration(req.Seconds)*time.Second, reason)
	a.Log.Info("peer banned by the operator", "id", api.RequestID(r), "peer", id, "seconds", req.Seconds, "reason", reason)
	w.WriteHeader(http.StatusNoContent)
}

// PardonPeer forgets what is held against a peer.
func (a Dialect) PardonPeer(w http.ResponseWriter, r *http.Request, id string) {
	if !isPeerID(id) {
		a.Fail(w, r, noPeerID(id))
		return
	}
	if !a.Config.Control.Pardon(swarm.PeerID(id)) {
		a.Fail(w, r, api.Refused(api.CodeNotAvoided, "this node does not avoid peer %s: GET /api/v1/peers/standings lists those that it does", id))
		return
	}
	a.Log.Info("peer pardoned by the operator", "id", api.RequestID(r), "peer", id)
	w.WriteHeader(http.StatusNoContent)
}

// DeleteSession ends a session.
func (a Dialect) DeleteSession(w http.ResponseWriter, r *http.Request, id string) {
	if err := a.Config.Control.KillSession(id); err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("session ended by the operator", "id", api.RequestID(r), "session", api.Clip(id))
	w.WriteHeader(http.StatusNoContent)
}

// CreateInvitation makes an invitation to the node's swarm.
func (a Dialect) CreateInvitation(w http.ResponseWriter, r *http.Request) {
	i, err := a.Config.Control.Invite()
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("invitation made", "id", api.RequestID(r), "secret", i.Secret)
	api.WriteJSON(w, http.StatusCreated, "application/json", gen.Invitation{
		Invitation: i.Word, Swarm: i.Swarm, Peers: i.Peers, Manifest: i.Manifest, Model: i.Model, Secret: i.Secret,
	})
}
