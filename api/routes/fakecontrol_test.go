package routes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"whorl/api"
	"whorl/internal/operations"
	"whorl/swarm"
	"whorl/swarm/health"
	"whorl/swarm/route"
)

// Connect reaches 12D3KooWa alone.
func (n *fakeNode) Connect(ctx context.Context, addr string) (swarm.PeerID, error) {
	_, id, ok := strings.Cut(addr, "/p2p/")
	if !ok {
		return "", fmt.Errorf("peer address %q: want /ip4/HOST/tcp/PORT/p2p/ID", addr)
	}
	n.mu.Lock()
	n.dialled = append(n.dialled, addr)
	n.mu.Unlock()
	_, err := n.Ping(ctx, swarm.PeerID(id))
	return swarm.PeerID(id), err
}

func (n *fakeNode) Explain(_ context.Context, _ swarm.UID, positions int) (route.Explanation, error) {
	return route.Explain(route.Query{View: n.Views()[0], Range: swarm.Span{Start: 0, End: 8}, Tokens: positions, Params: route.DefaultParams()})
}

func (n *fakeNode) Drain(reason string, within time.Duration) (operations.Work, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.reason = swarm.Draining, reason
	return func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		tell(operations.Progress{Done: 1, Total: 3, Unit: "sessions"})
		err := n.wait(ctx)
		if err != nil {
			n.Resume()
		}
		return nil, err
	}, nil
}

// wait is what operations do.
func (n *fakeNode) wait(ctx context.Context) error {
	if n.hold == nil {
		return nil
	}
	select {
	case <-n.hold:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *fakeNode) Resume() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = swarm.Online
	return nil
}

func (n *fakeNode) Restart() (operations.Work, error) {
	return func(ctx context.Context, _ func(operations.Progress)) (any, error) {
		n.mu.Lock()
		n.restarts++
		n.mu.Unlock()
		return nil, n.wait(ctx)
	}, nil
}

func (n *fakeNode) Consider(context.Context) (swarm.Placement, error) {
	return swarm.Placement{Do: "go", Span: swarm.Span{Start: 4, End: 8}, From: "0:4", To: "4:8", Gain: 3.1, Alarm: true, Reason: "block 5 has no holder", At: time.Unix(1750000000, 0)}, nil
}

// Rebalance fails for blocks that the model does not have.
func (n *fakeNode) Rebalance(to *swarm.Span) (operations.Work, error) {
	return func(ctx context.Context, _ func(operations.Progress)) (any, error) {
		if to != nil && to.End > 8 {
			return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "blocks %v: org/toy has blocks 0:8", *to)
		}
		return swarm.Placement{Do: "stay", To: "0:8"}, n.wait(ctx)
	}, nil
}

func (n *fakeNode) Benchmark(each time.Duration) (operations.Work, error) {
	return func(ctx context.Context, _ func(operations.Progress)) (any, error) {
		rate := 1 / each.Seconds()
		return swarm.Benchmark{Span: swarm.Span{End: 8}, Rates: swarm.Rates{ForwardRPS: &rate}, Announced: true}, n.wait(ctx)
	}, nil
}

func (n *fakeNode) Adapters() []swarm.AdapterStatus {
	return []swarm.AdapterStatus{{Adapter: swarm.Adapter{Name: "org/prose", Digest: "0123456789abcdef"}, Sessions: 2}, {Adapter: swarm.Adapter{Name: "lines", Digest: "d1"}, Leaving: true}}
}

func (n *fakeNode) LoadAdapter(source string) (operations.Work, error) {
	return func(ctx context.Context, _ func(operations.Progress)) (any, error) {
		return swarm.Adapter{Name: source, Digest: "d"}, n.wait(ctx)
	}, nil
}

func (n *fakeNode) UnloadAdapter(name string) (operations.Work, error) {
	if name != "org/prose" {
		return nil, swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "this node holds no adapter %q", name)
	}
	return func(ctx context.Context, _ func(operations.Progress)) (any, error) { return nil, n.wait(ctx) }, nil
}

func (n *fakeNode) Shutdown() (operations.Work, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	return func(ctx context.Context, _ func(operations.Progress)) (any, error) { return nil, n.wait(ctx) }, nil
}

func (n *fakeNode) Disconnect(p swarm.PeerID) bool { return p == "12D3KooWa" }

// fakeSettings has a log level, which may change, and a port, which may not.
type fakeSettings struct{ values map[string]string }

func (s *fakeSettings) List() []api.Setting {
	return []api.Setting{{Name: "log-level", Value: s.values["log-level"], Source: "flag"}, {Name: "port", Value: s.values["port"], Source: "default", Restart: true}}
}

func (s *fakeSettings) Level() (l slog.Level) {
	l.UnmarshalText([]byte(s.values["log-level"]))
	return l
}

func (s *fakeSettings) Change(values map[string]*string) error {
	for name, text := range values {
		switch {
		case name != "log-level":
			return api.Refused(api.CodeNeedsRestart, "%s cannot change while the node runs", name)
		case text == nil:
			s.values[name] = "info"
		default:
			s.values[name] = *text
		}
	}
	return nil
}

// fakeHistory has a point for each step, and three events.
type fakeHistory struct{}

func (fakeHistory) Coverage(_ context.Context, model swarm.UID, from, to time.Time, step time.Duration) (out []api.Past, err error) {
	for t := from; t.Before(to); t = t.Add(step) {
		out = append(out, api.Past{At: t, Coverage: health.Measure(fakeView())})
	}
	return out, nil
}

func (fakeHistory) Events(_ context.Context, model swarm.UID, peer swarm.PeerID, before int64, limit int) (out []api.Happening, err error) {
	for id := int64(3); id > 0; id-- {
		if before != 0 && id >= before || len(out) == limit || peer != "" && id > 1 {
			continue
		}
		e := api.Happening{ID: id, At: time.Unix(1750000000+id, 0), Kind: "model_broken", Model: fakeManifest.UID(), ModelName: "org/toy", Detail: "4-7"}
		if id == 1 {
			e.Kind, e.Peer, e.Span, e.Detail = "server_online", "12D3KooWa", &swarm.Span{Start: 0, End: 4}, ""
		}
		out = append(out, e)
	}
	return out, nil
}
