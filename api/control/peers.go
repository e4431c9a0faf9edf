package control

import (
	"context"
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

// dialTime is how long a node that the operator named may take to answer.
const dialTime = 15 * time.Second

// DialPeer connects to a node at an address.
func (a Dialect) DialPeer(w http.ResponseWriter, r *http.Request) {
	var req gen.DialRequest
	if err := a.ReadJSON(w, r, "DialRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialTime)
	defer cancel()
	id, err := a.Peering.Connect(ctx, req.Addr)
	switch {
	case err != nil && id == "": // not an address
		a.Fail(w, r, api.Invalid("addr", "%w", err))
		return
	case err != nil:
		a.Fail(w, r, api.Refused(api.CodeUnreached, "the node at %s cannot be reached: %s", api.Clip(req.Addr), api.OneLine(err.Error())))
		return
	}
	a.Log.Info("peer dialled for the operator", "id", api.RequestID(r), "peer", id, "addr", req.Addr)
	api.WriteJSON(w, http.StatusCreated, "application/json", gen.Dialled{PeerId: string(id)})
}

// DropPeer closes the connections to a node.
func (a Dialect) DropPeer(w http.ResponseWriter, r *http.Request, id string) {
	if !isPeerID(id) {
		a.Fail(w, r, noPeerID(id))
		return
	}
	if !a.Peering.Disconnect(swarm.PeerID(id)) {
		a.Fail(w, r, api.Refused(api.CodeNotFound, "this node has no connection to %s: GET /api/v1/peers lists them", id))
		return
	}
	a.Log.Info("peer dropped by the operator", "id", api.RequestID(r), "peer", id)
	w.WriteHeader(http.StatusNoContent)
}

// PingPeer measures the round trip to a node.
func (a Dialect) PingPeer(w http.ResponseWriter, r *http.Request, id string) {
	if !isPeerID(id) {
		a.Fail(w, r, noPeerID(id))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTime)
	defer cancel()
	rtt, err := a.Peering.Ping(ctx, swarm.PeerID(id))
	if err != nil {
		a.Fail(w, r, api.Refused(api.CodeUnreached, "%s does not answer: %s", id, api.OneLine(err.Error())))
		return
	}
	api.Reply(w, gen.Pong{PeerId: id, RttMs: float64(rtt.Microseconds()) / 1000})
}
