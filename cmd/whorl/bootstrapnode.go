package main

import (
	"context"
	"log/slog"
	"time"
)

// bootstrapNode has the options of a node that only helps others to find each other.
type bootstrapNode struct {
	node  nodeFlags
	http  httpFlags
	every time.Duration // between status lines
}

// statusEvery is the default time between status lines.
const statusEvery = 30 * time.Second

// run is the life of the node, from its options to its end with ctx.
func (f *bootstrapNode) run(ctx context.Context, given given) error {
	nf, hf := &f.node, &f.http
	if f.every <= 0 {
		return usagef("--refresh-period %v: want more than 0", f.every)
	}
	if err := nf.check(given); err != nil {
		return err
	}
	if err := hf.check(given); err != nil {
		return err
	}
	ctx, n, err := startNode(ctx, []string{"bootstrap"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if err := n.usable(); err != nil {
		return err
	}
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ended(ctx, nil)
		case <-tick.C:
			slog.Info("status", "peers", n.net.host.Connected(), "models", len(n.net.dir.Views()))
		}
	}
}
