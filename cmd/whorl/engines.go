package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"whorl/client"
	"whorl/internal/backoff"
	"whorl/swarm/route"
	"whorl/tensor"
)

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
func (f *modelFlags) choosable(given given) bool {
	return !given("dtype") && !given("quant") && !given("kv-dtype")
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
