package control

import (
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

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
