package p2p

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/peer"

	"whorl/swarm"
)

// Connect dials a node at an address that ends in /p2p/ID. The id is empty where the text is no
// such address.
func (h *Host) Connect(ctx context.Context, addr string) (swarm.PeerID, error) {
	infos, err := ParsePeers([]string{addr})
	if err != nil {
		return "", err
	}
	id := infos[0].ID
	if id == h.h.ID() {
		return "", errors.New("this is the node itself")
	}
	for _, a := range infos[0].Addrs {
		h.gate.name(id, a)
	}
	h.forgive(id)
	if err := h.h.Connect(ctx, infos[0]); err != nil {
		return swarm.PeerID(id.String()), errors.New(reason(err))
	}
	return swarm.PeerID(id.String()), nil
}

// Disconnect closes the connections to a peer; false if there are none.
func (h *Host) Disconnect(p swarm.PeerID) bool {
	id, err := peer.Decode(string(p))
	if err != nil || len(h.h.Network().ConnsToPeer(id)) == 0 {
		return false
	}
	if err := h.h.Network().ClosePeer(id); err != nil {
		h.log.Debug("a connection did not close well", "peer", p, "reason", err)
	}
	return true
}
