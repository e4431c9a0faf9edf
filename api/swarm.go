package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"whorl/api/gen"
	"whorl/store"
	"whorl/swarm"
)

// views are all models in the order of names, then ids.
func (a *API) views() []swarm.View {
	all := slices.Clone(a.cfg.Directory.Views())
	slices.SortStableFunc(all, func(x, y swarm.View) int {
		return cmp.Or(strings.Compare(x.Manifest.Name, y.Manifest.Name), strings.Compare(string(x.Manifest.UID()), string(y.Manifest.UID())))
	})
	return all
}

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

// modelState judges a view as the dashboard does: one holder per block is enough, and
// holders that disagree on a block are named.
func modelState(v swarm.View) gen.ModelState {
	if v.At.IsZero() {
		return gen.ModelStateUnknown
	}
	c := store.Measure(v)
	return gen.ModelState(c.Condition(1))
}

func verdict(v swarm.View, state gen.ModelState) string {
	switch state {
	case gen.ModelStateUnknown:
		return "nothing was heard of it yet"
	case gen.ModelStateBroken:
		return "cannot be used: no server holds blocks " + swarm.FormatSpans(v.Missing())
	case gen.ModelStateDegraded:
		return "can be used, but servers disagree on the weights of some blocks"
	}
	single := v.Coverage(swarm.Online)
	if least := slices.Min(single); least > 1 {
		return fmt.Sprintf("can be used: every block has %d servers or more", least)
	}
	for i := range single {
		single[i]-- // now 0 where one server is left
	}
	return "can be used, but without a spare server of blocks " + swarm.FormatSpans(swarm.MissingSpans(single))
}

// weakest sums a number of the online servers per block and returns the least sum.
func weakest[T int64 | float64](v swarm.View, of func(*swarm.Record) T) T {
	sums := make([]T, v.Manifest.Blocks)
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State == swarm.Online {
			for b := max(0, r.Span.Start); b < min(r.Span.End, len(sums)); b++ {
				sums[b] += of(r)
			}
		}
	}
	if len(sums) == 0 {
		return 0
	}
	return slices.Min(sums)
}

func modelStatus(v swarm.View) gen.ModelStatus {
	m, state := v.Manifest, modelState(v)
	out := gen.ModelStatus{
		Id: string(m.UID()), Name: m.Name, Revision: m.Revision, NumBlocks: m.Blocks, HiddenSize: m.Hidden,
		Class: modelClass(m.Class), State: state, Verdict: verdict(v, state), Missing: missing(v),
		Throughput:      weakest(v, func(r *swarm.Record) float64 { return r.Throughput }),
		CacheTokensLeft: weakest(v, func(r *swarm.Record) int64 { return r.CacheLeft }),
		UpdatedAt:       v.At.UTC(),
	}
	if cover := v.Coverage(swarm.Online); len(cover) > 0 {
		out.MinRedundancy = slices.Min(cover)
	}
	for i := range v.Servers {
		if v.Servers[i].State == swarm.Online {
			out.ServersOnline++
		}
	}
	return out
}

func modelClass(c swarm.Class) gen.ModelClass {
	return gen.ModelClass{ConfigHash: c.ConfigHash, Dtype: c.DType, Quant: c.Quant, KvDtype: c.KVDType, Arithmetic: c.Arithmetic}
}

func missing(v swarm.View) []gen.Span {
	if s := spans(v.Missing()); s != nil {
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
	online, joining := v.Coverage(swarm.Online), v.Coverage(swarm.Joining)
	out := gen.Coverage{
		Id: string(v.Manifest.UID()), Name: v.Manifest.Name, NumBlocks: v.Manifest.Blocks, State: modelState(v),
		Missing: missing(v), Blocks: []gen.BlockCoverage{}, UpdatedAt: v.At.UTC(),
	}
	for b := range online { // Joining counts servers that are online too
		out.Blocks = append(out.Blocks, gen.BlockCoverage{Index: b, Online: online[b], Joining: joining[b] - online[b]})
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
