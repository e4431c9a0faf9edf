package wiring

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
func (n *Node) keepTrying(ctx context.Context, m *Model, how settling, hf *HTTPOptions) {
	for failures := 1; ; failures++ {
		err := n.settled(ctx, m, how, func(error) {})
		if err == nil {
			err = n.generateWith(ctx, m, hf, false)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		m.fetched.wrong(err)
		slog.Warn("a model cannot be used, trying again", "model", m.Name, "reason", err)
		n.events.Add(time.Now(), "model.failed", map[string]any{"model": m.Name, "reason": err.Error()})
		wait := backoff.Policy{First: time.Second, Max: time.Minute, Jitter: 0.5}
		if !backoff.Wait(ctx, wait.After(failures, rand.Float64())) {
			return
		}
	}
}

// settled is settle that waits until the swarm serves the model, if the files here do not say
// what it is; tell hears why it waits.
func (n *Node) settled(ctx context.Context, m *Model, how settling, tell func(error)) error {
	line := time.NewTicker(manifestLine)
	defer line.Stop()
	var waiting sync.Once
	for {
		changed := n.net.Directory.Changed()
		if err := m.settle(ctx, n.net.Directory, how); err != nil || m.Manifest.Pinned() {
			return err
		}
		tell(fmt.Errorf("no server of %s is known yet", m.Name))
		waiting.Do(func() { slog.Info("waiting for a server of the model", "model", m.Name) })
		select {
		case <-changed:
		case <-line.C:
			slog.Info("waiting for a server of the model", "model", m.Name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// choosable tells whether the class may be taken from the swarm: no flag asks for one.
func (f *ModelOptions) choosable(given given) bool {
	return !given("dtype") && !given("quant") && !given("kv-dtype")
}

// generateWith makes the node generate with a model through the swarm, and audit the share of
// the sessions that its flags say. alone says that it has no other model.
func (n *Node) generateWith(ctx context.Context, m *Model, f *HTTPOptions, alone bool) error {
	e, err := n.engineOf(ctx, m, f)
	if err != nil {
		return err
	}
	if err := n.net.Directory.Keep(m.Manifest); err != nil {
		return err
	}
	if err := n.addTunings(e, m, f.tuned, alone); err != nil {
		return err
	}
	n.addEngine(e)
	if f.Audit > 0 {
		n.background.Go(func() { e.Audit(ctx) }) // ends with ctx, which is all that it says
	}
	n.check("engine", nil)
	return ctx.Err()
}

// engineOf makes an engine that generates with a model through the swarm.
func (n *Node) engineOf(ctx context.Context, m *Model, f *HTTPOptions) (*client.Engine, error) {
	tok, err := m.Tokenizer()
	if err != nil {
		slog.Warn("requests can give token ids only, because the tokenizer cannot be used", "reason", err)
	}
	cfg := client.DefaultConfig()
	cfg.Directory, cfg.Dialer, cfg.RTT, cfg.EOS = n.net.Directory, n.dial, n.rtt, m.Checkpoint.EOS()
	cfg.Trust, cfg.Prefix, cfg.Self, cfg.Audits.Steady = n.trust, n.prefix, n.dial.self, f.Audit
	cfg.Auditor, cfg.Accuse = n.net.host.ID(), n.evidence.Accuse
	cfg.Residual, _ = tensor.ParseResidual(f.Residual) // check has read it
	cfg.Spread = true
	if !f.KeepChains {
		patience := route.DefaultPatience()
		cfg.Improve = &patience
	}
	return m.engine(ctx, tok, cfg)
}
