package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"whorl/client"
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
			return runGateway(cmd, &nf, &hf, &mf, &cf)
		},
	}
	nf.add(cmd.Flags())
	hf.add(cmd.Flags(), defaultHTTP, defaultAdmin)
	hf.addChecks(cmd.Flags())
	mf.add(cmd.Flags())
	cf.add(cmd.Flags())
	return cmd
}

func runGateway(cmd *cobra.Command, nf *nodeFlags, hf *httpFlags, mf *modelFlags, cf *computeFlags) error {
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
	if mf.path != "" {
		var err error
		mf.hub.cache = nf.cacheDir
		if m, err = mf.open(cmd.Context(), cf); err != nil {
			return err
		}
		defer m.Close()
		nf.source = m.fetched.name()
	}
	ctx, n, err := startNode(cmd.Context(), []string{"gateway"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if m != nil {
		n.check("engine", errStarting)
	}
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if m != nil {
		how := settling{invited: mf.invited, choosable: mf.choosable(cmd), found: true, block: -1, all: true, cache: nf.contentsCache(ctx)}
		if err := m.settle(ctx, n.net.dir, how); err != nil {
			return ended(ctx, err)
		}
		if err := n.generateWith(ctx, m, hf.audit); err != nil {
			return ended(ctx, err)
		}
	}
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}

// choosable tells whether the class may be taken from the swarm: no flag asks for one.
func (f *modelFlags) choosable(cmd *cobra.Command) bool {
	from := sourcesOf(cmd)
	return !from.given("dtype") && !from.given("quant") && !from.given("kv-dtype")
}

// generateWith makes the node generate with a model through the swarm, and audit that share of
// the sessions.
func (n *node) generateWith(ctx context.Context, m *openModel, audit float64) error {
	tok, err := m.tokenizer()
	if err != nil {
		slog.Warn("requests can give token ids only, because the tokenizer cannot be used", "reason", err)
	}
	cfg := client.DefaultConfig()
	cfg.Directory, cfg.Dialer, cfg.RTT, cfg.EOS = n.net.dir, n.dial, n.rtt, m.ck.EOS()
	cfg.Trust, cfg.Prefix, cfg.Self, cfg.Audits.Steady = n.trust, n.prefix, n.dial.self, audit
	e, err := m.engine(ctx, tok, cfg)
	if err != nil {
		return err
	}
	if err := n.net.dir.Keep(m.man); err != nil {
		return err
	}
	n.addEngine(e)
	if audit > 0 {
		n.background.Go(func() { e.Audit(ctx) }) // ends with ctx, which is all that it says
	}
	n.check("engine", nil)
	return ctx.Err()
}
