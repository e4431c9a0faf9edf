package node

import (
	"context"
	"errors"
	"sync"

	"whorl/internal/wiring"
)

// Node is one node of a swarm. Its methods may be called at any time, from several goroutines.
type Node struct {
	run func(ctx context.Context, n *Node) error

	ready chan struct{} // closed when it is usable
	mu    sync.Mutex    // guards all below
	ran   bool
	inner *wiring.Node // nil before it has its ports
}

// ErrRan says that a node was run before: make another.
var ErrRan = errors.New("this node was run before")

func newNode(run func(context.Context, *Node) error) *Node {
	return &Node{run: run, ready: make(chan struct{})}
}

// NewServer makes a node that holds blocks of a model. It starts nothing.
func NewServer(o ServerOptions) *Node {
	return newNode(func(ctx context.Context, n *Node) error {
		var f wiring.Server
		f.Defaults()
		s := set{}
		invited := wiring.IsInvitation(o.Model)
		o.node(s, &f.Node, &f.HTTP, !invited)
		o.model(s, &f.Model, &f.Compute)
		if o.Model != "" {
			f.Args = []string{o.Model}
		}
		f.BlockIndices, f.NumBlocks, f.Memory, f.CacheTokens = o.Blocks, o.NumBlocks, wiring.Size(o.Memory), o.CacheTokens
		s.text("throughput", &f.Throughput, o.Throughput)
		f.Adapters, f.PublicName, f.SkipReach = o.Adapters, o.PublicName, o.SkipReachabilityCheck
		f.Guest, f.Yield = true, "off"
		f.Node.Show = n.started
		return f.Run(wiring.WithEnviron(ctx, o.Environ), s.given)
	})
}

// NewGateway makes a node that serves HTTP for users of a model, or of all that the swarm serves. It starts nothing.
func NewGateway(o GatewayOptions) *Node {
	return newNode(func(ctx context.Context, n *Node) error {
		var f wiring.Gateway
		f.Defaults()
		s := set{}
		o.node(s, &f.Node, &f.HTTP, !wiring.IsInvitation(o.Model))
		o.model(s, &f.Model, &f.Compute)
		if o.HTTP == "" {
			f.HTTP.HTTP = wiring.AnyPort
		}
		if o.Model != "" {
			f.Names = []string{o.Model}
		}
		f.Memory = wiring.Size(o.Memory)
		f.Node.Show = n.started
		return f.Run(wiring.WithEnviron(ctx, o.Environ), s.given)
	})
}

// NewBootstrap makes a node that helps others to find each other. It starts nothing.
func NewBootstrap(o BootstrapOptions) *Node {
	return newNode(func(ctx context.Context, n *Node) error {
		var f wiring.Bootstrap
		f.Defaults()
		s := set{}
		o.node(s, &f.Node, &f.HTTP, true)
		f.Node.Show = n.started
		return f.Run(wiring.WithEnviron(ctx, o.Environ), s.given)
	})
}

// Run is the life of the node: it joins, serves, and returns when all that it started has ended. Wrong options
// and a swarm that cannot be joined are errors (Wrong tells which); the end of ctx is none. A server then takes no new sessions and
// lets those that run go elsewhere first. A node runs once.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	ran := n.ran
	n.ran = true
	n.mu.Unlock()
	if ran {
		return ErrRan
	}
	return n.run(ctx, n)
}

// Wrong tells whether an error lies in the options or files that were given, rather than in what happened.
func Wrong(err error) bool { return errors.As(err, new(*wiring.UsageError)) }

// started is told of the node once it has its ports, and returns when ctx ends.
func (n *Node) started(ctx context.Context, inner *wiring.Node) {
	n.mu.Lock()
	n.inner = inner
	n.mu.Unlock()
	select {
	case <-inner.Usable():
		close(n.ready)
		<-ctx.Done()
	case <-ctx.Done():
	}
}

// Ready is closed once the node can be used. One that ends before is never ready: wait for Run's return too.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Status is how a node is.
type Status struct {
	// PeerID names the node in the swarm; "" before it has its ports.
	PeerID string
	// Addrs are where others reach it: InitialPeers of others.
	Addrs []string
	// State is offline, joining, online or draining.
	State string
	// Model and UID are of what it serves, Blocks its span such as 0:8; "" for none.
	Model, UID, Blocks string
	// Sessions it serves now, and peers that it is connected to.
	Sessions, Peers int
	// HTTP and Admin are the URLs of its listeners; "" for those that are off.
	HTTP, Admin string
}

// Status tells how the node is now.
func (n *Node) Status() Status {
	n.mu.Lock()
	inner := n.inner
	n.mu.Unlock()
	if inner == nil {
		return Status{State: "offline"}
	}
	st := inner.Status()
	out := Status{PeerID: string(st.Peer), Addrs: st.Addrs, State: st.State.String(), UID: string(st.UID), Sessions: st.Sessions, Peers: st.Peers}
	out.HTTP, out.Admin = inner.URLs()
	if st.Manifest != nil {
		out.Model = st.Manifest.Name
	}
	if st.Span != nil {
		out.Blocks = st.Span.String()
	}
	return out
}
