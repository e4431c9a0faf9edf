package api

import (
	"net/http"
	"time"

	"whorl/api/gen"
	"whorl/swarm"
	"whorl/swarm/health"
)

// views are all models in the order of names, then ids: the directory's.
func (a *API) views() []swarm.View { return a.cfg.Directory.Views() }

// view finds a model by its id, or by its name if only one model has it.
func (a *API) view(id string) (swarm.View, error) {
	var named []swarm.View
	for _, v := range a.views() {
		if string(v.Manifest.UID()) == id {
			return v, nil
		}
		if v.Manifest.Name == id {
			named = append(named, v)
		}
	}
	switch len(named) {
	case 0:
		return swarm.View{}, swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "the swarm has no model %q", clip(id))
	case 1:
		return named[0], nil
	}
	return swarm.View{}, invalid("id", "%d models of the swarm are named %q: ask by id", len(named), clip(id))
}

// judge measures a view as the dashboard does: one holder per block is enough.
func judge(v swarm.View) (health.Coverage, gen.ModelState) {
	if v.At.IsZero() {
		return health.Coverage{}, gen.ModelStateUnknown
	}
	c := health.Measure(v)
	return c, gen.ModelState(c.Condition(1))
}

func modelStatus(v swarm.View) gen.ModelStatus {
	m := v.Manifest
	c, state := judge(v)
	out := gen.ModelStatus{
		Id: string(m.UID()), Name: m.Name, Revision: m.Revision, NumBlocks: m.Blocks, HiddenSize: m.Hidden,
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
	if s := spans(c.Missing); s != nil {
		return s
	}
	return []gen.Span{}
}

// ListModels lists the models of the swarm.
func (a *API) ListModels(w http.ResponseWriter, r *http.Request) {
	var all []gen.ModelStatus
	for _, v := range a.views() {
		all = append(all, modelStatus(v))
	}
	reply(w, items(all))
}

// GetModel tells of one model.
func (a *API) GetModel(w http.ResponseWriter, r *http.Request, id gen.ModelID) {
	v, err := a.view(id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply(w, modelStatus(v))
}

// GetCoverage tells who covers which blocks.
func (a *API) GetCoverage(w http.ResponseWriter, r *http.Request, id gen.ModelID) {
	v, err := a.view(id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	c, state := judge(v)
	joining := v.Counts(swarm.Joining)
	out := gen.Coverage{
		Id: string(v.Manifest.UID()), Name: v.Manifest.Name, NumBlocks: v.Manifest.Blocks, State: state,
		Missing: missing(&c), Blocks: []gen.BlockCoverage{}, UpdatedAt: v.At.UTC(),
	}
	for b, online := range c.Counts { // joining counts servers that are online too
		out.Blocks = append(out.Blocks, gen.BlockCoverage{Index: b, Online: online, Joining: joining[b] - online})
	}
	reply(w, out)
}

// ListServers lists servers, of one model if asked for.
func (a *API) ListServers(w http.ResponseWriter, r *http.Request, params gen.ListServersParams) {
	views := a.views()
	if params.Model != nil {
		v, err := a.view(*params.Model)
		if err != nil {
			a.fail(w, r, err)
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
	reply(w, items(all))
}

func serverStatus(r *swarm.Record) gen.ServerStatus {
	out := gen.ServerStatus{
		PeerId: string(r.Peer), Model: string(r.UID()), ModelName: r.Manifest.Name, State: gen.ServerState(r.State.String()),
		Span: gen.Span{Start: r.Span.Start, End: r.Span.End}, Throughput: r.Throughput, Rates: gen.Rates{ForwardRps: r.Rates.ForwardRPS, InferenceRps: r.Rates.InferenceRPS, NetworkRps: r.Rates.NetworkRPS},
		CacheTokensTotal: r.CacheTotal, CacheTokensLeft: r.CacheLeft, MaxLength: r.MaxLength, Version: r.Version, Relay: r.Relay,
		ExpiresAt: time.UnixMilli(r.Expires).UTC(),
	}
	if r.State == swarm.Online && r.PublicName != "" {
		out.PublicName = &r.PublicName
	}
	return out
}
