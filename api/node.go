package api

import (
	"net/http"
	"slices"
	"strings"

	"whorl/swarm"
)

// list is the form of all lists: an object, so that fields can be added beside the items.
type list[T any] struct {
	Items []T `json:"items"`
}

func items[T any](s []T) list[T] {
	if s == nil {
		s = []T{}
	}
	return list[T]{s}
}

func nodeStatus(s swarm.NodeStatus) swarm.NodeStatus {
	if s.Addrs == nil {
		s.Addrs = []string{}
	}
	if s.Roles == nil {
		s.Roles = []string{}
	}
	return s
}

// GetNode tells of this node.
func (a *API) GetNode(w http.ResponseWriter, r *http.Request) {
	reply(w, nodeStatus(a.cfg.Node.Status()))
}

// ListBlocks lists the blocks this node holds.
func (a *API) ListBlocks(w http.ResponseWriter, r *http.Request) {
	reply(w, items(a.cfg.Node.Blocks()))
}

// ListSessions lists sessions, oldest first.
func (a *API) ListSessions(w http.ResponseWriter, r *http.Request) {
	all := slices.Clone(a.cfg.Node.Sessions())
	slices.SortStableFunc(all, func(x, y swarm.SessionStatus) int {
		if c := x.Opened.Compare(y.Opened); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	reply(w, items(all))
}

// ListPeers lists connections.
func (a *API) ListPeers(w http.ResponseWriter, r *http.Request) {
	all := slices.Clone(a.cfg.Node.Peers())
	for i := range all {
		if all[i].Addrs == nil {
			all[i].Addrs = []string{}
		}
	}
	slices.SortStableFunc(all, func(x, y swarm.PeerStatus) int { return strings.Compare(string(x.Peer), string(y.Peer)) })
	reply(w, items(all))
}
