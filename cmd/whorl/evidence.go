package main

import (
	"context"
	"log/slog"
	"time"

	"whorl/swarm"
	"whorl/swarm/evidence"
	"whorl/swarm/p2p"
	"whorl/swarm/proof"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// evidenceEvery is how often a node asks another what it knows of liars. News do not wait for it.
const evidenceEvery = time.Minute

// startEvidence has the node look into what others tell of servers, and tell what it found itself.
func (n *node) startEvidence(ctx context.Context) error {
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

// checkAccusation has the engine of the model look into an accusation.
func (n *node) checkAccusation(ctx context.Context, a *proof.Accusation, teller swarm.PeerID) trust.Finding {
	_, engines := n.parts()
	for _, e := range engines {
		if manifest, ok := e.Model().UID.Hash(); ok && manifest == a.Manifest {
			return e.Check(ctx, a, teller)
		}
	}
	return trust.Unchecked
}
