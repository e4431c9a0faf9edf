package control

import (
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
	"whorl/swarm/health"
)

// view finds a model by its id, or by its name if only one model has it.
func (a Dialect) view(id string) (swarm.View, error) {
	var named []swarm.View
	for _, v := range a.Directory.Views() {
		if string(v.Manifest.UID()) == id {
			return v, nil
		}
		if v.Manifest.Name == id {
			named = append(named, v)
		}
	}
	switch len(named) {
	case 0:
		return swarm.View{}, swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "the swarm has no model %q", api.Clip(id))
	case 1:
		return named[0], nil
	}
	return swarm.View{}, api.Invalid("id", "%d models of the swarm are named %q: ask by id", len(named), api.Clip(id))
}

func modelStatus(v swarm.View) gen.ModelStatus {
	m := v.Manifest
	c, state := api.Judge(v)
	out := gen.ModelStatus{
		Id: string(m.UID()), Name: m.Name, Namespace: text(m.Namespace), Revision: m.Revision, NumBlocks: m.Blocks, HiddenSize: m.Hidden,
		Class: modelClass(m.Class), State: state, Verdict: c.Text(1) + ".", Missing: missing(&c),
		CacheTokensLeft: c.CacheLeft, MinRedundancy: c.MinRedundancy, ServersOnline: c.Servers,
		UpdatedAt: v.At.UTC(),
	}
	if c.Bottleneck != nil {
		out.Throughput = *c.Bottleneck
	}
	return out
}

func modelClass(c swarm.Class) gen.ModelClass {
	return gen.ModelClass{ConfigHash: c.ConfigHash, Dtype: c.DType, Quant: c.Quant, KvDtype: c.KVDType, Arithmetic: c.Arithmetic}
}

func missing(c *health.Coverage) []gen.Span {
	if s := api.Spans(c.Missing); s != nil {
		return s
	}
	return []gen.Span{}
}

// GetSwarm counts models and servers by state.
func (a Dialect) GetSwarm(w http.ResponseWriter, r *http.Request) {
	out := gen.SwarmStatus{Models: map[string]int{}, Servers: map[string]int{}}
	for _, v := range a.Directory.Views() {
		m := modelStatus(v)
		out.Models[string(m.State)]++
		for _, span := range m.Missing {
			out.MissingBlocks += span.End - span.Start
		}
		for i := range v.Servers {
			out.Servers[v.Servers[i].State.String()]++
		}
		out.Throughput += m.Throughput // rates are bounded in records, so that no sum overflows
		out.CacheTokensLeft += m.CacheTokensLeft
		if m.UpdatedAt.After(out.UpdatedAt) {
			out.UpdatedAt = m.UpdatedAt
		}
	}
	if out.UpdatedAt.IsZero() {
		out.UpdatedAt = time.Now().UTC()
	}
	api.Reply(w, out)
}

// ListModels lists the models of the swarm.
func (a Dialect) ListModels(w http.ResponseWriter, r *http.Request, params gen.ListModelsParams) {
	var all []gen.ModelStatus
	for _, v := range a.Directory.Views() {
		all = append(all, modelStatus(v))
	}
	replyList(a, w, r, modelTable, all, params.Limit, params.Cursor)
}

// GetModel tells of one model.
func (a Dialect) GetModel(w http.ResponseWriter, r *http.Request, id gen.ModelID) {
	v, err := a.view(id)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	api.Reply(w, modelStatus(v))
}

// GetCoverage tells who covers which blocks.
func (a Dialect) GetCoverage(w http.ResponseWriter, r *http.Request, id gen.ModelID) {
	v, err := a.view(id)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	c, state := api.Judge(v)
	joining := v.Counts(swarm.Joining)
	out := gen.Coverage{
		Id: string(v.Manifest.UID()), Name: v.Manifest.Name, NumBlocks: v.Manifest.Blocks, State: state,
		Missing: missing(&c), Blocks: []gen.BlockCoverage{}, UpdatedAt: v.At.UTC(),
	}
	for b, online := range c.Counts { // joining counts servers that are online too
		out.Blocks = append(out.Blocks, gen.BlockCoverage{Index: b, Online: online, Joining: joining[b] - online})
	}
	api.Reply(w, out)
}

// ListServers lists servers, of one model if asked for.
func (a Dialect) ListServers(w http.ResponseWriter, r *http.Request, params gen.ListServersParams) {
	views := a.Directory.Views()
	if params.Model != nil {
		v, err := a.view(*params.Model)
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		views = []swarm.View{v}
	}
	var all []gen.ServerStatus
	for _, v := range views {
		for i := range v.Servers {
			all = append(all, serverStatus(&v.Servers[i]))
		}
	}
	replyList(a, w, r, serverTable, all, params.Limit, params.Cursor)
}

// GetServer tells what one server announces, for each model that it serves.
func (a Dialect) GetServer(w http.ResponseWriter, r *http.Request, id string) {
	if !isPeerID(id) {
		a.Fail(w, r, noPeerID(id))
		return
	}
	var all []gen.ServerStatus
	for _, v := range a.Directory.Views() {
		for i := range v.Servers {
			if string(v.Servers[i].Peer) == id {
				all = append(all, serverStatus(&v.Servers[i]))
			}
		}
	}
	if len(all) == 0 {
		a.Fail(w, r, api.Refused(api.CodeNotFound, "no server of this swarm announces itself as %s", id))
		return
	}
	replyList(a, w, r, serverTable, all, nil, nil)
}

func serverStatus(r *swarm.Record) gen.ServerStatus {
	out := gen.ServerStatus{
		PeerId: string(r.Peer), Model: string(r.UID), ModelName: r.Manifest.Name, State: gen.ServerState(r.State.String()),
		Span: gen.Span{Start: r.Span.Start, End: r.Span.End}, Throughput: r.Throughput, Rates: gen.Rates{ForwardRps: r.Rates.ForwardRPS, InferenceRps: r.Rates.InferenceRPS, NetworkRps: r.Rates.NetworkRPS},
		CacheTokensTotal: r.CacheTotal, CacheTokensLeft: r.CacheLeft, MaxLength: r.MaxLength, Version: r.Version, Relay: r.Relay,
		ExpiresAt: time.UnixMilli(r.Expires).UTC(),
	}
	if rps, measured := r.Network(); !measured && r.Manifest.Hidden > 0 {
		out.Rates.AssumedNetworkRps = &rps
	}
	if r.State == swarm.Online && r.PublicName != "" {
		out.PublicName = &r.PublicName
	}
	if l := r.Loading; l != nil {
		out.Loading = &gen.Loading{Phase: gen.LoadingPhase(l.Phase), BytesDone: l.Bytes, BytesTotal: l.Total, BytesPerSecond: l.Rate, SecondsLeft: l.SecondsLeft}
	}
	return out
}
