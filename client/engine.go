package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"whorl/client/audit"
	"whorl/client/chain"
	"whorl/client/plan"
	"whorl/client/sample"
	"whorl/model/tokenizer"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/codec"
	"whorl/swarm/health"
	"whorl/swarm/proof"
	"whorl/swarm/route"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// Directory says who serves the model.
type Directory interface {
	// View is the present snapshot; the first call may wait for it.
	View(ctx context.Context, uid swarm.UID) (swarm.View, error)
	// Signed is a peer's signed record, which introduces it to its predecessor.
	Signed(peer swarm.PeerID) ([]byte, bool)
	// Suspect says that a peer could not be reached.
	Suspect(peer swarm.PeerID)
}

// Dialer opens streams to peers.
type Dialer interface {
	Dial(ctx context.Context, peer swarm.PeerID, proto string) (wire.Stream, error)
}

// Head is the part of the model a client computes itself. Safe for concurrent use.
type Head interface {
	// Embed writes the rows of ids to dst, [len(ids)][hidden].
	Embed(dst []float32, ids []int32) error
	// Logits writes [n][vocab] from hidden rows [n][hidden] of the last block.
	Logits(dst, hidden []float32, n int, mode tensor.Activations) error
}

// Timeouts of a session; DefaultTimeouts has sensible ones.
type Timeouts struct {
	Dial    time.Duration // to open a stream
	Write   time.Duration // to hand one frame to the network
	Open    time.Duration // for a stage to answer Open or Route, beside the cache wait
	Probe   time.Duration // without progress, then stages are asked whether they live
	Answer  time.Duration // for a stage to answer that
	Step    time.Duration // without progress, then a stage that answers is given up too
	Recover time.Duration // to find a whole route again
	First   time.Duration // to find the first route: nothing is lost by saying no early
	Backoff time.Duration // before the second attempt at a route; doubles
}

// DefaultTimeouts leave a mute peer after 4 s and a slow one after 30 s.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Dial: 5 * time.Second, Write: 5 * time.Second, Open: 5 * time.Second, Probe: 2 * time.Second,
		Answer: 2 * time.Second, Step: 30 * time.Second, Recover: 30 * time.Second, First: 3 * time.Second, Backoff: 50 * time.Millisecond,
	}
}

// Config is what an Engine needs. Manifest, Head, Directory and Dialer are required.
type Config struct {
	Manifest  swarm.Manifest
	Vocab     int
	MaxLength int // longest session
	Head      Head
	Tokenizer *tokenizer.Tokenizer // nil: only ids can be used
	EOS       []int32              // ids that end an answer, beside the tokenizer's
	Directory Directory
	Dialer    Dialer
	// RTT is the round trip to a peer as last measured; nil or false if unknown.
	RTT     func(swarm.PeerID) (time.Duration, bool)
	Routing route.Params
	// Improve says how much better a chain must be before a running session changes to it; nil
	// has sessions stay on the chain that they have.
	Improve *route.Patience
	// Spread has sessions draw among servers that serve about as well, and counts those that
	// were just opened, so that clients do not all go to one server.
	Spread bool
	// Trust decides whom to avoid; nil for a book of its own.
	Trust Trust
	// Prefix is the network that a peer's address lies in, "" if it is unknown or says nothing,
	// as on loopback; nil knows none.
	Prefix func(swarm.PeerID) string
	// Audits say which sessions are computed again elsewhere while Audit runs.
	Audits trust.AuditRates
	// Self is this node's own peer if it holds blocks: what it computes needs no audit.
	Self swarm.PeerID
	// Auditor is this node's own peer, by whom canaries are made up; needed with Accuse.
	Auditor swarm.PeerID
	// Accuse, if set, hears what may be told to other nodes of a server that audits proved to lie:
	// nothing of any user's session. Safe for concurrent use.
	Accuse func(proof.Accusation)
	// Draw gives numbers from [0, 1) that decide what is audited by whom; nil for random ones.
	// Safe for concurrent use.
	Draw     func() float64
	Chunks   plan.ChunkParams
	Timeouts Timeouts
	// Residual is how rows of all sessions are held between blocks. Bfloat16 takes half the bytes
	// on every way, and gives other numbers than float32: the same ones in every layout.
	Residual tensor.Residual
	// Verify checks signatures of peers; nil: no session may ask for receipts.
	Verify proof.Verify
	// JournalBytes is the memory a session may spend on rows for fail-over; 0 keeps
	// none, and a fail-over then recomputes everything.
	JournalBytes int64
	// HopCost is what a frame costs beside compute, for choosing chunk sizes.
	HopCost time.Duration
	Log     *slog.Logger
}

// DefaultConfig has everything but the required fields.
func DefaultConfig() Config {
	return Config{
		Routing: route.DefaultParams(), Audits: trust.DefaultAuditRates(), Chunks: plan.DefaultChunkParams(),
		Timeouts: DefaultTimeouts(), JournalBytes: 1 << 30, HopCost: time.Millisecond, Log: slog.Default(),
	}
}

// Engine generates with one model through a swarm. Safe for concurrent use.
type Engine struct {
	cfg     Config
	uid     swarm.UID
	created time.Time
	reading *budget.Pool // bytes of large frames while they are read
	trust   Trust
	audits  audits
	forms   forms
	loads   loads

	mu       sync.Mutex // guards all below
	view     swarm.View
	sessions map[*Session]struct{}
	underway map[swarm.PeerID]int // passes at each server
	detours  map[pair]time.Time   // servers of which the first cannot reach the second: when it was found
}

// New makes an engine.
func New(cfg Config) (*Engine, error) {
	switch {
	case cfg.Head == nil || cfg.Directory == nil || cfg.Dialer == nil:
		return nil, errors.New("client: head, directory and dialer are required")
	case cfg.Vocab < 1 || cfg.MaxLength < 1:
		return nil, fmt.Errorf("client: vocabulary of %d and sessions of %d positions", cfg.Vocab, cfg.MaxLength)
	}
	if err := cfg.Manifest.Validate(); err != nil {
		return nil, err
	}
	if cfg.Accuse != nil && (cfg.Auditor == "" || cfg.Verify == nil) {
		return nil, errors.New("client: Config.Accuse needs Auditor and Verify")
	}
	if cfg.Trust == nil {
		cfg.Trust = trust.NewBook(trust.DefaultParams())
	}
	return &Engine{
		cfg: cfg, uid: cfg.Manifest.UID(), created: time.Now(),
		trust: cfg.Trust, audits: audits{more: make(chan struct{}, 1)}, sessions: map[*Session]struct{}{}, detours: map[pair]time.Time{}, underway: map[swarm.PeerID]int{},
		reading: budget.New("bytes of frames that are being read", int64(max(readingBytes, 8*wire.RowsLimit(4*cfg.Manifest.Hidden)))),
	}, nil
}

// readingBytes is what large frames of all servers may take while they are read.
const readingBytes = 64 << 20

// residual is the mode as it stands in an Open, where the default is not said.
func (e *Engine) residual() string {
	if e.cfg.Residual == tensor.ResidualF32 {
		return ""
	}
	return e.cfg.Residual.String()
}

// codec is that of the rows of all sessions.
func (e *Engine) codec() uint8 { return codec.Of(e.cfg.Residual) }

// packs tells whether a server reads packed rows, as far as is known.
func (e *Engine) packs(p swarm.PeerID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.view.Server(p)
	return ok && r.Features&wire.FeaturePacked != 0
}

// Model says what is served.
func (e *Engine) Model() Model {
	return Model{Name: e.cfg.Manifest.Name, UID: e.uid, Manifest: e.cfg.Manifest, Vocab: e.cfg.Vocab, MaxLength: e.cfg.MaxLength, Created: e.created}
}

// Open starts a session: a route is found and cache is reserved on every stage of it.
func (e *Engine) Open(ctx context.Context, o SessionOptions) (*Session, error) {
	if err := o.Prompts.validate(&e.cfg.Manifest); err != nil {
		return nil, err
	}
	if o.MaxLength < 1 || o.MaxLength > e.cfg.MaxLength-o.Prompts.rows() {
		return nil, errNoRoom(o.MaxLength, e.cfg.MaxLength-o.Prompts.rows())
	}
	o.MaxLength += o.Prompts.rows()
	view, adapter, err := e.viewFor(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Beams < 0 || o.Beams > sample.MaxBeams {
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "num_beams is %d: want 1 to %d", o.Beams, sample.MaxBeams)
	}
	if most := e.room(view, e.all(), o); o.MaxLength > most {
		return nil, errNoRoom(o.MaxLength, most)
	}
	if o.Receipts && e.cfg.Verify == nil {
		return nil, errors.New("client: receipts need Config.Verify")
	}
	if o.Verify < 0 || o.Verify > MaxVerify {
		return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "whorl_verify is %d: want 1 to %d", o.Verify, MaxVerify)
	}
	s := e.newSession(o, e.all(), adapter)
	if o.Verify > 1 {
		s.chains = newGroup(s)
		err = s.chains.begin(ctx)
	} else {
		err = s.begin(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// all is the model's blocks.
func (e *Engine) all() swarm.Span { return swarm.Span{Start: 0, End: e.cfg.Manifest.Blocks} }

// newSession makes a session through some blocks that has no chain yet.
func (e *Engine) newSession(o SessionOptions, span swarm.Span, adapter *swarm.Adapter) *Session {
	s := &Session{
		e: e, opt: o, span: span, adapter: adapter, opened: time.Now(), moved: time.Now(), improved: time.Now(), wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour),
		audited: e.auditing(), over: make(chan struct{}), stages: map[int]*stage{}, journals: make([]*journal, e.cfg.Manifest.Blocks),
	}
	s.timer.Stop()
	rand.Read(s.id[:])
	if o.Receipts {
		rand.Read(s.nonce[:])
	}
	t := &e.cfg.Timeouts
	s.machine = chain.New(chain.Params{
		Blocks: e.cfg.Manifest.Blocks, Start: span.Start, MaxLength: o.MaxLength, Open: t.Open, Wait: o.Wait, Probe: t.Probe, Answer: t.Answer, Step: t.Step,
		Recover: t.Recover, First: t.First, Backoff: t.Backoff, Pages: int(e.cfg.JournalBytes / int64(max(1, o.Verify, o.beside)) / e.pageBytes()), PageRows: pageRows, Frame: s.beams.until,
		Around: e.detoured,
	})
	s.prompts = o.Prompts.named(e.cfg.Manifest.Blocks)
	open := s.opening()
	s.mode = open.SessionMode().Hash()
	e.mu.Lock()
	e.sessions[s] = struct{}{}
	e.mu.Unlock()
	return s
}

// begin finds the session's chain and reserves cache on all of it.
func (s *Session) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drive(ctx, chain.Event{Kind: chain.Advance, Chunk: s.e.largestChunk()})
}

// viewFor is the present view of the servers that a session with such options may use.
func (e *Engine) viewFor(ctx context.Context, o SessionOptions) (swarm.View, *swarm.Adapter, error) {
	view, err := e.cfg.Directory.View(ctx, e.uid)
	if err != nil {
		return swarm.View{}, nil, err
	}
	adapter, err := e.adapter(view, o.Adapter)
	view, _, _ = e.trusted(holding(view, adapter))
	return view, adapter, err
}

// room is the longest session through some blocks that the servers of a view could hold. Where
// one of them has no server that is another failure: then it is the model's limit.
func (e *Engine) room(view swarm.View, span swarm.Span, o SessionOptions) int {
	if view.Manifest.Blocks == 0 {
		return e.cfg.MaxLength
	}
	if most := health.CapacityOf(view, span, o.sequences()); most > 0 {
		return min(most, e.cfg.MaxLength)
	}
	return e.cfg.MaxLength
}

// Room is the longest session, in positions, that the servers of now could hold with such
// options when nobody else uses them: at most the model's limit, which it is also where
// nothing is known.
func (e *Engine) Room(ctx context.Context, o SessionOptions) int {
	view, _, err := e.viewFor(ctx, o)
	if err != nil {
		return e.cfg.MaxLength
	}
	return max(0, e.room(view, e.all(), o)-o.Prompts.rows())
}

// RoomError says that no wait would make a session fit.
type RoomError struct{ Asked, Most int } // positions

// Error has the words that clients of Petals look for.
func (e *RoomError) Error() string {
	return fmt.Sprintf("Cannot allocate KV cache for %d tokens, max = %d", e.Asked, e.Most)
}

func errNoRoom(tokens, most int) error {
	return swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "%w", &RoomError{tokens, most})
}

func (e *Engine) forget(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s)
}

// Sessions lists the open sessions, oldest first.
func (e *Engine) Sessions() []swarm.SessionStatus {
	e.mu.Lock()
	open := make([]*Session, 0, len(e.sessions))
	for s := range e.sessions {
		if s.group == nil {
			open = append(open, s)
		}
	}
	e.mu.Unlock()
	out := make([]swarm.SessionStatus, len(open))
	for i, s := range open {
		out[i] = s.Status()
	}
	slices.SortFunc(out, func(a, b swarm.SessionStatus) int {
		if c := a.Opened.Compare(b.Opened); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// Kill ends a session by its id; false if there is none.
func (e *Engine) Kill(id string) bool {
	e.mu.Lock()
	var found *Session
	for s := range e.sessions {
		if s.ID() == id {
			found = s
		}
	}
	e.mu.Unlock()
	if found == nil {
		return false
	}
	found.end(swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "Session was ended by the operator and does not exist any more"))
	return true
}

// plan chooses servers for a piece of the model, among those that hold an adapter if one
// is given, and not among some. q lacks what the engine knows: view, whom to avoid, and round
// trips.
func (e *Engine) plan(ctx context.Context, q route.Query, adapter *swarm.Adapter, without func(swarm.PeerID) bool) ([]chain.Hop, error) {
	q, never, err := e.query(ctx, q, adapter)
	if err != nil {
		return nil, err
	}
	found, err := route.Plan(q.Without(without))
	if err != nil {
		return nil, ofAvoided(ofAdapter(err, adapter), never)
	}
	return e.hops(q.View, found), nil
}

// query completes a query with what the engine knows. never lists the servers that it left out
// since they must not be asked.
func (e *Engine) query(ctx context.Context, q route.Query, adapter *swarm.Adapter) (route.Query, []barred, error) {
	view, err := e.cfg.Directory.View(ctx, e.uid)
	if err != nil {
		return q, nil, err
	}
	if view.Manifest.Blocks == 0 {
		view.Manifest = e.cfg.Manifest
	}
	view = e.loads.into(view, time.Now())
	e.mu.Lock()
	e.view = view
	e.mu.Unlock()
	q.RTT, q.Params, q.Around, q.Mine = e.cfg.RTT, e.cfg.Routing, e.detoured, e.mine()
	left, avoid, never := e.trusted(holding(view, adapter))
	q.View, q.Avoid = left, avoid
	e.audits.mu.Lock()
	links := e.audits.disputes.Links()
	e.audits.mu.Unlock()
	q.Apart = func(from, to swarm.PeerID) bool { return links[audit.Link{From: from, To: to}] }
	return q, never, nil
}

// hops are those of a chain, with what their servers announce.
func (e *Engine) hops(view swarm.View, c route.Chain) []chain.Hop {
	out := make([]chain.Hop, len(c.Hops))
	for i, h := range c.Hops {
		out[i] = chain.Hop{Hop: h, Decode: perRow(h, inferenceRate(view, h.Peer, e.cfg.Routing.DefaultRPS)), Prefill: perRow(h, forwardRate(view, h.Peer))}
	}
	return out
}

func (e *Engine) lastView() swarm.View {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view
}

// largestChunk is the most rows that any frame may have.
func (e *Engine) largestChunk() int {
	c := &e.cfg.Chunks
	return c.Chunk(c.Max, 1, 4*e.cfg.Manifest.Hidden, 0, 0)
}

// defaultForward is assumed of servers that did not measure prefill, in tokens per second
// through one block.
const defaultForward = 1000

// forwardRate is the prefill speed of the slowest stage of a route, in tokens per second.
func (e *Engine) forwardRate(hops []swarm.Hop) float64 {
	view := e.lastView()
	slowest := float64(defaultForward)
	for i, h := range hops {
		if rate := forwardRate(view, h.Peer) / float64(h.Span.Len()); i == 0 || rate < slowest {
			slowest = rate
		}
	}
	return slowest
}

// forwardRate is what a server says of prompts, in tokens per second through one block.
func forwardRate(v swarm.View, p swarm.PeerID) float64 {
	if r, ok := v.Server(p); ok && r.Rates.ForwardRPS != nil && *r.Rates.ForwardRPS > 0 {
		return *r.Rates.ForwardRPS
	}
	return defaultForward
}

// inferenceRate is what a server says of decoding, in tokens per second through one block.
func inferenceRate(v swarm.View, p swarm.PeerID, unknown float64) float64 {
	if r, ok := v.Server(p); ok && r.Rates.InferenceRPS != nil && *r.Rates.InferenceRPS > 0 {
		return *r.Rates.InferenceRPS
	}
	return unknown
}

// slowestRow bounds what a server may announce that it takes for a row.
const slowestRow = time.Minute

// perRow is the time of a row through a hop at a rate.
func perRow(h swarm.Hop, rate float64) time.Duration {
	return time.Duration(min(float64(h.Span.Len())/rate, slowestRow.Seconds()) * float64(time.Second))
}
