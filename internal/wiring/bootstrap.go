package wiring

import (
	"context"
	"log/slog"
	"time"
)

// Bootstrap has the options of a node that only helps others to find each other.
type Bootstrap struct {
	Node  NodeOptions
	HTTP  HTTPOptions
	Every time.Duration // between status lines
}

// StatusEvery is the default time between status lines.
const StatusEvery = 30 * time.Second

// Run is the life of the node, from its options to its end with ctx.
func (f *Bootstrap) Run(ctx context.Context, given given) error {
	nf, hf := &f.Node, &f.HTTP
	if f.Every <= 0 {
		return Usagef("--refresh-period %v: want more than 0", f.Every)
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
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ended(ctx, nil)
		case <-tick.C:
			slog.Info("status", "peers", n.net.host.Connected(), "models", len(n.net.Directory.Views()))
		}
	}
}
