package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"whorl/content"
	"whorl/server/blocks"
	"whorl/server/sched"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/wire"
)

// ErrDryRun ends Run when only a measurement was asked for.
var ErrDryRun = errors.New("throughput measured, as asked by --throughput dry-run")

// Server holds a span and computes it for sessions. Make one with New, then call Run once;
// the other methods may be called from anywhere at any time.
type Server struct {
	cfg      Config
	given    Queues // as configured; those of cfg are complete
	deps     Deps
	uid      swarm.UID
	manifest content.Hash // that uid is
	log      *slog.Logger
	// edition counts changes of what the server is; published is the last that was announced. mu
	// guards both.
	edition, published int

	adapted  int           // counts changes of adapters
	adapters []heldAdapter // in the Loader's order
	metrics  *metrics
	started  time.Time
	ready    chan struct{} // closed when online
	publish  chan struct{} // the record should be announced anew
	freed    chan struct{} // some cache has become free
	orders   chan order    // for the goroutine that loads and unloads
	broke    chan struct{} // a container has failed
	frames   pool[frame]
	packets  pool[packet]
	notary   *notary
	reading  atomic.Pointer[budget.Pool] // bytes of large frames while they are read
	passing  atomic.Pointer[passBudgets]
	turns    turns

	choosing sync.Mutex // guards choices.past; the rest of it is of one goroutine at a time
	choices  choices

	mu sync.Mutex // guards all below, and all protocol state of sessions
	lifecycle
	holdings
	roster
	arrivals
	backlog
}

// lifecycle is what a server says it does.
type lifecycle struct {
	state    swarm.State
	told     said        // last announced
	stopping bool        // Run is over as soon as no session is left
	trouble  string      // why it does not serve; "" if nothing is wrong
	crashes  []time.Time // lately; only who loads and unloads looks at them
	drained  bool        // the operator, or the end of the process, wants no sessions
	vacating bool        // it drains since memory has no room for a move otherwise
	memory   shortage
	shedOnes uint64 // sessions parked for want of memory
}

// holdings are what it has loaded, and what that is worth.
type holdings struct {
	*container              // the one that takes sessions; never nil
	left       []*container // those that are left
	loading    map[int]swarm.BlockStatus
	rates      swarm.Rates
	offered    float64 // throughput as measured or declared
	figures    figures
	found      *blocks.Rates // as measured last, announced or not; nil: never
	busy       busy
	nextRTT    map[swarm.PeerID]float64
	next       *swarm.Intent // where it means to go; nil: it stays
	placement  *swarm.Placement
	moves      []swarm.Move
	most       int        // blocks that memory has room for
	room       MemoryPlan // as it was when the present container was loaded
}

// roster are its sessions.
type roster struct {
	keys    sched.Session
	byKey   map[sched.Session]*session
	byID    map[wire.SessionID][]*session
	killed  map[wire.SessionID]time.Time // ended by the operator: not taken again for a while
	changed broadcast                    // of sessions and their routes
	ids     uint64                       // of frames
	batch   batches
}

// arrivals are push streams that came before their session.
type arrivals struct {
	hellos map[swarm.PeerID]int // push streams that wait for their session
	early  int                  // all of them
}

// backlog is what waits for compute or for peers, of all sessions, in bytes.
type backlog struct {
	queued   int // bytes of frames of all sessions
	journals int // bytes of journal in all outboxes
	outputs  int // bytes of outputs to clients and successors
}

// New makes a server that does nothing yet.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Self == "" || deps.Loader == nil || deps.Directory == nil || deps.Dialer == nil {
		return nil, errors.New("server: own peer id, loader, directory and dialer are required")
	}
	if deps.Log == nil {
		deps.Log = slog.Default()
	}
	s := &Server{
		cfg: cfg, deps: deps, uid: cfg.Manifest.UID(), log: deps.Log, started: time.Now(),
		ready: make(chan struct{}), publish: make(chan struct{}, 1), freed: make(chan struct{}, 1), orders: make(chan order), broke: make(chan struct{}, 1),
		holdings: holdings{container: newContainer(), loading: map[int]swarm.BlockStatus{}},
		roster: roster{
			byKey: map[sched.Session]*session{}, byID: map[wire.SessionID][]*session{}, killed: map[wire.SessionID]time.Time{},
		},
		arrivals: arrivals{hellos: map[swarm.PeerID]int{}},
	}
	for _, a := range deps.Loader.Adapters() {
		s.adapters = append(s.adapters, heldAdapter{Adapter: swarm.Adapter{Name: a.Name, Digest: a.Digest}})
	}
	s.choices.rng, s.choices.holes = rand.New(rand.NewPCG(cfg.Seed, 0)), map[int]time.Time{}
	s.manifest, _ = s.uid.Hash() // a UID of our own making is one
	s.notary = newNotary(s)
	s.given = cfg.Queues
	s.budgets(minQueues, minPasses)
	var err error
	s.metrics, err = newMetrics(s, deps.Metrics)
	return s, err
}

// clock is the time that the step queue goes by.
func (s *Server) clock() time.Duration { return time.Since(s.started) }

// Ready is closed once the server is ONLINE.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// setState changes the announced state.
func (s *Server) setState(state swarm.State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	poke(s.publish)
}

// openLocked takes sessions, unless the operator wants none.
func (s *Server) openLocked() {
	s.state = swarm.Online
	if s.drained {
		s.state = swarm.Draining
	}
}

// Drain stops taking sessions, and a server that is not online yet begins none. Those that run may go on for so long (0: Timeouts.Drain) and are
// told so, that they can move before; those that wait for cache are refused.
func (s *Server) Drain(within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = true // a move that drains it ends, and this does not
	if s.state != swarm.Online {
		return
	}
	if within == 0 {
		within = s.cfg.Timeouts.Drain
	}
	s.state = swarm.Draining
	s.leaveLocked(s.container, time.Now().Add(within))
	poke(s.publish)
}

// hurry has sessions that an operator gave longer end as at any stop.
func (s *Server) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by := time.Now().Add(s.cfg.Timeouts.Drain); s.leaves.After(by) {
		s.leaveLocked(s.container, by)
	}
}

// Emptied waits until no session and no pass is left; tell hears how many are. An end of ctx ends the wait.
func (s *Server) Emptied(ctx context.Context, tell func(sessions int)) error {
	return s.noneLeft(ctx, func() int { return len(s.byKey) + len(s.container.trains) }, tell)
}

// noneLeft waits until what countLocked counts is gone; tell hears how many are left.
func (s *Server) noneLeft(ctx context.Context, countLocked func() int, tell func(left int)) error {
	for {
		s.mu.Lock()
		n, next := countLocked(), s.changed.next()
		s.mu.Unlock()
		if tell(n); n == 0 {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Resume takes sessions again after a Drain, unless the server is being stopped.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = false
	if s.state == swarm.Draining && !s.stopping && !s.vacating {
		s.state, s.leaves = swarm.Online, time.Time{}
		poke(s.publish)
	}
}

// Kill ends a session in the name of the operator and refuses it for a while; its client
// is told to go elsewhere. False if there is none of that id.
func (s *Server) Kill(id string) bool {
	var sid wire.SessionID
	if sid.UnmarshalText([]byte(id)) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byID[sid]
	if len(list) == 0 {
		return false
	}
	s.killed[sid] = time.Now()
	for _, x := range append([]*session(nil), list...) {
		x.finishLocked(errKilled(s.deps.Self))
	}
	return true
}

func errKilled(self swarm.PeerID) *swarm.Error {
	return swarm.Errorf(swarm.CodeCancelled, swarm.Elsewhere, "the operator of server %s ended the session", self.Short())
}

// poke wakes the reader of a channel of capacity one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// broadcast wakes all who wait for a change of something guarded by the same lock.
type broadcast struct{ c chan struct{} }

// next is closed at the next change.
func (b *broadcast) next() <-chan struct{} {
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *broadcast) wake() {
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// pool keeps buffers for reuse, small ones (of decodes) apart from large ones.
type pool[T any] struct {
	small, large sync.Pool
	out          atomic.Int64 // buffers in use: 0 when no session is left
}

// smallRows is the size in bytes up to which a buffer counts as small.
const smallRows = 128 << 10

func (p *pool[T]) of(bytes int) *sync.Pool {
	if bytes <= smallRows {
		return &p.small
	}
	return &p.large
}

func (p *pool[T]) get(bytes int) *T {
	p.out.Add(1)
	if v, _ := p.of(bytes).Get().(*T); v != nil {
		return v
	}
	return new(T)
}

func (p *pool[T]) put(v *T, bytes int) {
	p.out.Add(-1)
	p.of(bytes).Put(v)
}

// pop takes the first out of a queue, which keeps nothing of it alive.
func pop[T any](q *[]T) T {
	first := (*q)[0]
	n := copy(*q, (*q)[1:])
	clear((*q)[n:])
	*q = (*q)[:n]
	return first
}

// blockStatus is how operators see a loaded block.
func blockStatus(b blocks.Info, state string) swarm.BlockStatus {
	return swarm.BlockStatus{Index: b.Index, State: state, Bytes: b.Bytes, Load: b.Load, Digest: b.Root}
}
