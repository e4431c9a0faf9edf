package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/route"
	"whorl/tensor"
)

// Default addresses of the HTTP listeners.
const (
	defaultHTTP  = "127.0.0.1:8300"
	defaultAdmin = "127.0.0.1:8301"
	// bootstrapAdmin leaves the other to a server or gateway of the same machine.
	bootstrapAdmin = "127.0.0.1:8302"
	anyPort        = "127.0.0.1:0"
)

func newGateway(w *world) *cobra.Command {
	var (
		nf nodeFlags
		sf shareFlags
		hf httpFlags
		mf modelFlags
		cf computeFlags
	)
	cmd := &cobra.Command{
		Use:   "gateway [MODEL]",
		Short: "Serve API, WebSocket and dashboard without holding blocks",
		Long: `Serve the HTTP API, the WebSocket and the dashboard. With MODEL, users can generate with
it through the swarm's servers: the gateway computes embeddings and the LM head.
Without, it shows the swarm.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if nf.printConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			args, err := nf.accept(sourcesOf(cmd), &mf, args)
			if err != nil {
				return err
			}
			if err := mf.take(args, true); err != nil {
				return err
			}
			return runGateway(cmd, &nf, sf, &hf, &mf, &cf)
		},
	}
	nf.add(cmd.Flags())
	sf.add(cmd.Flags())
	hf.add(cmd.Flags(), defaultHTTP, defaultAdmin)
	hf.addSessions(cmd.Flags())
	mf.add(cmd.Flags())
	cf.add(cmd.Flags())
	return cmd
}

func runGateway(cmd *cobra.Command, nf *nodeFlags, sf shareFlags, hf *httpFlags, mf *modelFlags, cf *computeFlags) error {
	if err := nf.check(cmd); err != nil {
		return err
	}
	if err := hf.check(cmd); err != nil {
		return err
	}
	if hf.http == off {
		return usagef("--http off leaves a gateway nothing to do: give an address")
	}
	var m *openModel
	defer func() { // after the node's end, and it may be opened late
		if m != nil {
			m.Close()
		}
	}()
	mf.hub.cache, mf.trees, nf.source = nf.cacheDir, nf.treeCache(cmd.Context()), mf.place
	if mf.path != "" {
		var err error
		if m, err = mf.open(cmd.Context(), cf); err != nil {
			return err
		}
		nf.source = m.fetched.name()
	}
	ctx, n, err := startNode(cmd.Context(), []string{"gateway"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if m != nil || mf.peers {
		n.check("engine", errStarting)
	}
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if m != nil || mf.peers {
		if err := errors.Join(n.startSharing(sf, mf), n.startEvidence(ctx)); err != nil {
			return err
		}
	}
	if mf.peers {
		n.share.about(swarm.UID(mf.invited))
		if m, err = mf.openPeers(ctx, cf, n.net, n.share.client, mf.choosable(cmd)); err != nil {
			return ended(ctx, err)
		}
	}
	if m != nil {
		n.loads(m.fetched)
		// Files that are all here say what the model is. Of others nobody fetches all for that: the
		// node waits for somebody who serves the model.
		how := settling{invited: mf.invited, choosable: mf.choosable(cmd), found: m.ck.Whole(), block: -1, all: true, cache: nf.contentsCache(ctx)}
		if err := n.settled(ctx, m, how); err != nil {
			return ended(ctx, err)
		}
		n.gives(ctx, m)
		if err := n.generateWith(ctx, m, hf); err != nil {
			m.fetched.wrong(err)
			return ended(ctx, err)
		}
	}
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}

// settled is settle that waits until the swarm serves the model, if the files here do not say
// what it is.
func (n *node) settled(ctx context.Context, m *openModel, how settling) error {
	line := time.NewTicker(manifestLine)
	defer line.Stop()
	var waiting sync.Once
	for {
		changed := n.net.dir.Changed()
		if err := m.settle(ctx, n.net.dir, how); err != nil || m.man.Pinned() {
			return err
		}
		n.check("engine", fmt.Errorf("no server of %s is known yet", m.name))
		waiting.Do(func() { slog.Info("waiting for a server of the model", "model", m.name) })
		select {
		case <-changed:
		case <-line.C:
			slog.Info("waiting for a server of the model", "model", m.name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// choosable tells whether the class may be taken from the swarm: no flag asks for one.
func (f *modelFlags) choosable(cmd *cobra.Command) bool {
	from := sourcesOf(cmd)
	return !from.given("dtype") && !from.given("quant") && !from.given("kv-dtype")
}

// generateWith makes the node generate with a model through the swarm, and audit the share of
// the sessions that its flags say.
func (n *node) generateWith(ctx context.Context, m *openModel, f *httpFlags) error {
	tok, err := m.tokenizer()
	if err != nil {
		slog.Warn("requests can give token ids only, because the tokenizer cannot be used", "reason", err)
	}
	cfg := client.DefaultConfig()
	cfg.Directory, cfg.Dialer, cfg.RTT, cfg.EOS = n.net.dir, n.dial, n.rtt, m.ck.EOS()
	cfg.Trust, cfg.Prefix, cfg.Self, cfg.Audits.Steady = n.trust, n.prefix, n.dial.self, f.audit
	cfg.Auditor, cfg.Accuse = n.net.host.ID(), n.evidence.Accuse
	cfg.Residual, _ = tensor.ParseResidual(f.residual) // check has read it
	cfg.Spread = true
	if !f.keepChains {
		patience := route.DefaultPatience()
		cfg.Improve = &patience
	}
	e, err := m.engine(ctx, tok, cfg)
	if err != nil {
		return err
	}
	if err := n.net.dir.Keep(m.man); err != nil {
		return err
	}
	if err := n.addTunings(e, m, f.tunings); err != nil {
		return err
	}
	n.addEngine(e)
	if f.audit > 0 {
		n.background.Go(func() { e.Audit(ctx) }) // ends with ctx, which is all that it says
	}
	n.check("engine", nil)
	return ctx.Err()
}
