package control

import (
	"net/http"
	"slices"
	"strings"

	"whorl/api"
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
func (a Dialect) GetNode(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, nodeStatus(a.Config.Node.Status()))
}

// ListBlocks lists the blocks this node holds.
func (a Dialect) ListBlocks(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, items(a.Config.Node.Blocks()))
}

// ListSessions lists sessions, oldest first.
func (a Dialect) ListSessions(w http.ResponseWriter, r *http.Request) {
	all := slices.Clone(a.Config.Node.Sessions())
	slices.SortStableFunc(all, func(x, y swarm.SessionStatus) int {
		if c := x.Opened.Compare(y.Opened); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	api.Reply(w, items(all))
}

// ListStandings lists what this node observed of others.
func (a Dialect) ListStandings(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, items(a.Config.Node.Standings()))
}

// ListPeers lists connections.
func (a Dialect) ListPeers(w http.ResponseWriter, r *http.Request) {
	all := slices.Clone(a.Config.Node.Peers())
	for i := range all {
		if all[i].Addrs == nil {
			all[i].Addrs = []string{}
		}
	}
	slices.SortStableFunc(all, func(x, y swarm.PeerStatus) int { return strings.Compare(string(x.Peer), string(y.Peer)) })
	api.Reply(w, items(all))
}
