package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

const (
	// probeTime is how long a server may take to answer a probe, as in Petals.
	probeTime = 5 * time.Second
	// maxProbes run at the same time: strangers may ask for them.
	maxProbes = 8
	// maxPeerID is longer than any id.
	maxPeerID = 64
	base58    = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
)

// GetReachable probes a server. Only those that the directory knows are probed, at the
// addresses that they announced: this is no port scanner.
func (a Dialect) GetReachable(w http.ResponseWriter, r *http.Request, id string) {
	if !isPeerID(id) {
		a.Fail(w, r, noPeerID(id))
		return
	}
	out := gen.Reachable{YourIp: r.RemoteAddr}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		out.YourIp = host
	}
	var err error
	if out.Message, err = a.reach(r.Context(), swarm.PeerID(id)); err != nil {
		if swarm.CodeOf(err) == api.CodeQueueFull {
			a.Fail(w, r, err)
			return
		}
		out.Message = api.OneLine(err.Error())
	}
	out.Success = err == nil
	api.Reply(w, out)
}

// isPeerID tells whether a text looks like a peer id.
func isPeerID(id string) bool {
	return id != "" && len(id) <= maxPeerID && strings.Trim(id, base58) == ""
}

func noPeerID(id string) error {
	return api.Invalid("peer_id", "%q is not a peer id: want one such as 12D3KooW...", api.Clip(id))
}

// reach says how a peer answered, or that it did not and why.
func (a Dialect) reach(ctx context.Context, id swarm.PeerID) (string, error) {
	if id == a.Config.Node.Status().Peer {
		return "this is the node that answers", nil
	}
	if !a.announced(id) {
		return "", fmt.Errorf("no server of this swarm announces itself as %s: a server does once it has joined", id)
	}
	select {
	case a.probes <- struct{}{}:
		defer func() { <-a.probes }()
	default:
		return "", api.Refused(api.CodeQueueFull, "%d probes are running, which is the most: ask again in a second", maxProbes)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	rtt, err := a.Peering.Ping(ctx, id)
	switch {
	case err == nil:
		return fmt.Sprintf("it answers after %.1f ms", float64(rtt.Microseconds())/1000), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not answer within %v: a firewall may block connections to it; check --port and --public-ip, or --announce-maddrs", probeTime)
	}
	return "", fmt.Errorf("it does not answer: %w", err)
}

// announced tells whether some model has a record of the peer.
func (a Dialect) announced(id swarm.PeerID) bool {
	for _, v := range a.Config.Directory.Views() {
		for i := range v.Servers {
			if v.Servers[i].Peer == id {
				return true
			}
		}
	}
	return false
}
