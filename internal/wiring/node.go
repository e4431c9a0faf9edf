package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"whorl/api"
	"whorl/api/gen"
	"whorl/api/routes"
	"whorl/client"
	"whorl/internal/atomicfile"
	"whorl/internal/journal"
	"whorl/internal/operations"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/evidence"
	"whorl/swarm/health"
	"whorl/swarm/p2p"
	"whorl/swarm/route"
	"whorl/swarm/trust"
	"whorl/web"
)

// Node is one long-running process: what it is to the swarm, to its operator, and to the
// users of its HTTP listeners. It implements what api asks of a node and its control.
type Node struct {
	roles         []string
	swarm         string
	flags         *SwarmOptions // for invitations
	readyFile     string
	inviteFile    string
	started       time.Time
	registry      *prometheus.Registry
	public, admin *listener
	net           *network
	dial          *selfDialer
	autoRelay     bool     // others may reach the node through relays
	share         *sharing // nil for nodes that have no model
	loading       loading
	trust         *memory
	evidence      *evidence.Service // nil for nodes that have no model
	docket        *trust.Docket     // the same
	settings      *Settings
	offers        offers
	adapters      adapting
	events        *journal.Log
	operations    *operations.Set
	drains        drains
	over          chan struct{} // closed when all but the last words is done
	up            chan struct{} // closed when it is usable
	past          api.History   // nil without pages
	stop          context.CancelCauseFunc
	background    sync.WaitGroup // ends with the node's context

	mu      sync.Mutex // guards all below
	server  *server.Server
	engines []*client.Engine
	tunings []api.Engine     // those engines with prompts
	checker *client.Engine   // of a server without them; nil else
	shelf   *shelf           // nil unless the node offers the swarm's models
	checks  map[string]error // why the node is not usable yet; nil entries are well
}

// errShutdown ends a node because its operator asked for it.
var errShutdown = errors.New("shut down by the operator")

// errStarting is what is wrong with the parts of a node that are not up yet.
var errStarting = errors.New("starting")

// startNode takes the ports, makes the node's place in the swarm and serves HTTP, which
// tells from the start how far the node is. The returned context ends with the node.
func startNode(ctx context.Context, roles []string, nf *NodeOptions, hf *HTTPOptions) (context.Context, *Node, error) {
	n := &Node{
		roles: roles, swarm: nf.Swarm, flags: &nf.SwarmOptions, readyFile: nf.ReadyFile, inviteFile: nf.InviteFile, started: time.Now(),
		registry: prometheus.NewRegistry(), checks: map[string]error{"swarm": errStarting},
		settings: settingsOf(ctx), events: journal.New(eventLines, eventBytes), over: make(chan struct{}), up: make(chan struct{}),
	}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if n.readyFile != "" {
		// A file of an earlier run would tell a script that this one is usable.
		if err := os.Remove(n.readyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return ctx, nil, Usagef("--ready-file: %w", err)
		}
		if _, err := os.Stat(filepath.Dir(n.readyFile)); err != nil { // now, not after the model was loaded
			return ctx, nil, Usagef("--ready-file: its folder must exist: %w", err)
		}
	}
	var err error
	if n.public, err = listen("http", hf.HTTP); err != nil {
		return ctx, nil, err
	}
	n.admin, err = listen("admin", hf.Admin)
	if p2p.AddrInUse(err) && hf.adminBusy { // another node of this machine has it
		n.admin, err = listen("admin", AnyPort)
	}
	if err != nil {
		n.public.end()
		return ctx, nil, err
	}
	if n.net, err = nf.start(ctx, roles[0], n.registry); err != nil {
		endAll(n.public, n.admin)
		return ctx, nil, err
	}
	n.autoRelay = nf.AutoRelay
	n.dial = &selfDialer{self: n.net.host.ID(), others: n.net.host}
	ctx, n.stop = context.WithCancelCause(ctx)
	n.operations = operations.Open(ctx, n.net.home.file("operations.json"), n.noteOperation)
	n.drains.recall(n.net.home.file("drained.json"))
	n.stayDrained()
	n.trust = openMemory(n.net.home.file("trust.json"))
	n.background.Go(func() { n.trust.keep(ctx) })
	n.registry.MustRegister(trustMetrics{n})
	n.background.Go(func() { n.watch(ctx) })
	if nf.Show != nil {
		n.background.Go(func() { nf.Show(ctx, n) })
	}
	if err := n.serveHTTP(ctx, nf, hf); err != nil {
		n.close()
		return ctx, nil, err
	}
	return ctx, n, nil
}

// serveHTTP brings up both listeners.
func (n *Node) serveHTTP(ctx context.Context, nf *NodeOptions, hf *HTTPOptions) error {
	pages, err := n.pages(ctx, nf, hf)
	if err != nil {
		return err
	}
	adminPages, err := web.Admin(gen.Document)
	if err != nil {
		return err
	}
	ring, err := n.keyRing(ctx, hf)
	if err != nil {
		return err
	}
	kept, err := n.shelfOf(ctx, hf)
	if err != nil {
		return err
	}
	a, err := routes.New(api.Config{
		Engines: n.served, Adapters: n.offers.list, Aliases: hf.aliases, Node: n, Control: n, Tasks: n, Adapting: n, Operations: n.operations, Directory: n.net.Directory, Peering: n.net.host, Routes: n, Settings: n.settings, History: n.past, Events: n.events, Logs: loggingOf(ctx).lines, Registry: n.registry, Pages: pages, AdminPages: adminPages, Log: slog.Default(),
		Kept: kept, Keys: ring, Public: api.Listener{Token: hf.HTTPToken, Keys: ring != nil, Hosts: hf.Hosts, Origins: hf.Origins},
		Ollama: hf.Ollama, Verify: hf.Verify, ToolFormat: hf.ToolFormat,
		Admin:  api.Listener{Token: hf.AdminToken, Keys: ring != nil && closedTo(hf.Admin), Hosts: hf.Hosts},
		Limits: api.Limits{RowBytes: int64(hf.RowMemory), Caps: api.Caps{Sockets: hf.UserSockets, UserCache: hf.UserCache, Answers: hf.Answers}},
	})
	if err != nil {
		return err
	}
	n.offers.allow(hf.allowed)
	n.liveHTTP(a)
	n.public.serve(a.Public(), n.fail)
	n.admin.serve(a.Admin(), n.fail)
	return nil
}

// URLs are where the node's pages and its control plane are; "" for what is off.
func (n *Node) URLs() (http, admin string) { return n.public.url(), n.admin.url() }

// Usable is closed once the node can be used.
func (n *Node) Usable() <-chan struct{} { return n.up }

// fail ends the node because a part of it cannot go on.
func (n *Node) fail(err error) { n.stop(err) }

// join waits until the swarm has answered.
func (n *Node) join(ctx context.Context) error {
	if err := n.net.joined(ctx); err != nil {
		return err
	}
	n.check("swarm", nil)
	n.background.Go(func() { n.net.host.WatchReach(ctx, n.republish) })
	n.background.Go(func() { n.net.host.WatchLink(ctx, n.republish) })
	return nil
}

// republish tells others that the node's addresses are new.
func (n *Node) republish() {
	if srv, _ := n.parts(); srv != nil {
		srv.Republish()
	}
}

// check notes how one part of the node is.
func (n *Node) check(part string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checks[part] = err
}

// usable says that the node can be used: in the log and in the ready file.
func (n *Node) usable() error {
	if err := n.sayUsable(); err != nil {
		return err
	}
	close(n.up)
	return nil
}

func (n *Node) sayUsable() error {
	slog.Info("ready", "http", n.public.url(), "admin", n.admin.url())
	if n.inviteFile != "" {
		if err := n.writeInvitation(n.inviteFile); err != nil {
			return err
		}
	}
	if n.readyFile == "" {
		return nil
	}
	b, err := json.Marshal(map[string]any{
		"peer_id": n.net.host.ID(), "addrs": n.net.host.Addrs(), "http": n.public.url(), "admin": n.admin.url(), "pid": os.Getpid(),
	})
	if err != nil {
		return err
	}
	// Whoever waits for the file never reads half of it.
	if err := atomicfile.Write(n.readyFile, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	return nil
}

// ended is how the command ends once the node's context has: well if a signal or the
// operator ended it.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, errShutdown), errors.Is(cause, context.Canceled):
		return nil
	default:
		return cause
	}
}

// close ends everything; the swarm server must have ended before.
func (n *Node) close() error {
	n.stop(context.Canceled)
	if n.readyFile != "" {
		os.Remove(n.readyFile)
	}
	endAll(n.public, n.admin)
	n.dial.wait()
	close(n.over)
	n.operations.Close()
	n.background.Wait()
	n.shelf.close()
	n.share.close()
	return n.net.Close()
}

// addServer shows the node's swarm server to its operator.
func (n *Node) addServer(s *server.Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server = s
}

// addEngine lets users generate with a model.
func (n *Node) addEngine(e *client.Engine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.engines = append(n.engines, e)
}

// parts are the server (nil if there is none) and the engines.
func (n *Node) parts() (*server.Server, []*client.Engine) {
	n.mu.Lock()
	srv, engines, s := n.server, n.engines, n.shelf
	n.mu.Unlock()
	return srv, append(engines[:len(engines):len(engines)], s.inMemory()...)
}

// engineFor finds the engine of a model, which stays in memory until done is called; nil if there
// is none.
func (n *Node) engineFor(is func(swarm.UID) bool) (e *client.Engine, done func()) {
	n.mu.Lock()
	engines, s := n.engines, n.shelf
	if n.checker != nil {
		engines = append(slices.Clone(engines), n.checker)
	}
	n.mu.Unlock()
	for _, e := range engines {
		if is(e.Model().UID) {
			return e, func() {}
		}
	}
	return s.hold(is)
}

// serveShelf lets users generate with the models of a shelf.
func (n *Node) serveShelf(s *shelf) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shelf = s
}

// served lists the engines as api takes them.
func (n *Node) served() []api.Engine {
	n.mu.Lock()
	engines, tunings, s := n.engines, n.tunings, n.shelf
	n.mu.Unlock()
	var out []api.Engine
	for _, e := range engines {
		out = append(out, api.Serve(e))
	}
	return append(append(out, tunings...), s.engines()...)
}

// Status tells of this node.
func (n *Node) Status() swarm.NodeStatus {
	srv, engines := n.parts()
	st := swarm.NodeStatus{State: swarm.Joining}
	if srv != nil {
		st = srv.Status()
	} else if n.healthy() {
		st.State = swarm.Online
	}
	st.Peer, st.Addrs, st.Peers = n.net.host.ID(), n.net.host.Addrs(), n.net.host.Connected()
	reach := n.net.host.Reach()
	st.Reach, st.Reachability, st.Transports = &reach, reach.At(st.Addrs), n.net.host.Transports()
	st.Loading, st.Drained = n.loading.status(time.Now()), n.drains.status()
	if srv != nil && st.State == swarm.Joining && st.Loading == nil {
		st.Loading = n.loading.reading()
	}
	st.Roles, st.Swarm, st.Started, st.Version = n.roles, n.swarm, n.started, BuildVersion
	if st.Manifest == nil && len(engines) > 0 {
		m := engines[0].Model()
		st.Manifest, st.UID = &m.Manifest, m.UID
	}
	return st
}

func (n *Node) healthy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, err := range n.checks {
		if err != nil {
			return false
		}
	}
	return true
}

// Explain plans a session with a model that this node generates with.
func (n *Node) Explain(ctx context.Context, uid swarm.UID, positions int) (route.Explanation, error) {
	_, engines := n.parts()
	for _, e := range engines {
		if e.Model().UID == uid {
			return e.Explain(ctx, positions)
		}
	}
	return route.Explanation{}, swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "this node generates with no such model, and knows no routes: ask a gateway of it")
}

// Sessions lists those this node serves and those it drives.
func (n *Node) Sessions() []swarm.SessionStatus {
	srv, engines := n.parts()
	var all []swarm.SessionStatus
	if srv != nil {
		all = srv.Sessions()
	}
	for _, e := range engines {
		all = append(all, e.Sessions()...)
	}
	return all
}

// Peers lists connections.
func (n *Node) Peers() []swarm.PeerStatus { return n.net.host.Peers() }

// Blocks lists what the node holds.
func (n *Node) Blocks() []swarm.BlockStatus {
	if srv, _ := n.parts(); srv != nil {
		return srv.Blocks()
	}
	return nil
}

// Ready tells of each part whether it is usable.
func (n *Node) Ready() map[string]error { return n.ready(n.net.Directory.Views) }

func (n *Node) ready(views func() []swarm.View) map[string]error {
	n.mu.Lock()
	out, engines := maps.Clone(n.checks), n.engines
	n.mu.Unlock()
	if out["swarm"] != nil {
		return out
	}
	out["swarm"] = n.net.Directory.Synced() // it has joined, and may have lost the swarm since
	if len(engines) > 0 {
		out["model"] = covered(engines, views())
	}
	return out
}

// covered is why users cannot generate with any of the models, nil if they can with one. A
// view is empty where nobody tells of servers, whoever keeps them from it.
func covered(engines []*client.Engine, views []swarm.View) (why error) {
	for _, e := range engines {
		m := e.Model()
		i := slices.IndexFunc(views, func(v swarm.View) bool { return v.Manifest.UID() == m.UID })
		if i < 0 {
			why = fmt.Errorf("no server of %s is known", m.Name)
		} else if c := health.Measure(views[i]); len(c.Missing) > 0 {
			why = fmt.Errorf("nobody holds %s of %s", health.Blocks(c.Missing), m.Name)
		} else {
			return nil
		}
	}
	return why
}

// KillSession ends a session, on whichever side of it this node is.
func (n *Node) KillSession(id string) error {
	srv, engines := n.parts()
	killed := srv != nil && srv.Kill(id)
	for _, e := range engines {
		killed = e.Kill(id) || killed
	}
	if !killed {
		return swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "this node has no session %s", id)
	}
	return nil
}
