package wiring

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"whorl/client"
	"whorl/swarm"
	"whorl/swarm/evidence"
	"whorl/swarm/p2p"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// evidenceEvery is how often a node asks another what it knows of liars. News do not wait for it.
const evidenceEvery = time.Minute

// startEvidence has the node look into what others tell of servers, and tell what it found itself.
func (n *Node) startEvidence(ctx context.Context) error {
	n.docket = trust.NewDocket(n.net.host.ID(), p2p.Verify, trust.DefaultDocketParams())
	var err error
	n.evidence, err = evidence.New(evidence.Config{
		Self: n.net.host.ID(), Swarm: n.swarm, Dial: n.net.host.Dial, Peers: func() []swarm.PeerID { return n.net.host.Speaks(wire.ProtoEvidence) },
		Prefix: n.prefix, Docket: n.docket, Check: n.checkAccusation, Every: evidenceEvery, Registerer: n.registry, Log: slog.Default(),
	})
	if err != nil {
		return err
	}
	n.net.host.Handle(wire.ProtoEvidence, n.evidence.Serve)
	n.background.Go(func() { n.evidence.Run(ctx) }) // ends with ctx, which is all that it says
	return nil
}

// headless is the head of a node that generates nothing.
type headless struct{}

var errHeadless = errors.New("this node generates nothing: it has no embeddings and no head")

func (headless) Embed([]float32, []int32) error                             { return errHeadless }
func (headless) Logits([]float32, []float32, int, tensor.Activations) error { return errHeadless }

// looksInto has a server that generates nothing look into accusations of its model: it may be all that two
// gateways have in common, and tells only what it found itself. Canaries need no head.
func (n *Node) looksInto(m *Model) error {
	cfg := client.DefaultConfig()
	cfg.Manifest, cfg.Vocab, cfg.MaxLength, cfg.Head = m.Manifest, 1, proof.MaxCanaryRows, headless{}
	cfg.Directory, cfg.Dialer, cfg.RTT, cfg.Verify = n.net.Directory, n.dial, n.rtt, p2p.Verify
	cfg.Trust, cfg.Prefix, cfg.Self = n.trust, n.prefix, n.dial.self
	cfg.Auditor, cfg.Accuse = n.net.host.ID(), n.evidence.Accuse
	e, err := client.New(cfg)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checker = e
	return nil
}

// checkAccusation has the engine of the model look into an accusation.
func (n *Node) checkAccusation(ctx context.Context, a *proof.Accusation, teller swarm.PeerID) trust.Finding {
	e, done := n.engineFor(func(uid swarm.UID) bool {
		manifest, ok := uid.Hash()
		return ok && manifest == a.Manifest
	})
	if e == nil {
		return trust.Unchecked
	}
	defer done()
	return e.Check(ctx, a, teller)
}
