package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"whorl/client"
	"whorl/internal/backoff"
	"whorl/server"
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

		memory size
	)
	cmd := &cobra.Command{
		Use:   "gateway [MODEL...]",
		Short: "Serve API, WebSocket and dashboard without holding blocks",
		Long: `Serve the HTTP API, the WebSocket and the dashboard. With MODEL, users can generate with
it through the swarm's servers: the gateway computes embeddings and the LM head. Several may be named.
Without, it offers all models of the swarm: what it computes of one is fetched from other
nodes or the hub when somebody asks for it first, and leaves memory when others need the room.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if nf.printConfig {
				return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
			}
			args, err := nf.accept(sourcesOf(cmd), &mf, args)
			if err != nil {
				return err
			}
			if err := mf.take(args[:min(len(args), 1)], true); err != nil {
				return err
			}
			if len(hf.tunings) > 0 && mf.path == "" && !mf.peers {
				return usagef("--prompt-tuning belongs to one model, and none is named: whorl gateway MODEL --prompt-tuning DIR")
			}
			if len(args) < 2 {
				return runGateway(cmd, &nf, sf, &hf, &mf, &cf, memory)
			}
			if mf.name != "" {
				return usagef("--model-name names one model, and there are %d: leave it out", len(args))
			}
			if len(hf.tunings) > 0 {
				return usagef("--prompt-tuning belongs to one model, and there are %d: start a gateway for that one", len(args))
			}
			return runGateways(cmd, &nf, &hf, mf, args, &cf)
		},
	}
	nf.add(cmd.Flags())
	sf.add(cmd.Flags())
	hf.add(cmd.Flags(), defaultHTTP, defaultAdmin)
	hf.addSessions(cmd.Flags())
	mf.add(cmd.Flags())
	cf.add(cmd.Flags())
	cmd.Flags().Var(&memory, "memory", "without MODEL: `BYTES` for what this node computes of the swarm's models itself, such as 4GiB; 0: half of what is free")
	return cmd
}

func runGateway(cmd *cobra.Command, nf *nodeFlags, sf shareFlags, hf *httpFlags, mf *modelFlags, cf *computeFlags, memory size) error {
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
		if err := errors.Join(n.startSharing(sf, mf.patience()), n.startEvidence(ctx)); err != nil {
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
		if err := n.settled(ctx, m, how, func(err error) { n.check("engine", err) }); err != nil {
			return ended(ctx, err)
		}
		n.gives(ctx, m)
		if err := n.generateWith(ctx, m, hf); err != nil {
			m.fetched.wrong(err)
			return ended(ctx, err)
		}
	}
	if m == nil {
		sf.off = true // what it has of a model may leave at any time
		if err := errors.Join(n.startSharing(sf, askPatience), n.startEvidence(ctx)); err != nil {
			return err
		}
		room := int64(memory)
		if room == 0 {
			free, err := server.FreeRoom()
			if err != nil {
				return err
			}
			room = free.Bytes / 2
		}
		n.serveShelf(newShelf(n, *mf, cf, hf, room, func(f func(context.Context)) {
			n.background.Go(func() { f(ctx) })
		}))
	}
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}

// runGateways is runGateway for several models that are named. What happens to one of them once the
// node runs does not touch the others.
func runGateways(cmd *cobra.Command, nf *nodeFlags, hf *httpFlags, mf modelFlags, names []string, cf *computeFlags) error {
	if err := errors.Join(nf.check(cmd), hf.check(cmd)); err != nil {
		return err
	}
	if hf.http == off {
		return usagef("--http off leaves a gateway nothing to do: give an address")
	}
	mf.hub.cache, mf.trees = nf.cacheDir, nf.treeCache(cmd.Context())
	var models []*openModel
	defer func() { // after the node's end
		for _, m := range models {
			m.Close()
		}
	}()
	for _, name := range names {
		f := mf
		f.path = name
		m, err := f.open(cmd.Context(), cf)
		if err != nil {
			return err
		}
		models = append(models, m)
		if slices.ContainsFunc(models[:len(models)-1], func(o *openModel) bool { return o.name == m.name }) {
			return usagef("two of the models are named %s, and users ask by that name: name one of them", m.name)
		}
	}
	ctx, n, err := startNode(cmd.Context(), []string{"gateway"}, nf, hf)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if err := n.startEvidence(ctx); err != nil {
		return err
	}
	for _, m := range models {
		how := settling{choosable: mf.choosable(cmd), found: m.ck.Whole(), block: -1, all: true, cache: nf.contentsCache(ctx)}
		n.background.Go(func() { n.keepTrying(ctx, m, how, hf) })
	}
	if err := n.usable(); err != nil {
		return err
	}
	<-ctx.Done()
	return ended(ctx, nil)
}

// keepTrying makes the node generate with one of several models, however often that fails.
func (n *node) keepTrying(ctx context.Context, m *openModel, how settling, hf *httpFlags) {
	for failures := 1; ; failures++ {
		err := n.settled(ctx, m, how, func(error) {})
		if err == nil {
			err = n.generateWith(ctx, m, hf)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		m.fetched.wrong(err)
		slog.Warn("a model cannot be used, trying again", "model", m.name, "reason", err)
		n.events.Add(time.Now(), "model.failed", map[string]any{"model": m.name, "reason": err.Error()})
		wait := backoff.Policy{First: time.Second, Max: time.Minute, Jitter: 0.5}
		if !backoff.Wait(ctx, wait.After(failures, rand.Float64())) {
			return
		}
	}
}

// settled is settle that waits until the swarm serves the model, if the files here do not say
// what it is; tell hears why it waits.
func (n *node) settled(ctx context.Context, m *openModel, how settling, tell func(error)) error {
	line := time.NewTicker(manifestLine)
	defer line.Stop()
	var waiting sync.Once
	for {
		changed := n.net.dir.Changed()
		if err := m.settle(ctx, n.net.dir, how); err != nil || m.man.Pinned() {
			return err
		}
		tell(fmt.Errorf("no server of %s is known yet", m.name))
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
	e, err := n.engineOf(ctx, m, f)
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

// engineOf makes an engine that generates with a model through the swarm.
func (n *node) engineOf(ctx context.Context, m *openModel, f *httpFlags) (*client.Engine, error) {
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
	return m.engine(ctx, tok, cfg)
}
