package petals

import (
	"net/http"
	"strings"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

// What the health monitor of Petals says of its period, in seconds; ours is always fresh.
const statePeriod = 60

// shownSpan is how many blocks a server must hold for its name to be shown, as there.
const shownSpan = 10

// GetState tells of the swarm in the form of health.petals.dev.
func (a Dialect) GetState(w http.ResponseWriter, r *http.Request) {
	out := gen.LegacyState{
		BootstrapStates: []string{}, TopContributors: map[string]int{}, ModelReports: []gen.LegacyModel{},
		ReachabilityIssues: []map[string]interface{}{}, UpdatePeriod: statePeriod,
	}
	for _, v := range a.Directory.Views() {
		out.LastUpdated = max(out.LastUpdated, float64(v.At.UnixMilli())/1000)
		m := gen.LegacyModel{
			Name: v.Manifest.Name, ShortName: shortName(v.Manifest.Name), State: gen.LegacyModelStateHealthy, NumBlocks: v.Manifest.Blocks,
			DhtPrefix: string(v.Manifest.UID()), ServerRows: []gen.LegacyRow{},
		}
		if len(v.Missing()) > 0 {
			m.State = gen.LegacyModelStateBroken
		}
		for i := range v.Servers {
			row := legacyRow(&v.Servers[i], v)
			m.ServerRows = append(m.ServerRows, row)
			if row.ShowPublicName {
				out.TopContributors[*row.Span.ServerInfo.PublicName] += v.Servers[i].Span.Len()
			}
		}
		out.ModelReports = append(out.ModelReports, m)
	}
	api.Reply(w, out)
}

// torchNames are the names of types that consumers of the old route know.
var torchNames = map[string]string{"f32": "float32", "bf16": "bfloat16", "f16": "float16"}

func torchName(dtype string) string {
	if n, ok := torchNames[dtype]; ok {
		return n
	}
	return dtype
}

func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func legacyRow(r *swarm.Record, v swarm.View) gen.LegacyRow {
	pings := map[string]float64{} // seconds
	next := map[string]float64{}
	for i := range v.Servers {
		if ms, ok := v.Servers[i].NextRTT[r.Peer]; ok {
			pings[string(v.Servers[i].Peer)] = ms / 1000
		}
	}
	for p, ms := range r.NextRTT {
		next[string(p)] = ms / 1000
	}
	state := r.State.String()
	if r.State == swarm.Draining { // a state it did not know: it leaves
		state = swarm.Offline.String()
	}
	short := string(r.Peer)
	if len(short) > 6 {
		short = "..." + short[len(short)-6:]
	}
	row := gen.LegacyRow{
		ShortPeerId: short, PeerId: string(r.Peer), PeerIpInfo: "unknown", State: state,
		Adapters: []map[string]interface{}{}, PingsToMe: pings, CacheTokensLeftPerBlock: &r.CacheLeft,
		ShowPublicName: r.State == swarm.Online && r.PublicName != "" && r.Span.Len() >= shownSpan,
	}
	row.Span = gen.LegacySpan{PeerId: string(r.Peer), Start: r.Span.Start, End: r.Span.End, ServerInfo: gen.LegacyServerInfo{
		State: state, Throughput: r.Throughput, StartBlock: r.Span.Start, EndBlock: r.Span.End, Version: r.Version,
		NetworkRps: r.Rates.NetworkRPS, ForwardRps: r.Rates.ForwardRPS, InferenceRps: r.Rates.InferenceRPS,
		Adapters: []string{}, TorchDtype: torchName(r.Manifest.Class.DType), QuantType: r.Manifest.Class.Quant, UsingRelay: r.Relay,
		CacheTokensLeft: r.CacheLeft, NextPings: next,
	}}
	for _, a := range r.Adapters {
		row.Adapters = append(row.Adapters, map[string]any{"name": a.Name, "short_name": shortName(a.Name)})
		row.Span.ServerInfo.Adapters = append(row.Span.ServerInfo.Adapters, a.Name)
	}
	if row.ShowPublicName { // a name that is not shown is not told either
		row.Span.ServerInfo.PublicName = &r.PublicName
	}
	return row
}
