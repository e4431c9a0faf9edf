package main

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

// serveFlags are those of `whorl serve`.
type serveFlags struct {
	node    nodeFlags
	share   shareFlags
	http    httpFlags
	model   modelFlags
	compute computeFlags

	blockIndices string
	numBlocks    int
	memory       size
	room         server.Room // what is free, once it was looked up
	cacheTokens  int
	maxLength    int
	stepRows     int
	maxWait      time.Duration
	idle         time.Duration
	session      time.Duration
	joinDelay    time.Duration
	moves        moveFlags
	statsEvery   time.Duration
	caps         capFlags
	passes       passFlags
	throughput   string
	publicName   string
	adapters     []string
	compression  string
	yield        string
	left         func() float64 // what other programs leave of the processor; nil: all of it
	noAutoRelay  bool
	skipReach    bool
	mayShare     bool
	dryRun       bool
	asJSON       bool
	args         []string         // MODEL, or an invitation and MODEL
	measured     swarm.NodeStatus // after a dry run
}

// check refuses wrong values before anything is opened.
func (f *serveFlags) check(given given) error {
	args, err := f.node.accept(given, &f.model, f.args)
	if err != nil {
		return err
	}
	if !f.dryRun { // which joins no swarm
		if err := f.node.check(given); err != nil {
			return err
		}
	}
	if err := f.http.check(given); err != nil {
		return err
	}
	if err := f.model.take(args, false); err != nil {
		return err
	}
	if f.asJSON && !f.dryRun {
		return usagef("--json goes with --dry-run")
	}
	if f.blockIndices != "" && f.numBlocks != 0 {
		return usagef("--block-indices and --num-blocks exclude each other: give one")
	}
	if f.maxWait <= 0 || f.idle <= 0 || f.session <= 0 {
		return usagef("--max-alloc-timeout %v, --step-timeout %v and --session-timeout %v: want more than 0", f.maxWait, f.idle, f.session)
	}
	if f.statsEvery > 0 && f.statsEvery < time.Second {
		return usagef("--stats-report-interval %v: want at least 1s, or 0 for none", f.statsEvery)
	}
	if err := checkPublicName(f.publicName); err != nil {
		return usagef("--public-name %w", err)
	}
	if err := f.caps.check(); err != nil {
		return err
	}
	if err := f.passes.check(); err != nil {
		return err
	}
	if err := f.moves.validate(); err != nil {
		return err
	}
	_, err = f.config()
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

// config is the server's configuration as the flags say it.
func (f *serveFlags) config() (server.Config, error) {
	cfg := server.DefaultConfig()
	cfg.NumBlocks, cfg.CacheToken, cfg.MaxLength, cfg.StepRows = f.numBlocks, f.cacheTokens, f.maxLength, f.stepRows
	room, err := f.roomFor()
	if err != nil {
		return cfg, err
	}
	cfg.Memory, cfg.MemoryFrom = room.Bytes, room.Source
	_, cfg.Network = strangers(int64(f.node.networkMemory), cfg.Memory, f.http.http != off)
	cfg.PublicName, cfg.Version = f.publicName, buildVersion
	cfg.Timeouts.Cache, cfg.Timeouts.Idle, cfg.Timeouts.Session, cfg.Timeouts.Update = f.maxWait, f.idle, f.session, f.node.updatePeriod
	cfg.Balance.Settle, cfg.StatsEvery = f.joinDelay, f.statsEvery
	f.moves.apply(&cfg)
	f.caps.apply(&cfg)
	f.passes.apply(&cfg)
	if f.blockIndices != "" {
		span, err := swarm.ParseSpan(f.blockIndices)
		if err != nil {
			return cfg, usagef("--block-indices: %w", err)
		}
		cfg.Span = &span
	}
	d, err := parseThroughput(f.throughput)
	if err != nil {
		return cfg, usagef("--throughput %w", err)
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
func (f *serveFlags) configFor(m *openModel) (server.Config, error) {
	cfg, err := f.config()
	if err != nil {
		return cfg, err
	}
	if f.http.http != off {
		if cfg.Head, err = m.ck.HeadBytes(m.load); err != nil {
			return cfg, usage(err)
		}
	}
	cfg.Manifest = m.man
	cfg.Device = deviceName(m.dev.Info())
	// No session is longer than the model's context, whatever the cache holds.
	if context := m.ck.Config.LongestSession(); cfg.MaxLength == 0 || cfg.MaxLength > context {
		cfg.MaxLength = context
	}
	return cfg, usage(cfg.Validate())
}

func (f *serveFlags) roles() []string {
	if f.http.http == off {
		return []string{"server"}
	}
	return []string{"server", "gateway"}
}

// run is the life of the node, from its options to its end with ctx. A dry run leaves what was measured.
func (f *serveFlags) run(ctx context.Context, given given) error {
	if err := f.check(given); err != nil {
		return err
	}
	f.model.hub.cache, f.model.trees = f.node.cacheDir, f.node.treeCache(ctx)
	f.node.source = f.model.place
	left, undo := f.giveWay(ctx)
	defer undo()
	f.left = left
	var m *openModel
	defer func() { // after the node's end, and it may be opened late
		if m != nil {
			m.Close()
		}
	}()
	if !f.model.peers {
		var err error
		if m, err = f.model.open(ctx, &f.compute); err != nil {
			return err
		}
		f.node.source = m.fetched.name()
		if err := f.opened(ctx, m); err != nil {
			return err
		}
	}
	room, err := f.roomFor()
	if err != nil {
		return err
	}
	net, _ := strangers(int64(f.node.networkMemory), room.Bytes, f.http.http != off)
	f.node.networkMemory = size(net)
	f.node.autoRelay = !f.noAutoRelay
	ctx, n, err := startNode(ctx, f.roles(), &f.node, &f.http)
	if err != nil {
		return err
	}
	defer n.close()
	n.check("server", errStarting)
	if err := n.join(ctx); err != nil {
		return ended(ctx, err)
	}
	if !f.skipReach {
		if err := n.reachable(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(n.startSharing(f.share, f.model.patience()), n.startEvidence(ctx)); err != nil {
		return err
	}
	if m == nil {
		n.share.about(swarm.UID(f.model.invited))
		if m, err = f.model.openPeers(ctx, &f.compute, n.net, n.share.client, f.model.choosable(given)); err != nil {
			return ended(ctx, err)
		}
		if err := f.opened(ctx, m); err != nil {
			return err
		}
	}
	n.loads(m.fetched)
	how := settling{invited: f.model.invited, choosable: f.model.choosable(given), found: true, cache: f.node.contentsCache(ctx)}
	if given("share-weights") {
		how.share = &f.mayShare
	}
	if span, err := swarm.ParseSpan(f.blockIndices); err == nil {
		how.block = span.Start
	}
	if err := m.settle(ctx, n.net.dir, how); err != nil {
		m.fetched.wrong(err)
		return ended(ctx, err)
	}
	n.gives(ctx, m)
	srv, err := f.server(ctx, n, m)
	if err != nil {
		return err
	}
	fetching := m.fetched.report(ctx)
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
			f.measured = srv.Status()
		}
		err = srvErr
	}
	return ended(ctx, err)
}

// opened completes the flags by what the model's files say, and checks them against it.
func (f *serveFlags) opened(ctx context.Context, m *openModel) error {
	if _, err := f.model.openAdapters(ctx, m, "--adapters", f.adapters); err != nil {
		return err
	}
	_, err := f.configFor(m)
	return err
}

// online waits for the server, makes the gateway half, and says that the node is usable.
// An error ends the node.
func (f *serveFlags) online(ctx context.Context, n *node, m *openModel, srv *server.Server) error {
	err := func() error {
		if f.http.http != off {
			n.check("engine", errStarting)
			if err := n.generateWith(ctx, m, &f.http); err != nil {
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
func (f *serveFlags) server(ctx context.Context, n *node, m *openModel) (*server.Server, error) {
	cfg, err := f.configFor(m)
	if err != nil {
		return nil, err
	}
	// Servers that start together must not choose in step: each draws its own delay.
	h := fnv.New64a()
	h.Write([]byte(n.net.host.ID()))
	cfg.Seed = h.Sum64()
	loader, err := blocks.NewLoader(m.ck, m.dev, blocks.Options{Load: m.load, Roots: m.man.Roots, KV: m.kv, Adapters: m.loras(), StepRows: cfg.StepRows})
	if err != nil {
		return nil, usage(err)
	}
	if plan, err := cfg.Plan(loader.Sizes(), cfg.Manifest.Blocks); err == nil { // if not, the server says why
		limitHeap(plan)
	}
	root, _ := f.node.root(ctx)
	srv, err := server.New(cfg, server.Deps{
		Speeds: speedsOf(root, m), Link: n.net.host.Link,
		Self: n.net.host.ID(), Loader: server.FromBlocks(loader), Directory: n.net.dir, Dialer: n.dial, Pinger: n.net.host, Signer: n.net.host,
		Memory: sysmem.Watch().Read, Addrs: n.net.host.ListenAddrs, Left: f.left, Relayed: n.net.host.Relayed, Loading: func() *swarm.Loading { return n.loading.status(time.Now()) }, Metrics: n.registry, Log: slog.Default(),
	})
	if err != nil {
		return nil, usage(err)
	}
	n.addServer(srv)
	n.offers.hold(m.held())
	n.adapters.of(&f.model, m)
	n.liveServer(srv)
	n.net.host.Handle(wire.ProtoSession, srv.ServeSession)
	n.net.host.Handle(wire.ProtoPush, srv.ServePush)
	n.net.host.Handle(wire.ProtoPass, srv.ServePass)
	n.dial.handle(wire.ProtoSession, srv.ServeSession)
	n.dial.handle(wire.ProtoPush, srv.ServePush)
	n.dial.handle(wire.ProtoPass, srv.ServePass)
	return srv, nil
}
