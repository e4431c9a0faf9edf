package wiring

import (
	"context"
	"log/slog"
	"time"

	"whorl/swarm"
	"whorl/swarm/p2p"
)

// RelayOptions say what a node does for those of its swarm that nobody can dial.
type RelayOptions struct {
	Off            bool
	Limits         p2p.RelayLimits
	Rate, PeerRate Size
}

// check refuses what cannot work.
func (f *RelayOptions) check() error {
	f.Limits.Rate, f.Limits.PeerRate = int64(f.Rate), int64(f.PeerRate)
	if f.Off {
		return nil
	}
	if err := f.Limits.Validate(); err != nil {
		return Usagef("--relay-...: %w", err)
	}
	return nil
}

// offered are the limits, nil for a node that relays for nobody. unasked: it relays also before
// anybody could look whether it can be dialled.
func (f *RelayOptions) offered(unasked bool) *p2p.RelayLimits {
	if f.Off {
		return nil
	}
	l := f.Limits
	l.Unasked = unasked
	return &l
}

const (
	// reachPatience is how long a server that nobody can dial looks for a relay or waits for
	// somebody to forward its port, as in Petals; reachRetry is the time between two looks.
	reachPatience = 7 * time.Minute
	reachRetry    = 15 * time.Second
	// relayPatience is how long it first waits for a relay before it complains.
	relayPatience = 5 * time.Second
)

// reachable waits until others can reach the node, directly or through a relay. Where nobody is
// there to ask that is unknown, and good enough: a founder comes first.
func (n *Node) reachable(ctx context.Context) error {
	began := time.Now()
	for {
		r := n.net.host.CheckReach(ctx)
		if r.State == swarm.ReachNo {
			r = n.relayed(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case r.State != swarm.ReachNo:
			logReach("others can dial this node", r)
			return nil
		case len(r.Relays) > 0:
			logReach("nobody can dial this node: others reach it through relays", r)
			return nil
		case time.Since(began) > reachPatience:
			return Usagef("nobody can dial this node, and no relay takes it: %s. --skip-reachability-check serves all the same", r.Advice)
		}
		logReach("nobody can dial this node, and no relay was found: it does not serve yet", r)
		select {
		case <-ctx.Done():
		case <-time.After(reachRetry):
		}
	}
}

// relayed waits a little for a relay.
func (n *Node) relayed(ctx context.Context) swarm.Reach {
	late := time.NewTimer(relayPatience)
	defer late.Stop()
	tick := time.NewTicker(relayPatience / 50)
	defer tick.Stop()
	for {
		r := n.net.host.Reach()
		if len(r.Relays) > 0 || !n.autoRelay {
			return r
		}
		select {
		case <-tick.C:
		case <-late.C:
			return r
		case <-ctx.Done():
			return r
		}
	}
}

func logReach(what string, r swarm.Reach) {
	if r.State == swarm.ReachUnknown {
		slog.Info("nobody could be asked whether this node can be dialled")
		return
	}
	log, level := slog.With("relays", r.Relays, "addrs", r.Addrs), slog.LevelInfo
	if r.Advice != "" {
		log = log.With("do", r.Advice)
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, what)
}
