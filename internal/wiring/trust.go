package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/client"
	"whorl/client/audit"
	"whorl/internal/atomicfile"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/trust"
)

// trustEvery is how often what a node observed of its peers is written: a crash costs so much
// of it.
const trustEvery = 3 * time.Minute

// memory is what a node observed of its peers, kept in a file.
type memory struct {
	*trust.Book
	path string // "" keeps it in memory alone
}

// openMemory reads the file of an earlier run. One that cannot be read costs what was in it,
// and is put aside for the operator: no node stays down for it.
func openMemory(path string) *memory {
	m := &memory{trust.NewBook(trust.DefaultParams()), path}
	if path == "" {
		return m
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	if err == nil {
		err = m.Decode(data, time.Now())
	}
	if err != nil {
		slog.Warn("what was observed of peers in earlier runs cannot be read: the node begins anew", "file", path, "aside", path+".broken",
			"reason", errors.Join(err, os.Rename(path, path+".broken")))
	}
	return m
}

// keep writes the file every few minutes, and when ctx ends.
func (m *memory) keep(ctx context.Context) {
	if m.path == "" {
		return
	}
	tick := time.NewTicker(trustEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.save()
		case <-ctx.Done():
			m.save()
			return
		}
	}
}

func (m *memory) save() {
	data, err := m.Encode(time.Now())
	if err == nil {
		err = atomicfile.Write(m.path, data, 0o600)
	}
	if err != nil {
		slog.Warn("what was observed of peers cannot be kept", "file", m.path, "reason", err)
	}
}

// prefix is that of a connected peer.
func (n *Node) prefix(p swarm.PeerID) string { return n.net.prefix(p) }

// prefix is the network that a connected peer's address lies in; "" for peers that are not
// connected, on this machine or in a private network, where it says nothing of who they are.
func (n *network) prefix(p swarm.PeerID) string {
	for _, c := range n.host.Contacts(p) {
		ip := c.IP.Unmap()
		if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() {
			continue
		}
		if net := (budget.Rule{}).Net(ip); net != "" {
			return net
		}
	}
	return ""
}

// Standings are what this node observed of others.
func (n *Node) Standings() []trust.Standing { return n.trust.Standings(time.Now()) }

// avoided says until when this node avoids a peer, and why.
func (n *Node) avoided(p swarm.PeerID) (until time.Time, why string, ok bool) {
	a, ok := n.trust.Judge(p, n.prefix(p), time.Now())
	return a.Until, a.Reason, ok
}

// Ban avoids a peer for a time, in running sessions too.
func (n *Node) Ban(p swarm.PeerID, long time.Duration, reason string) {
	now := time.Now()
	n.trust.Ban(p, now.Add(long), reason, now)
	_, engines := n.parts()
	for _, e := range engines {
		e.Leave(p, fmt.Errorf("server %s was banned by the operator of this node", p.Short()))
	}
}

// Pardon forgets what is held against a peer; false if nothing was.
func (n *Node) Pardon(p swarm.PeerID) bool {
	now := time.Now()
	if n.docket != nil {
		n.docket.Pardon(p, now)
	}
	return n.trust.Pardon(p, now)
}

// trustMetrics tells of the peers that this node avoids and of its audits.
type trustMetrics struct{ n *Node }

var (
	avoidedDesc = prometheus.NewDesc("whorl_peers_avoided", "Peers that this node avoids, by why: those that failed are asked where nobody else holds a block, liars never.", []string{"kind"}, nil)
	auditsDesc  = prometheus.NewDesc("whorl_audits_total", "Audits of what servers gave in users' sessions, by result; skipped were those for which others left no room.", []string{"result"}, nil)
	differDesc  = prometheus.NewDesc("whorl_verify_differences_total", "Steps of verified answers that chains of servers gave different rows for; none of them was shown.", nil, nil)
)

// Describe names what Collect gives.
func (m trustMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- avoidedDesc
	out <- auditsDesc
	out <- differDesc
}

// Collect reads the book and the engines.
func (m trustMetrics) Collect(out chan<- prometheus.Metric) {
	kinds := map[string]int{}
	for _, s := range m.n.trust.Standings(time.Now()) {
		if s.Avoid != nil {
			kinds[s.Avoid.Kind.String()]++
		}
	}
	for kind, n := range kinds {
		out <- prometheus.MustNewConstMetric(avoidedDesc, prometheus.GaugeValue, float64(n), kind)
	}
	_, engines := m.n.parts()
	var sum client.AuditCounts
	for _, e := range engines {
		c := e.Audits()
		sum.Skipped += c.Skipped
		sum.Differences += c.Differences
		for i, n := range c.Results {
			sum.Results[i] += n
		}
	}
	for i, n := range sum.Results {
		out <- prometheus.MustNewConstMetric(auditsDesc, prometheus.CounterValue, float64(n), audit.Result(i).String())
	}
	out <- prometheus.MustNewConstMetric(auditsDesc, prometheus.CounterValue, float64(sum.Skipped), "skipped")
	out <- prometheus.MustNewConstMetric(differDesc, prometheus.CounterValue, float64(sum.Differences))
}
