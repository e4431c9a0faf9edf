package wiring

import (
	"context"
	"sync"
	"time"

	"whorl/internal/operations"
	"whorl/server"
	"whorl/swarm"
)

// progressEvery is how often the progress of an operation is looked at.
const progressEvery = 200 * time.Millisecond

// noteOperation tells of an operation that begins or ends, in the node's events.
func (n *Node) noteOperation(o operations.Operation) {
	data := map[string]any{"operation": o.ID, "kind": o.Kind, "state": o.State}
	if o.Err != nil {
		data["reason"] = OneLine(o.Err)
	}
	kind := "operation.begun"
	if o.State != operations.Running {
		kind = "operation.ended"
	}
	n.events.Add(time.Now(), kind, data)
}

// serving is the node's server, without which most tasks are none.
func (n *Node) serving() (*server.Server, error) {
	srv, _ := n.parts()
	if srv == nil {
		return nil, swarm.Errorf(swarm.CodeUnsupported, swarm.Caller, "this node holds no blocks: there is nothing to drain, resume, restart, move or measure")
	}
	return srv, nil
}

// Restart loads the blocks anew.
func (n *Node) Restart() (operations.Work, error) {
	srv, err := n.serving()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		defer loads(ctx, srv, func() *swarm.Span { return srv.Status().Span }, tell)()
		return nil, srv.Restart(ctx)
	}, nil
}

// Consider decides whether other blocks need this node more, and does nothing.
func (n *Node) Consider(ctx context.Context) (swarm.Placement, error) {
	srv, err := n.serving()
	if err != nil {
		return swarm.Placement{}, err
	}
	return srv.Consider(ctx)
}

// Rebalance moves the node to where it is worth more, or to a span that is named.
func (n *Node) Rebalance(to *swarm.Span) (operations.Work, error) {
	srv, err := n.serving()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		defer loads(ctx, srv, func() *swarm.Span {
			if next := srv.Status().Next; next != nil {
				return &next.Span
			}
			return nil
		}, tell)()
		if to == nil {
			p, err := srv.Rebalance(ctx)
			return p, err
		}
		p := swarm.Placement{Do: "go", Span: *to, To: to.String(), Reason: "the operator named the blocks", At: time.Now()}
		if st := srv.Status(); st.Span != nil {
			p.From = st.Span.String()
		}
		return p, srv.Move(ctx, *to, p.Reason)
	}, nil
}

// loads tells how many of the blocks that are loaded for a span are there, until the result is
// called.
func loads(ctx context.Context, srv *server.Server, of func() *swarm.Span, tell func(operations.Progress)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			span := of()
			if span == nil {
				continue
			}
			p, loading := operations.Progress{Total: float64(span.Len()), Unit: "blocks"}, false
			for _, b := range srv.Blocks() {
				if span.Holds(b.Index) && b.State == "loaded" {
					p.Done++
				}
				loading = loading || b.State == "loading"
			}
			if !loading {
				p = operations.Progress{Total: float64(span.Len()), Unit: "blocks", Note: "sessions go elsewhere"}
			}
			tell(p)
		}
	})
	return func() { cancel(); watch.Wait() }
}

// Benchmark measures the blocks while they are served.
func (n *Node) Benchmark(each time.Duration) (operations.Work, error) {
	srv, err := n.serving()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tell func(operations.Progress)) (any, error) {
		total := 2 * each.Seconds()
		b, err := srv.Benchmark(ctx, each, func(share float64) {
			tell(operations.Progress{Done: share * total, Total: total, Unit: "s"})
		})
		return b, err
	}, nil
}

// Shutdown begins the end of the process.
func (n *Node) Shutdown() (operations.Work, error) {
	n.stop(errShutdown)
	return func(context.Context, func(operations.Progress)) (any, error) {
		<-n.over
		return nil, nil
	}, nil
}
