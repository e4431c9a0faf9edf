package p2p

import (
	"github.com/libp2p/go-libp2p/core/protocol"

	"whorl/swarm"
)

// Speaks lists the connected peers that answer streams of a protocol, as they say.
func (h *Host) Speaks(proto string) (out []swarm.PeerID) {
	for _, id := range h.h.Network().Peers() {
		if got, err := h.h.Peerstore().SupportsProtocols(id, protocol.ID(proto)); err == nil && len(got) > 0 {
			out = append(out, swarm.PeerID(id.String()))
		}
	}
	return out
}
