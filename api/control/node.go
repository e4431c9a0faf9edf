package control

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

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
	s := nodeStatus(a.Config.Node.Status())
	if wantsText(r) {
		nodeText(w, s)
		return
	}
	api.Reply(w, s)
}

// nodeText shows the node as lines of a name and a value.
func nodeText(w http.ResponseWriter, s swarm.NodeStatus) {
	type line struct{ name, value string }
	lines := []line{
		{"peer", string(s.Peer)}, {"name", s.PublicName}, {"roles", strings.Join(s.Roles, ", ")}, {"state", s.State.String()},
		{"version", s.Version}, {"started", s.Started.UTC().Format(time.RFC3339)}, {"swarm", s.Swarm},
	}
	if s.Manifest != nil {
		lines = append(lines, line{"model", s.Manifest.Name}, line{"model id", string(s.UID)})
	}
	if s.Span != nil {
		lines = append(lines, line{"blocks", fmt.Sprintf("%v of %d", *s.Span, s.Manifest.Blocks)}, line{"device", s.Device},
			line{"tokens/s", fmt.Sprintf("%.1f", s.Throughput)},
			line{"cache", fmt.Sprintf("%d of %d tokens used", s.Cache.UsedTokens, s.Cache.TotalTokens)},
			line{"sessions", strconv.Itoa(s.Sessions)}, line{"mean batch", fmt.Sprintf("%.1f", s.Batch.Recent)})
	}
	if s.Next != nil {
		lines = append(lines, line{"moves to", s.Next.Span.String()})
	}
	if s.Placement != nil {
		lines = append(lines, line{"placement", s.Placement.Do + ": " + s.Placement.Reason})
	}
	if d := s.Drained; d != nil {
		lines = append(lines, line{"drained", strings.TrimSuffix("since "+d.Since.UTC().Format(time.RFC3339)+": "+d.Reason, ": ")})
	}
	if s.Trouble != "" {
		lines = append(lines, line{"trouble", s.Trouble})
	}
	if m := s.Memory; m != nil {
		text := fmt.Sprintf("%d MiB of %d left", m.Left>>20, m.Of>>20)
		if m.Short != "" {
			text = "short, no sessions are taken: " + m.Short
		}
		lines = append(lines, line{"memory", text})
	}
	lines = append(lines, line{"peers", strconv.Itoa(s.Peers)})
	for _, a := range s.Addrs {
		lines = append(lines, line{"address", a})
	}
	writeTable(w, []column[line]{{"", func(l *line) string { return l.name }}, {"", func(l *line) string { return l.value }}}, lines)
}

// ListBlocks lists the blocks this node holds.
func (a Dialect) ListBlocks(w http.ResponseWriter, r *http.Request, params gen.ListBlocksParams) {
	replyList(a, w, r, blockTable, a.Config.Node.Blocks(), params.Limit, params.Cursor)
}

// GetBlock tells of one of them.
func (a Dialect) GetBlock(w http.ResponseWriter, r *http.Request, index int) {
	all := a.Config.Node.Blocks()
	i := slices.IndexFunc(all, func(b swarm.BlockStatus) bool { return b.Index == index })
	if i < 0 {
		a.Fail(w, r, api.Refused(api.CodeNotFound, "this node does not hold block %d: GET /api/v1/blocks lists what it holds", index))
		return
	}
	api.Reply(w, all[i])
}

// GetCache tells of the KV cache.
func (a Dialect) GetCache(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, a.Config.Node.Status().Cache)
}

// ListSessions lists sessions, oldest first.
func (a Dialect) ListSessions(w http.ResponseWriter, r *http.Request, params gen.ListSessionsParams) {
	replyList(a, w, r, sessionTable, slices.Clone(a.Config.Node.Sessions()), params.Limit, params.Cursor)
}

// GetSession tells of one session, as who drives it sees it if this node does.
func (a Dialect) GetSession(w http.ResponseWriter, r *http.Request, id string) {
	var found *swarm.SessionStatus
	for _, s := range a.Config.Node.Sessions() {
		if s.ID == id && (found == nil || s.Role == "gateway") {
			found = &s
		}
	}
	if found == nil {
		a.Fail(w, r, swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "this node has no session %s", api.Clip(id)))
		return
	}
	api.Reply(w, found)
}

// ListStandings lists what this node observed of others.
func (a Dialect) ListStandings(w http.ResponseWriter, r *http.Request, params gen.ListStandingsParams) {
	replyList(a, w, r, standingTable, slices.Clone(a.Config.Node.Standings()), params.Limit, params.Cursor)
}

// ListPeers lists connections.
func (a Dialect) ListPeers(w http.ResponseWriter, r *http.Request, params gen.ListPeersParams) {
	all := slices.Clone(a.Config.Node.Peers())
	for i := range all {
		if all[i].Addrs == nil {
			all[i].Addrs = []string{}
		}
	}
	replyList(a, w, r, peerTable, all, params.Limit, params.Cursor)
}
