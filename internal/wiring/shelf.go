package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"whorl/api"
	"whorl/client"
	"whorl/model/hub"
	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/health"
)

const (
	// maxShelf is how many models of its swarm a gateway offers: strangers can announce any
	// number, and those that most servers were reached of come first.
	maxShelf = 64
	// wakeWait is how long a request waits for a model that is being fetched before it is told
	// to come again.
	wakeWait = 60 * time.Second
	// roomWait is how long a model waits until others are not used.
	roomWait = 30 * time.Second
	// rememberGone is how long a model that was used here is offered after its last server went: its
	// users hear which blocks are missing, and not that there is no such model.
	rememberGone = 10 * time.Minute
	// wakeAgain is how long the failure of a model is told before it is tried again.
	wakeAgain = 10 * time.Second
)

// shelf offers the models of a swarm: what a gateway computes of one itself is fetched when
// somebody asks for it first, and given up when the room is needed for another. What happens to one model
// does not touch another.
type shelf struct {
	n      *Node
	model  ModelOptions // for all of them
	cf     *ComputeOptions
	hf     *HTTPOptions
	budget int64                       // bytes of heads that may be in memory
	spawn  func(func(context.Context)) // runs something until the node ends
	load   chan struct{}               // holds one while a model is loaded

	mu     sync.Mutex // guards all below, and what shelved says
	models map[swarm.UID]*shelved
	met    map[*Tuning]swarm.UID // prompts, and the model that they were offered with last
	used   int64
	freed  chan struct{} // closed when a model is not used any more
}

// shelved is one model of the shelf.
type shelved struct {
	shelf *shelf
	man   swarm.Manifest
	since time.Time

	// Guarded by shelf.mu.
	name    string        // that users ask for
	loading chan struct{} // closed when a load ends; nil: none runs
	from    *fetched      // of that load; nil before it is known
	failed  error         // of the last load
	at      time.Time     // of that
	model   *Model        // nil: not in memory
	engine  *client.Engine
	stop    func() // ends what runs for the engine
	bytes   int64
	refs    int       // requests that use it
	last    time.Time // when one began or ended
	seen    time.Time // when the swarm served it last
}

func newShelf(n *Node, model ModelOptions, cf *ComputeOptions, hf *HTTPOptions, budget int64, spawn func(func(context.Context))) *shelf {
	return &shelf{n: n, model: model, cf: cf, hf: hf, budget: budget, spawn: spawn, load: make(chan struct{}, 1), models: map[swarm.UID]*shelved{}, met: map[*Tuning]swarm.UID{}, freed: make(chan struct{})}
}

// offers lists the models that the swarm serves now, by name, and those in memory that it served
// a moment ago. Where several have one name it is that of the one which was seen first, as long as
// it is there; others carry their UIDs.
func (s *shelf) offers() []*shelved {
	var views []swarm.View
	for _, v := range s.n.net.Directory.Views() {
		if v.Manifest.Pinned() && v.Manifest.Namespace == s.model.Namespace && balance.Reached(v) > 0 {
			views = append(views, v)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	there := map[swarm.UID]bool{}
	slices.SortStableFunc(views, func(a, b swarm.View) int { return cmp.Compare(balance.Reached(b), balance.Reached(a)) })
	var out []*shelved
	for _, v := range views[:min(len(views), maxShelf)] {
		uid := v.Manifest.UID()
		x := s.models[uid]
		if x == nil {
			x = &shelved{shelf: s, man: v.Manifest, since: now}
			s.models[uid] = x
		}
		there[uid], x.seen = true, now
		out = append(out, x)
	}
	for uid, x := range s.models {
		switch {
		case there[uid]:
		case x.model != nil && now.Sub(x.seen) < rememberGone:
			out = append(out, x)
		case x.loading == nil && (x.model == nil || x.idle()):
			s.evict(x)
			delete(s.models, uid)
		}
	}
	gone := func(x *shelved) int { // a new revision has the name of one that is gone
		if there[x.man.UID()] {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b *shelved) int {
		return cmp.Or(cmp.Compare(a.man.Name, b.man.Name), cmp.Compare(gone(a), gone(b)), a.since.Compare(b.since), cmp.Compare(a.man.UID(), b.man.UID()))
	})
	for i, x := range out {
		x.name = x.man.Name
		if i > 0 && out[i-1].man.Name == x.man.Name {
			x.name += "@" + string(x.man.UID())[:12]
		}
	}
	return out
}

// engines are the offers as api takes them.
func (s *shelf) engines() (out []api.Engine) {
	if s == nil {
		return nil
	}
	var tuned []api.Engine
	for _, x := range s.offers() {
		s.mu.Lock()
		name := x.name
		s.mu.Unlock()
		out, tuned = append(out, x), append(tuned, s.tuned(x, name)...)
	}
	return append(out, tuned...)
}

// inMemory are the engines of the models that are there.
func (s *shelf) inMemory() (out []*client.Engine) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.models {
		if x.engine != nil {
			out = append(out, x.engine)
		}
	}
	return out
}

// hold keeps a model in memory that is there already.
func (s *shelf) hold(is func(swarm.UID) bool) (*client.Engine, func()) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, x := range s.models {
		if x.engine != nil && is(uid) {
			x.refs++
			return x.engine, sync.OnceFunc(x.release)
		}
	}
	return nil, nil
}

// close gives up all models; nobody uses one any more.
func (s *shelf) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.models {
		s.evict(x)
	}
}

// evict gives up what is in memory of a model that nobody uses. mu is held.
func (s *shelf) evict(x *shelved) {
	if x.model == nil {
		return
	}
	x.stop()
	if err := x.model.Close(); err != nil {
		slog.Warn("a model cannot be given up", "model", x.man.Name, "reason", err)
	}
	s.used -= x.bytes
	x.model, x.engine = nil, nil
	slog.Info("a model is not in memory any more", "model", x.man.Name, "mib", x.bytes>>20)
	s.n.events.Add(time.Now(), "model.unloaded", map[string]any{"model": x.man.Name, "uid": x.man.UID()})
}

// idle tells whether a model is in memory and nobody uses it. mu is held.
func (x *shelved) idle() bool { return x.model != nil && x.refs == 0 && len(x.engine.Sessions()) == 0 }

// errFull says that other models are in use.
var errFull = errors.New("the other models in memory are in use")

// reserve makes room for a model: those that nobody uses go, the one used longest ago first. It
// waits for a while until there are such.
func (s *shelf) reserve(ctx context.Context, x *shelved, bytes int64) error {
	late := time.NewTimer(roomWait)
	defer late.Stop()
	for {
		s.mu.Lock()
		freed := s.freed
		err := s.reserveLocked(x, bytes)
		s.mu.Unlock()
		if !errors.Is(err, errFull) {
			return err
		}
		select {
		case <-freed:
		case <-late.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *shelf) reserveLocked(x *shelved, bytes int64) error {
	if bytes > s.budget {
		return swarm.Errorf(swarm.CodeNotLoaded, swarm.Caller, "%s takes %d MiB of this gateway, which has --memory of %d MiB for models", x.man.Name, bytes>>20, s.budget>>20)
	}
	for s.used+bytes > s.budget {
		var oldest *shelved
		for _, y := range s.models {
			if y.idle() && (oldest == nil || y.last.Before(oldest.last)) {
				oldest = y
			}
		}
		if oldest == nil {
			return swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "there is no room for %s, since %w: try again later", x.man.Name, errFull)
		}
		s.evict(oldest)
	}
	s.used += bytes
	x.bytes = bytes
	return nil
}

// Wake brings the model into memory, if it is not there, and keeps it there until done is called.
func (x *shelved) Wake(ctx context.Context) (e api.Engine, done func(), err error) {
	late := time.NewTimer(wakeWait)
	defer late.Stop()
	for {
		s := x.shelf
		s.mu.Lock()
		if x.engine != nil {
			x.refs++
			x.last = time.Now()
			e = named{api.Serve(x.engine), x.name}
			s.mu.Unlock()
			return e, sync.OnceFunc(x.release), nil
		}
		if x.loading == nil {
			if x.failed != nil && time.Since(x.at) < wakeAgain {
				defer s.mu.Unlock()
				return nil, nil, x.failed
			}
			x.loading = make(chan struct{})
			s.spawn(func(ctx context.Context) { s.bring(ctx, x) })
		}
		loading := x.loading
		s.mu.Unlock()
		select {
		case <-loading:
		case <-late.C:
			return nil, nil, x.notYet()
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// notYet tells how far a model is that is being fetched.
func (x *shelved) notYet() error {
	x.shelf.mu.Lock()
	from := x.from
	x.shelf.mu.Unlock()
	how := "it waits for others"
	if from != nil {
		p := from.hub.Progress()
		how = fmt.Sprintf("%d of %d MiB are here", p.Done>>20, p.Total>>20)
	}
	return swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "%s was not used before, and is being fetched (%s): try again soon", x.man.Name, how)
}

// release ends one use.
func (x *shelved) release() {
	x.shelf.mu.Lock()
	defer x.shelf.mu.Unlock()
	x.refs--
	x.last = time.Now()
	close(x.shelf.freed)
	x.shelf.freed = make(chan struct{})
}

// bring loads a model and tells those who wait. One is loaded at a time.
func (s *shelf) bring(ctx context.Context, x *shelved) {
	var err error
	select {
	case s.load <- struct{}{}:
		err = s.open(ctx, x)
		<-s.load
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.failed, x.at, x.from = err, time.Now(), nil
	if errors.Is(err, errFull) { // nothing is wrong with it
		x.failed = nil
	}
	close(x.loading)
	x.loading = nil
}

// open fetches what a gateway computes of a model, checks it against the manifest and loads it.
func (s *shelf) open(ctx context.Context, x *shelved) error {
	uid := x.man.UID()
	began := time.Now()
	slog.Info("a model is used for the first time: what this gateway computes of it is fetched", "model", x.man.Name, "uid", string(uid)[:12])
	s.n.events.Add(began, "model.loading", map[string]any{"model": x.man.Name, "uid": uid})
	m, err := s.fetch(ctx, x)
	if err == nil {
		err = s.start(ctx, x, m)
	}
	if err != nil {
		slog.Warn("a model cannot be used", "model", x.man.Name, "reason", err)
		s.n.events.Add(time.Now(), "model.failed", map[string]any{"model": x.man.Name, "uid": uid, "reason": err.Error()})
		if e := (*swarm.Error)(nil); errors.As(err, &e) {
			return err
		}
		return swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "%s cannot be used by this gateway: %w", x.man.Name, err)
	}
	slog.Info("the model is ready", "model", x.man.Name, "mib", x.bytes>>20, "took", time.Since(began).Round(time.Millisecond).String())
	s.n.events.Add(time.Now(), "model.loaded", map[string]any{"model": x.man.Name, "uid": uid, "bytes": x.bytes})
	return nil
}

// fetch opens the model's files: from the cache, the swarm, or the hub where the manifest's name is
// one of it, and compares them with the manifest.
func (s *shelf) fetch(ctx context.Context, x *shelved) (*Model, error) {
	uid := x.man.UID()
	f := s.model
	f.invited, f.Name, f.Peers = string(uid), x.man.Name, true
	if _, err := hub.Parse(x.man.Name); err == nil {
		f.Place = x.man.Name
	}
	s.n.share.about(uid) // one model is loaded at a time
	m, err := f.openPeers(ctx, s.cf, s.n.net, s.n.share.client, true)
	if err != nil {
		return nil, err
	}
	how := settling{invited: string(uid), choosable: true, block: -1, all: true}
	if err = m.settle(ctx, s.n.net.Directory, how); err == nil && m.Manifest.UID() != uid {
		err = fmt.Errorf("the files that were found are not those of the model %.12s", uid)
	}
	if err != nil {
		m.fetched.wrong(err)
		m.Close()
		return nil, err
	}
	s.mu.Lock()
	x.from = m.fetched
	s.mu.Unlock()
	return m, nil
}

// start loads the head and makes an engine.
func (s *shelf) start(ctx context.Context, x *shelved, m *Model) error {
	bytes, err := m.Checkpoint.HeadBytes(m.load)
	if err == nil {
		err = s.reserve(ctx, x, bytes)
	}
	if err != nil {
		m.Close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	e, err := s.n.engineOf(ctx, m, s.hf)
	if err != nil {
		cancel()
		m.fetched.wrong(err)
		m.Close()
		s.mu.Lock()
		s.used -= x.bytes
		s.mu.Unlock()
		return err
	}
	var audits sync.WaitGroup
	if s.hf.Audit > 0 {
		audits.Go(func() { e.Audit(ctx) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.model, x.engine, x.last = m, e, time.Now()
	x.stop = func() { cancel(); audits.Wait() }
	return nil
}

// view is what is known of the model's servers.
func (x *shelved) view() swarm.View {
	uid := x.man.UID()
	for _, v := range x.shelf.n.net.Directory.Views() {
		if v.Manifest.UID() == uid {
			return v
		}
	}
	return swarm.View{}
}

// capacity is the longest session that the model's servers take now.
func capacity(v swarm.View) int {
	if v.At.IsZero() {
		return 0
	}
	return health.Capacity(v, 1)
}

// named is an engine under the name that its gateway gives it.
type named struct {
	api.Engine
	name string
}

// Unwrap is the model by its own name.
func (e named) Unwrap() api.Engine { return e.Engine }

func (e named) Model() client.Model {
	m := e.Engine.Model()
	m.Name = e.name
	return m
}
