package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"whorl/store"
	"whorl/swarm/dir"
	"whorl/web"
)

// pages starts the dashboard and its history, which end with ctx; nil without a public
// listener.
func (n *node) pages(ctx context.Context, nf *nodeFlags, hf *httpFlags) (http.Handler, error) {
	if hf.http == off {
		return nil, nil
	}
	history, closeHistory, err := openHistory(hf.databaseURL)
	if err != nil {
		return nil, err
	}
	cfg := web.DefaultConfig()
	cfg.JoinPeers = nf.initialPeers
	site, err := web.New(cfg, web.Deps{
		Directory: n.net.dir, Store: history, Node: n, Invite: n.openInvitation, Models: n.models, Changes: changes(ctx, n.net.dir), Synced: n.net.dir.Synced, Avoided: n.avoided, Log: slog.Default(),
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
	p, err := store.OpenPostgres(url, store.DefaultLimits())
	if err != nil {
		return nil, nil, usagef("--database-url: %w: want postgres://USER:PASSWORD@HOST:PORT/NAME", err)
	}
	return p, p.Close, nil
}

// models are the names this node generates with.
func (n *node) models() []string {
	var names []string
	_, engines := n.parts()
	for _, e := range engines {
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
