package wiring

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/store"
	"whorl/swarm"
	"whorl/swarm/dir"
	"whorl/web"
)

// pages starts the dashboard and its history, which end with ctx; nil without a public
// listener.
func (n *Node) pages(ctx context.Context, nf *NodeOptions, hf *HTTPOptions) (http.Handler, error) {
	if hf.HTTP == Off {
		return nil, nil
	}
	history, closeHistory, err := openHistory(hf.DatabaseURL)
	if err != nil {
		return nil, err
	}
	n.past = past{history}
	cfg := web.DefaultConfig()
	cfg.JoinPeers = nf.InitialPeers
	site, err := web.New(cfg, web.Deps{
		Directory: n.net.Directory, Store: history, Node: n, Invite: n.openInvitation, Models: n.models, Changes: changes(ctx, n.net.Directory), Synced: n.net.Directory.Synced, Avoided: n.avoided, Contract: gen.Document, Log: slog.Default(),
	})
	if err != nil {
		closeHistory()
		return nil, err
	}
	n.background.Go(func() {
		defer closeHistory()
		if err := site.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			slog.Error("the dashboard stands still", "reason", err)
		}
	})
	return site.Handler(), nil
}

// openHistory opens the database, or memory if none is given.
func openHistory(url string) (store.Store, func(), error) {
	if url == "" {
		return store.NewMemory(store.MemoryLimits()), func() {}, nil
	}
	p, err := openDatabase(url)
	if err != nil {
		return nil, nil, err
	}
	return p, p.Close, nil
}

// models are the names this node generates with.
func (n *Node) models() []string {
	var names []string
	for _, e := range n.served() {
		names = append(names, e.Model().Name)
	}
	return names
}

// changes tells of every change of a directory until ctx ends.
func changes(ctx context.Context, d *dir.Directory) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		for {
			changed := d.Changed()
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}

// past is a store as the API reads it.
type past struct{ store.Reader }

// Coverage is the past of a model's blocks.
func (p past) Coverage(ctx context.Context, model swarm.UID, from, to time.Time, step time.Duration) ([]api.Past, error) {
	rows, err := p.Reader.Coverage(ctx, model, store.Window{From: from, To: to, Step: step})
	out := make([]api.Past, len(rows))
	for i, r := range rows {
		out[i] = api.Past{At: r.At, Coverage: r.Coverage}
	}
	return out, err
}

// Events are newest first.
func (p past) Events(ctx context.Context, model swarm.UID, peer swarm.PeerID, before int64, limit int) ([]api.Happening, error) {
	rows, err := p.Reader.Events(ctx, store.EventQuery{Model: model, Peer: peer, Before: before, Limit: limit})
	out := make([]api.Happening, len(rows))
	for i, e := range rows {
		out[i] = api.Happening{ID: e.ID, At: e.At, Kind: string(e.Kind), Model: e.Model, ModelName: e.ModelName, Peer: e.Peer, Name: e.PublicName, Detail: e.Detail}
		if e.Peer != "" {
			out[i].Span = &e.Span
		}
	}
	return out, err
}
