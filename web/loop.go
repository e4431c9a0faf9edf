package web

import (
	"context"
	"strings"
	"sync"
	"time"

	"whorl/store"
	"whorl/swarm"
)

// loop is the state of Run; one goroutine owns it.
type loop struct {
	*Site
	memory  memory
	known   known
	thinner thinner
	pending []store.Event // not in the store yet, oldest first
	pruned  time.Time
}

func newLoop(s *Site) *loop {
	return &loop{
		Site: s, memory: memory{s.cfg.Remember, map[swarm.UID]seenModel{}},
		thinner: thinner{s.cfg.Heartbeat, map[swarm.UID]store.Coverage{}, map[serverKey]store.Observation{}},
	}
}

// maxPending is how many events wait for a store that fails; then the oldest are lost.
const maxPending = 512

// Run samples the directory until ctx ends, and returns nil then; event streams end with
// it. It is called once.
func (s *Site) Run(ctx context.Context) error {
	defer close(s.ended)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	heard := make(chan struct{}, 1)
	if w, ok := s.deps.Store.(watcher); ok {
		all.Go(func() { s.watch(ctx, w, heard) })
	}
	l := newLoop(s)
	changes := s.deps.Changes
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			l.refresh(ctx)
			timer.Reset(s.cfg.Period)
		case _, open := <-changes:
			if !open {
				changes = nil
				continue
			}
			l.drain(ctx, changes, max(s.cfg.Debounce, s.cfg.Period/5-time.Since(s.now.Load().at)))
			l.refresh(ctx)
			timer.Reset(s.cfg.Period)
		case <-heard:
			l.loadPast(ctx)
		}
	}
}

// drain gives a burst of changes the time to end, so that it makes one refresh.
func (l *loop) drain(ctx context.Context, changes <-chan struct{}, wait time.Duration) {
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// watch tells of events that other gateways added. A lost connection is made again, ever
// more slowly.
func (s *Site) watch(ctx context.Context, w watcher, heard chan<- struct{}) {
	const first, most = time.Second, 30 * time.Second
	for pause := first; ctx.Err() == nil; pause = min(2*pause, most) {
		err := w.Watch(ctx, func(source swarm.PeerID) {
			pause = first
			if source == s.source() {
				return
			}
			select {
			case heard <- struct{}{}:
			default:
			}
		})
		if err != nil {
			s.log.Debug("dashboard: not told of other gateways' events", "error", err, "again_in", pause)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// source names this gateway in the history.
func (s *Site) source() swarm.PeerID {
	if s.deps.Node == nil {
		return "gateway"
	}
	return s.deps.Node.Status().Peer
}

// refresh samples the directory, shows it, and only then writes it down.
func (l *loop) refresh(ctx context.Context) {
	snap := l.look()
	l.publish(snap)
	if snap.crawl.Error == "" {
		l.pending = append(l.pending, l.known.changes(snap, l.cfg.Redundancy)...)
		l.pending = l.pending[max(0, len(l.pending)-maxPending):]
	}
	l.write(ctx, snap)
}

// look takes a snapshot.
func (l *loop) look() *snapshot {
	last := l.now.Load()
	began := time.Now()
	views := l.deps.Directory.Views()
	var err error
	if l.deps.Synced != nil {
		err = l.deps.Synced()
	}
	now := time.Now()
	snap := &snapshot{at: now, okAt: now, past: last.past, crawl: store.Crawl{Started: began, Duration: now.Sub(began)}}
	if err != nil {
		snap.crawl.Error, snap.okAt, snap.failures = err.Error(), last.okAt, last.failures+1
	}
	snap.views = l.memory.models(views, now)
	for _, v := range snap.views {
		snap.coverage = append(snap.coverage, store.Measure(v))
	}
	return snap
}

// publish shows a snapshot to all pages.
func (s *Site) publish(snap *snapshot) {
	last := s.now.Load()
	snap.seq, snap.next = last.seq+1, make(chan struct{})
	s.now.Store(snap)
	close(last.next)
}

// write puts a snapshot into the history. What fails is tried again with the next one.
func (l *loop) write(ctx context.Context, snap *snapshot) {
	sample := store.Sample{Source: l.source(), Crawl: snap.crawl, Events: l.pending}
	if snap.crawl.Error == "" {
		sample.Coverage, sample.Observations = l.thinner.sample(snap)
	}
	if err := l.use(ctx, func(ctx context.Context) error { return l.deps.Store.Write(ctx, sample) }); err != nil {
		l.failed(ctx, err)
		return
	}
	news := len(l.pending) > 0
	l.pending = nil
	l.thinner.written(snap, sample.Coverage, sample.Observations)
	if snap.at.Sub(l.pruned) >= l.cfg.PruneEvery {
		if err := l.use(ctx, func(ctx context.Context) error { return l.deps.Store.Prune(ctx, snap.at) }); err != nil {
			l.failed(ctx, err)
			return
		}
		l.pruned = snap.at
	}
	if p := &snap.past; news || p.err != nil || snap.at.Sub(p.at) >= l.cfg.Heartbeat {
		l.loadPast(ctx)
	}
}

// use gives the store its time.
func (l *loop) use(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.StoreTimeout)
	defer cancel()
	return f(ctx)
}

// failed shows that the history is not available, and keeps what was read before.
func (l *loop) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // Run ends
	}
	snap := *l.now.Load()
	p := &snap.past
	if p.err == nil {
		p.since = snap.at
		l.log.Warn("dashboard: history is not available; serving goes on", "error", strings.Join(strings.Fields(err.Error()), " ")) // drivers write several lines
	}
	p.err, p.errors = err, p.errors+1
	l.publish(&snap)
}

// loadPast reads what pages show of the history.
func (l *loop) loadPast(ctx context.Context) {
	snap := *l.now.Load()
	var p past
	err := l.use(ctx, func(ctx context.Context) (err error) {
		p, err = l.readPast(ctx, &snap)
		return err
	})
	if err != nil {
		l.failed(ctx, err)
		return
	}
	p.errors = snap.past.errors
	if snap.past.err != nil {
		l.log.Info("dashboard: history is available again", "after", snap.at.Sub(snap.past.since))
	}
	snap.past = p
	l.mu.Lock()
	l.charts = nil
	l.mu.Unlock()
	l.publish(&snap)
}

// trend is the window of the small lines, and its step.
const (
	trend     = 24 * time.Hour
	trendStep = 15 * time.Minute
)

func (l *loop) readPast(ctx context.Context, snap *snapshot) (p past, err error) {
	st, now := l.deps.Store, snap.at
	p = past{at: now, trends: map[swarm.UID][]store.Coverage{}, servers: map[serverKey]store.Server{}}
	if p.events, err = st.Events(ctx, store.EventQuery{Limit: maxPast}); err != nil {
		return p, err
	}
	for _, c := range snap.coverage {
		if p.trends[c.Model], err = st.Coverage(ctx, c.Model, store.Window{From: now.Add(-trend), To: now.Add(time.Second), Step: trendStep}); err != nil {
			return p, err
		}
	}
	servers, err := st.Servers(ctx, "", now.Add(-l.cfg.Remember))
	if err != nil {
		return p, err
	}
	for _, s := range servers {
		p.servers[serverKey{s.Model, s.Peer}] = s
	}
	crawls, err := st.Crawls(ctx, store.Window{From: now.Add(-time.Hour), To: now.Add(time.Second)})
	for _, c := range crawls {
		p.crawls++
		if c.Error != "" {
			p.failed++
		}
	}
	return p, err
}
