package wiring

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"whorl/internal/sysmem"
	"whorl/server"
	"whorl/server/blocks"
	"whorl/swarm"
	"whorl/swarm/wire"
	"whorl/web/view"
)

// Server are those of `whorl serve`.
type Server struct {
	Node    NodeOptions
	Share   ShareOptions
	HTTP    HTTPOptions
	Model   ModelOptions
	Compute ComputeOptions

	BlockIndices string
	NumBlocks    int
	Memory       Size
	room         server.Room // what is free, once it was looked up
	CacheTokens  int
	MaxLength    int
	StepRows     int
	MaxWait      time.Duration
	Idle         time.Duration
	Session      time.Duration
	JoinDelay    time.Duration
	Moves        MoveOptions
	StatsEvery   time.Duration
	Caps         CapOptions
	Passes       PassOptions
	Throughput   string
	PublicName   string
	Adapters     []string
	Compression  string
	Yield        string
	left         func() float64 // what other programs leave of the processor; nil: all of it
	NoAutoRelay  bool
	SkipReach    bool
	MayShare     bool
	DryRun       bool
	JSON         bool
	Args         []string         // MODEL, or an invitation and MODEL
	Guest        bool             // the process is another program's: its heap stays as that wants it
	Measured     swarm.NodeStatus // after a dry run
}

// Check refuses wrong values before anything is opened.
func (f *Server) Check(given given) error {
	args, err := f.Node.accept(given, &f.Model, &f.HTTP.Residual, f.Args)
	if err != nil {
		return err
	}
	if !f.DryRun { // which joins no swarm
		if err := f.Node.check(given); err != nil {
			return err
		}
	}
	if err := f.HTTP.check(given); err != nil {
		return err
	}
	if err := f.Model.Take(args, false); err != nil {
		return err
	}
	if f.JSON && !f.DryRun {
		return Usagef("--json goes with --dry-run")
	}
	if f.BlockIndices != "" && f.NumBlocks != 0 {
		return Usagef("--block-indices and --num-blocks exclude each other: give one")
	}
	if f.MaxWait <= 0 || f.Idle <= 0 || f.Session <= 0 {
		return Usagef("--max-alloc-timeout %v, --step-timeout %v and --session-timeout %v: want more than 0", f.MaxWait, f.Idle, f.Session)
	}
	if f.StatsEvery > 0 && f.StatsEvery < time.Second {
		return Usagef("--stats-report-interval %v: want at least 1s, or 0 for none", f.StatsEvery)
	}
	if err := checkPublicName(f.PublicName); err != nil {
		return Usagef("--public-name %w", err)
	}
	if err := f.Caps.check(); err != nil {
		return err
	}
	if err := f.Passes.check(); err != nil {
		return err
	}
	if err := f.Moves.validate(); err != nil {
		return err
	}
	_, err = f.Config()
	return err
}

// checkPublicName refuses a name that records cannot carry, and says how pages show one that
// they cut or clean.
func checkPublicName(name string) error {
	if len(name) > swarm.MaxPublicName {
		return fmt.Errorf("has %d bytes: want at most %d, of which pages show %d characters", len(name), swarm.MaxPublicName, view.MaxName)
	}
	if shown := view.PublicName(name).Text; shown != name {
		slog.Warn("pages show another public name", "given", name, "shown", shown, "most_characters", view.MaxName)
	}
	return nil
}

// Config is the server's configuration as the flags say it.
func (f *Server) Config() (server.Config, error) {
	cfg := server.DefaultConfig()
	cfg.NumBlocks, cfg.CacheToken, cfg.MaxLength, cfg.StepRows = f.NumBlocks, f.CacheTokens, f.MaxLength, f.StepRows
	room, err := f.roomFor()
	if err != nil {
		return cfg, err
	}
	cfg.Memory, cfg.MemoryFrom = room.Bytes, room.Source
	_, _, cfg.Network = Strangers(int64(f.Node.NetworkMemory), int64(f.HTTP.RowMemory), cfg.Memory, f.HTTP.HTTP != Off)
	cfg.PublicName, cfg.Version = f.PublicName, BuildVersion
	cfg.Timeouts.Cache, cfg.Timeouts.Idle, cfg.Timeouts.Session, cfg.Timeouts.Update = f.MaxWait, f.Idle, f.Session, f.Node.UpdatePeriod
	cfg.Balance.Settle, cfg.StatsEvery = f.JoinDelay, f.StatsEvery
	f.Moves.apply(&cfg)
	f.Caps.apply(&cfg)
	f.Passes.apply(&cfg)
	if f.BlockIndices != "" {
		span, err := swarm.ParseSpan(f.BlockIndices)
		if err != nil {
			return cfg, Usagef("--block-indices: %w", err)
		}
		cfg.Span = &span
	}
	d, err := parseThroughput(f.Throughput)
	if err != nil {
		return cfg, Usagef("--throughput %w", err)
	}
	cfg.Measuring, cfg.Throughput = d.how, d.rate
	return cfg, nil
}

// declared is what a server announces as its throughput.
type declared struct {
	how  server.Measuring
	rate float64 // with MeasureNever
}

func parseThroughput(text string) (declared, error) {
	switch strings.ReplaceAll(text, "_", "-") {
	case "auto":
		return declared{how: server.MeasureAuto}, nil
	case "eval":
		return declared{how: server.MeasureFresh}, nil
	case "dry-run":
		return declared{how: server.MeasureDryRun}, nil
	}
	rps, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rps >= 0) || rps > swarm.MaxRate {
		return declared{}, fmt.Errorf("%q: want auto, eval, dry-run or a number of tokens per second", text)
	}
	return declared{server.MeasureNever, rps}, nil
}

// configFor is the configuration for a model, checked against it.
func (f *Server) configFor(m *Model) (server.Config, error) {
	cfg, err := f.Config()
	if err != nil {
		return cfg, err
	}
	if f.HTTP.HTTP != Off {
		if cfg.Head, err = m.Checkpoint.HeadBytes(m.load); err != nil {
			return cfg, Usage(err)
		}
	}
	cfg.Manifest = m.Manifest
	cfg.Device, cfg.Tier = deviceName(m.Device.Info()), m.Device.Info().Tier
	// No session is longer than the model's context, whatever the cache holds.
	if context := m.Checkpoint.Config.LongestSession(); cfg.MaxLength == 0 || cfg.MaxLength > context {
		cfg.MaxLength = context
	}
	return cfg, Usage(cfg.Validate())
}

func (f *Server) roles() []string {
	if f.HTTP.HTTP == Off {
		return []string{"server"}
	}
	return []string{"server", "gateway"}
}

// Run is the life of the node, from its options to its end with ctx. A dry run leaves what was measured.
func (f *Server) Run(ctx context.Context, given given) error {
	if err := f.Check(given); err != nil {
		return err
	}
	f.Model.Hub.Cache, f.Model.trees = f.Node.CacheDir, f.Node.treeCache(ctx)
	f.Node.source = f.Model.Place
	left, undo := f.giveWay(ctx)
	defer undo()
	f.left = left
	var m *Model
	defer func() { // after the node's end, and it may be opened late
		if m != nil {
			m.Close()
		}
	}()
	if !f.Model.Peers {
		var err error
		if m, err = f.Model.Open(ctx, &f.Compute); err != nil {
			return err
		}
		f.Node.source = m.fetched.name()
		if err := f.opened(ctx, m); err != nil {
			return err
		}
	}
	room, err := f.roomFor()
	if err != nil {
		return err
	}
	net, rows, _ := Strangers(int64(f.Node.NetworkMemory), int64(f.HTTP.RowMemory), room.Bytes, f.HTTP.HTTP != Off)
	f.Node.NetworkMemory, f.HTTP.RowMemory = Size(net), Size(rows)
	f.Node.AutoRelay = !f.NoAutoRelay
	ctx, n, err := startNode(ctx, f.roles(), &f.Node, &f.HTTP)
	if err != nil {
		return err
	}
	defer n.close()
	n.check("server", errStarting)
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if !f.SkipReach {
		if err := n.reachable(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(n.startSharing(f.Share, f.Model.patience()), n.startEvidence(ctx)); err != nil {
		return err
	}
	if m == nil {
		n.share.about(swarm.UID(f.Model.invited))
		if m, err = f.Model.openPeers(ctx, &f.Compute, n.net, n.share.client, f.Model.choosable(given)); err != nil {
			return ended(ctx, err)
		}
		if err := f.opened(ctx, m); err != nil {
			return err
		}
	}
	n.loads(m.fetched)
	how := settling{invited: f.Model.invited, choosable: f.Model.choosable(given), found: true, cache: f.Node.contentsCache(ctx)}
	if given("share-weights") {
		how.share = &f.MayShare
	}
	if span, err := swarm.ParseSpan(f.BlockIndices); err == nil {
		how.block = span.Start
	}
	if err := m.settle(ctx, n.net.Directory, how); err != nil {
		m.fetched.wrong(err)
		return ended(ctx, err)
	}
	n.gives(ctx, m)
	srv, err := f.server(ctx, n, m)
	if err != nil {
		return err
	}
	fetching := m.fetched.Report(ctx)
	done := make(chan error, 1)
	go func() {
		err := srv.Run(ctx)
		if err != nil {
			m.fetched.wrong(err)
			n.fail(err)
		}
		done <- err
	}()
	err = f.online(ctx, n, m, srv)
	m.fetched.wrong(err)
	fetching()
	<-ctx.Done()
	endAll(n.public, n.admin) // first: sessions of our own users would hold up the drain
	if srvErr := <-done; srvErr != nil {
		if errors.Is(srvErr, server.ErrDryRun) {
			f.Measured = srv.Status()
		}
		err = srvErr
	}
	return ended(ctx, err)
}

// opened completes the flags by what the model's files say, and checks them against it.
func (f *Server) opened(ctx context.Context, m *Model) error {
	if _, err := f.Model.openAdapters(ctx, m, "--adapters", f.Adapters); err != nil {
		return err
	}
	_, err := f.configFor(m)
	return err
}

// online waits for the server, makes the gateway half, and says that the node is usable.
// An error ends the node.
func (f *Server) online(ctx context.Context, n *Node, m *Model, srv *server.Server) error {
	err := func() error {
		if f.HTTP.HTTP != Off {
			n.check("engine", errStarting)
			if err := n.generateWith(ctx, m, &f.HTTP, true); err != nil {
				return err
			}
		} else if err := n.looksInto(m); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-srv.Ready():
		}
		n.check("server", nil)
		return n.usable()
	}()
	if err != nil {
		n.fail(err)
	}
	return err
}

// server makes the swarm server and lets streams reach it.
func (f *Server) server(ctx context.Context, n *Node, m *Model) (*server.Server, error) {
	cfg, err := f.configFor(m)
	if err != nil {
		return nil, err
	}
	// Servers that start together must not choose in step: each draws its own delay.
	h := fnv.New64a()
	h.Write([]byte(n.net.host.ID()))
	cfg.Seed = h.Sum64()
	loader, err := blocks.NewLoader(m.Checkpoint, m.Device, blocks.Options{Load: m.load, Roots: m.Manifest.Roots, KV: m.kv, Adapters: m.loras(), StepRows: cfg.StepRows})
	if err != nil {
		return nil, Usage(err)
	}
	if plan, err := cfg.Plan(loader.Sizes(), cfg.Manifest.Blocks); err == nil && !f.Guest { // if not, the server says why
		limitHeap(plan)
	}
	root, _ := f.Node.root(ctx)
	srv, err := server.New(cfg, server.Deps{
		Speeds: speedsOf(root, m), Link: n.net.host.Link,
		Self: n.net.host.ID(), Loader: server.FromBlocks(loader), Directory: n.net.Directory, Dialer: n.dial, Pinger: n.net.host, Signer: n.net.host,
		Memory: sysmem.Watch().Read, Addrs: n.net.host.ListenAddrs, Left: f.left, Relayed: n.net.host.Relayed, Loading: func() *swarm.Loading { return n.loading.status(time.Now()) }, Metrics: n.registry, Log: slog.Default(),
	})
	if err != nil {
		return nil, Usage(err)
	}
	n.addServer(srv)
	n.drains.serve(srv)
	n.offers.hold(m.held())
	n.adapters.of(&f.Model, m)
	n.liveServer(srv)
	n.net.host.Handle(wire.ProtoSession, srv.ServeSession)
	n.net.host.Handle(wire.ProtoPush, srv.ServePush)
	n.net.host.Handle(wire.ProtoPass, srv.ServePass)
	n.dial.handle(wire.ProtoSession, srv.ServeSession)
	n.dial.handle(wire.ProtoPush, srv.ServePush)
	n.dial.handle(wire.ProtoPass, srv.ServePass)
	return srv, nil
}
