package control

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
	"whorl/swarm/trust"
)

// How each list is ordered and shown as text.
var (
	blockTable = table[swarm.BlockStatus]{
		key: func(b *swarm.BlockStatus) string { return fmt.Sprintf("%09d", b.Index) },
		columns: []column[swarm.BlockStatus]{
			{"BLOCK", func(b *swarm.BlockStatus) string { return strconv.Itoa(b.Index) }},
			{"STATE", func(b *swarm.BlockStatus) string { return b.State }},
			{"MIB", func(b *swarm.BlockStatus) string { return fmt.Sprintf("%.1f", float64(b.Bytes)/(1<<20)) }},
			{"LOADED IN", func(b *swarm.BlockStatus) string { return b.Load.Round(time.Millisecond).String() }},
			{"SESSIONS", func(b *swarm.BlockStatus) string { return strconv.Itoa(b.Session) }},
		},
	}
	sessionTable = table[swarm.SessionStatus]{
		key: func(s *swarm.SessionStatus) string {
			return fmt.Sprintf("%020d %s %s", s.Opened.UnixNano(), s.ID, s.Role)
		},
		columns: []column[swarm.SessionStatus]{
			{"ID", func(s *swarm.SessionStatus) string { return s.ID }},
			{"ROLE", func(s *swarm.SessionStatus) string { return s.Role }},
			{"MODEL", func(s *swarm.SessionStatus) string { return s.Model }},
			{"BLOCKS", sessionBlocks},
			{"POSITION", func(s *swarm.SessionStatus) string { return strconv.Itoa(s.Position) }},
			{"OF", func(s *swarm.SessionStatus) string { return strconv.Itoa(s.MaxLength) }},
			{"STEPS", func(s *swarm.SessionStatus) string { return strconv.FormatUint(s.Steps, 10) }},
			{"WAITING", func(s *swarm.SessionStatus) string { return strconv.Itoa(s.Queued) }},
			{"MS", func(s *swarm.SessionStatus) string {
				var each []string
				for _, t := range s.Stages {
					each = append(each, fmt.Sprintf("%.1f", t.Step))
				}
				return strings.Join(each, " + ")
			}},
			{"OPENED", func(s *swarm.SessionStatus) string { return s.Opened.UTC().Format(time.RFC3339) }},
		},
	}
	peerTable = table[swarm.PeerStatus]{
		key: func(p *swarm.PeerStatus) string { return string(p.Peer) + " " + strings.Join(p.Addrs, " ") },
		columns: []column[swarm.PeerStatus]{
			{"PEER", func(p *swarm.PeerStatus) string { return string(p.Peer) }},
			{"DIRECTION", func(p *swarm.PeerStatus) string { return p.Direction }},
			{"MS", func(p *swarm.PeerStatus) string {
				if p.RTTMillis == nil {
					return ""
				}
				return fmt.Sprintf("%.1f", *p.RTTMillis)
			}},
			{"AGENT", func(p *swarm.PeerStatus) string { return p.Agent }},
			{"ADDRESS", func(p *swarm.PeerStatus) string {
				if len(p.Addrs) == 0 {
					return ""
				}
				return p.Addrs[0]
			}},
		},
	}
	standingTable = table[trust.Standing]{
		key: func(s *trust.Standing) string {
			avoided := 1
			if s.Avoid != nil {
				avoided = 0
			}
			return fmt.Sprintf("%d %020d %s", avoided, math.MaxInt64-s.Seen.UnixNano(), s.Peer)
		},
		columns: []column[trust.Standing]{
			{"PEER", func(s *trust.Standing) string { return string(s.Peer) }},
			{"AVOIDED", func(s *trust.Standing) string {
				if s.Avoid == nil {
					return ""
				}
				return fmt.Sprint(s.Avoid.Kind)
			}},
			{"UNTIL", func(s *trust.Standing) string {
				if s.Avoid == nil {
					return ""
				}
				return s.Avoid.Until.UTC().Format(time.RFC3339)
			}},
			{"REASON", func(s *trust.Standing) string {
				if s.Avoid == nil {
					return ""
				}
				return s.Avoid.Reason
			}},
		},
	}
	modelTable = table[gen.ModelStatus]{
		key: func(m *gen.ModelStatus) string { return m.Name + "\x00" + m.Id },
		columns: []column[gen.ModelStatus]{
			{"NAME", func(m *gen.ModelStatus) string { return m.Name }},
			{"STATE", func(m *gen.ModelStatus) string { return string(m.State) }},
			{"BLOCKS", func(m *gen.ModelStatus) string { return strconv.Itoa(m.NumBlocks) }},
			{"SERVERS", func(m *gen.ModelStatus) string { return strconv.Itoa(m.ServersOnline) }},
			{"MISSING", func(m *gen.ModelStatus) string { return spansText(m.Missing) }},
			{"TOK/S", func(m *gen.ModelStatus) string { return fmt.Sprintf("%.1f", m.Throughput) }},
		},
	}
	serverTable = table[gen.ServerStatus]{
		key: func(s *gen.ServerStatus) string { return s.ModelName + "\x00" + s.Model + "\x00" + s.PeerId },
		columns: []column[gen.ServerStatus]{
			{"PEER", func(s *gen.ServerStatus) string { return s.PeerId }},
			{"MODEL", func(s *gen.ServerStatus) string { return s.ModelName }},
			{"STATE", func(s *gen.ServerStatus) string { return string(s.State) }},
			{"BLOCKS", func(s *gen.ServerStatus) string { return spansText([]gen.Span{s.Span}) }},
			{"TOK/S", func(s *gen.ServerStatus) string { return fmt.Sprintf("%.1f", s.Throughput) }},
			{"CACHE LEFT", func(s *gen.ServerStatus) string { return strconv.FormatInt(s.CacheTokensLeft, 10) }},
			{"NAME", func(s *gen.ServerStatus) string {
				if s.PublicName == nil {
					return ""
				}
				return *s.PublicName
			}},
		},
	}
	historyTable = table[gen.HistoryPoint]{
		key: func(p *gen.HistoryPoint) string { return fmt.Sprintf("%020d", p.At.UnixNano()) },
		columns: []column[gen.HistoryPoint]{
			{"AT", func(p *gen.HistoryPoint) string { return p.At.Format(time.RFC3339) }},
			{"SERVERS", func(p *gen.HistoryPoint) string { return strconv.Itoa(p.ServersOnline) }},
			{"HOLDERS", func(p *gen.HistoryPoint) string { return strconv.Itoa(p.MinRedundancy) }},
			{"MISSING", func(p *gen.HistoryPoint) string { return spansText(p.Missing) }},
			{"TOK/S", func(p *gen.HistoryPoint) string { return fmt.Sprintf("%.1f", p.Throughput) }},
		},
	}
	eventColumns = []column[gen.SwarmEvent]{
		{"AT", func(e *gen.SwarmEvent) string { return e.At.Format(time.RFC3339) }},
		{"EVENT", func(e *gen.SwarmEvent) string { return string(e.Kind) }},
		{"MODEL", func(e *gen.SwarmEvent) string { return e.ModelName }},
		{"PEER", func(e *gen.SwarmEvent) string { return api.Value(e.PeerId, "") }},
		{"BLOCKS", func(e *gen.SwarmEvent) string {
			if e.Span == nil {
				return ""
			}
			return spansText([]gen.Span{*e.Span})
		}},
		{"DETAIL", func(e *gen.SwarmEvent) string { return api.Value(e.Detail, "") }},
	}
	adapterTable = table[swarm.AdapterStatus]{
		key: func(a *swarm.AdapterStatus) string { return a.Name },
		columns: []column[swarm.AdapterStatus]{
			{"NAME", func(a *swarm.AdapterStatus) string { return a.Name }},
			{"DIGEST", func(a *swarm.AdapterStatus) string { return fmt.Sprintf("%.12s", a.Digest) }},
			{"SESSIONS", func(a *swarm.AdapterStatus) string { return strconv.Itoa(a.Sessions) }},
			{"STATE", func(a *swarm.AdapterStatus) string {
				if a.Leaving {
					return "leaving"
				}
				return "held"
			}},
		},
	}
	operationTable = table[gen.Operation]{
		key: func(o *gen.Operation) string {
			return fmt.Sprintf("%020d %s", math.MaxInt64-o.Began.UnixNano(), o.Id)
		},
		columns: []column[gen.Operation]{
			{"ID", func(o *gen.Operation) string { return o.Id }},
			{"KIND", func(o *gen.Operation) string { return o.Kind }},
			{"STATE", func(o *gen.Operation) string { return string(o.State) }},
			{"BEGAN", func(o *gen.Operation) string { return o.Began.Format(time.RFC3339) }},
			{"TOOK", func(o *gen.Operation) string {
				return api.Value(o.Ended, time.Now()).Sub(o.Began).Round(100 * time.Millisecond).String()
			}},
			{"OF", func(o *gen.Operation) string {
				var of []string
				for _, name := range slices.Sorted(maps.Keys(o.Metadata)) {
					of = append(of, name+"="+o.Metadata[name])
				}
				return strings.Join(of, ", ")
			}},
			{"PROGRESS", func(o *gen.Operation) string {
				if o.Progress == nil {
					return ""
				}
				return strings.TrimSpace(fmt.Sprintf("%.3g of %.3g %s", o.Progress.Done, o.Progress.Total, api.Value(o.Progress.Unit, "")))
			}},
			{"ERROR", func(o *gen.Operation) string {
				if o.Error == nil {
					return ""
				}
				return o.Error.Detail
			}},
		},
	}
	settingTable = table[gen.Setting]{
		key: func(s *gen.Setting) string { return s.Name },
		columns: []column[gen.Setting]{
			{"NAME", func(s *gen.Setting) string { return s.Name }},
			{"VALUE", func(s *gen.Setting) string { return s.Value }},
			{"SOURCE", func(s *gen.Setting) string { return string(s.Source) }},
			{"NEEDS RESTART", func(s *gen.Setting) string {
				if s.RequiresRestart {
					return "yes"
				}
				return "no"
			}},
		},
	}
)

func spansText(spans []gen.Span) string {
	out := ""
	for i, s := range spans {
		if i > 0 {
			out += ","
		}
		out += strconv.Itoa(s.Start) + ":" + strconv.Itoa(s.End)
	}
	return out
}

// sessionBlocks is the span of a stage, or those of the whole route.
func sessionBlocks(s *swarm.SessionStatus) string {
	if s.Span != nil {
		return s.Span.String()
	}
	out := ""
	for i, h := range s.Route {
		if i > 0 {
			out += ","
		}
		out += h.Span.String()
	}
	return out
}
