package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/internal/sysmem"
	"whorl/server/blocks"
	"whorl/server/kvcache"
	"whorl/swarm"
	"whorl/swarm/codec"
	"whorl/swarm/wire"
	"whorl/tensor"
)

// The tests run in synctest bubbles: time is virtual, and a goroutine that outlives its
// test fails it.

const (
	hidden     = 4
	modelSize  = 6
	cachePages = 16
)

var manifest = swarm.Manifest{Name: "fake", Blocks: modelSize, Hidden: hidden,
	Class: swarm.Class{ConfigHash: "h", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "fake"}}

// fakeEngine has an arithmetic in which every row depends on the rows before it, read
// through the session's pages: a lost, doubled, misplaced or foreign row changes the bits.
type fakeEngine struct {
	promptsSeen
	used       [][]int // adapters of the steps
	start, end int
	kv         [][]float32   // [layer][page*PageTokens+offset]
	hold       chan struct{} // if not nil, a step takes one value first
	began      chan int      // if not nil, hears of every step's rows before hold
	fail       error
	panics     bool
	takes      time.Duration
	poison     bool       // outputs are not finite
	failCopy   chan error // if not nil, the second page of a copy fails with what it gives
	batches    []int
	ropes      []tensor.Rope // of the first sequence of each step
	closed     bool
	stripped   []swarm.Span
	freed      [][]int32 // pages given back
}

func (e *fakeEngine) Strip(start, end int) {
	e.stripped = append(e.stripped, swarm.Span{Start: start, End: end})
}

func (e *fakeEngine) FreePages(pages []int32) {
	e.freed = append(e.freed, pages)
	for _, kv := range e.kv {
		for _, p := range pages {
			clear(kv[int(p)*tensor.PageTokens:][:tensor.PageTokens])
		}
	}
}

func newFakeEngine(start, end, pages int) *fakeEngine {
	e := &fakeEngine{start: start, end: end, kv: make([][]float32, end-start)}
	for i := range e.kv {
		e.kv[i] = make([]float32, pages*tensor.PageTokens)
	}
	return e
}

func (e *fakeEngine) Step(b *tensor.Batch, use []int, from, to int, mode tensor.Mode, in, out []float32) error {
	if e.began != nil {
		e.began <- len(b.Rows)
	}
	if e.hold != nil {
		<-e.hold
	}
	time.Sleep(e.takes)
	if e.panics {
		panic("a fault of the device")
	}
	if e.fail != nil {
		return e.fail
	}
	e.batches = append(e.batches, len(b.Rows))
	e.used = append(e.used, slices.Clone(use))
	e.ropes = append(e.ropes, b.Seqs[0].Rope)
	copy(out, in)
	for block := from; block < to; block++ {
		kv := e.kv[block-e.start]
		for i, r := range b.Rows {
			row := out[i*hidden : (i+1)*hidden]
			pages := b.Seqs[r.Seq].Pages
			slot := func(p int) *float32 {
				return &kv[int(pages[p/tensor.PageTokens])*tensor.PageTokens+p%tensor.PageTokens]
			}
			*slot(int(r.Pos)) = row[0] + row[1]
			mix := float32(0)
			for p := max(0, int(r.Pos)-40); p <= int(r.Pos); p++ { // what lies further back is rounded away
				mix = mix*0.5 + *slot(p)
			}
			for c := range row {
				row[c] = row[(c+1)%hidden]*0.5 + mix*0.25 + float32(block)*0.125 + float32(mode.Act)
			}
		}
	}
	if e.poison {
		out[0] = float32(math.NaN())
	}
	return nil
}

// fakeRope stands for the rotation of sessions of a length.
type fakeRope int

func (fakeRope) RotaryDim() int { return 2 }

func (e *fakeEngine) SessionRope(length int) (tensor.Rope, error) {
	if length == unropable {
		return nil, errors.New("no such rope")
	}
	return fakeRope(length), nil
}

// unropable is a session length for which the fake engine has no rotation.
const unropable = 13

func (e *fakeEngine) Blocks() []blocks.Info {
	var out []blocks.Info
	for b := e.start; b < e.end; b++ {
		out = append(out, blocks.Info{Index: b, Bytes: 1000, Root: fmt.Sprint("root ", b)})
	}
	return out
}

func (e *fakeEngine) CopyPages(dst, src []int32) error {
	if e.failCopy != nil {
		for _, kv := range e.kv {
			copy(kv[dst[0]*tensor.PageTokens:][:tensor.PageTokens], kv[src[0]*tensor.PageTokens:])
		}
		return <-e.failCopy
	}
	for _, kv := range e.kv {
		for i := range dst {
			copy(kv[dst[i]*tensor.PageTokens:][:tensor.PageTokens], kv[src[i]*tensor.PageTokens:])
		}
	}
	return nil
}

func (e *fakeEngine) PageBytes() int64 { return int64(e.end-e.start) * 64 }

func (e *fakeEngine) Measure(context.Context, time.Duration) (blocks.Rates, error) {
	return blocks.Rates{Inference: 100, Forward: 700}, nil
}

func (e *fakeEngine) Close() error { e.closed = true; return nil }

// reference computes rows 0..n-1 of a session through blocks in one go.
func reference(rows []float32, from, to int) []float32 {
	n := len(rows) / hidden
	pages := kvcache.PagesFor(n)
	e := newFakeEngine(from, to, pages)
	b := &tensor.Batch{Seqs: []tensor.KVView{{}}}
	for p := range pages {
		b.Seqs[0].Pages = append(b.Seqs[0].Pages, int32(p))
	}
	for p := range n {
		b.Rows = append(b.Rows, tensor.Row{Pos: int32(p)})
	}
	out := make([]float32, len(rows))
	e.Step(b, nil, from, to, tensor.Mode{}, rows, out)
	return out
}

// input makes n rows of a session with the given seed.
func input(seed, n int) []float32 {
	out := make([]float32, n*hidden)
	for i := range out {
		out[i] = float32((i*i*7+i*3+seed*11)%23) - 11
	}
	return out
}

var fakeSizes = blocks.Sizes{Block: 1000, Token: 1, Workspace: 10}

type fakeLoader struct {
	passes   *passWorld
	adapters []blocks.Adapter
	engine   *fakeEngine
	sizes    blocks.Sizes
	err      error
	failOnce error
	takes    time.Duration
	kept     []Engine // what later loads were to share blocks with
}

func (l *fakeLoader) Adapters() []blocks.Adapter { return l.adapters }

func (l *fakeLoader) AddAdapter(_ context.Context, e Engine, a *blocks.AdapterFile, fits func(int64) error) (int, error) {
	if err := fits(1000); err != nil {
		return 0, err
	}
	time.Sleep(l.takes)
	named := blocks.Adapter{Name: a.Name, Digest: a.Digest}
	if use := slices.Index(l.adapters, blocks.Adapter{}); use >= 0 {
		l.adapters[use] = named
		return use, nil
	}
	l.adapters = append(l.adapters, named)
	return len(l.adapters) - 1, nil
}

func (l *fakeLoader) RemoveAdapter(_ Engine, use int) int64 {
	l.adapters[use] = blocks.Adapter{}
	return 1000
}

func (l *fakeLoader) Sizes() blocks.Sizes { return l.sizes }

func (l *fakeLoader) Load(_ context.Context, start, end, pages int, keep Engine, loaded func(blocks.Info)) (Engine, error) {
	if err := cmp.Or(l.err, l.failOnce); err != nil {
		l.failOnce = nil
		return nil, err
	}
	time.Sleep(l.takes)
	if l.engine.end > 0 { // a move: the old one is still in use
		l.kept = append(l.kept, keep)
		e := newFakeEngine(start, end, pages)
		l.engine = e
		for _, b := range e.Blocks() {
			loaded(b)
		}
		return e, nil
	}
	l.engine.start, l.engine.end = start, end
	l.engine.kv = newFakeEngine(start, end, pages).kv
	for _, b := range l.engine.Blocks() {
		loaded(b)
	}
	return l.engine, nil
}

// world is a few servers whose dials find each other.
type world struct {
	t       *testing.T
	mu      sync.Mutex // guards all below
	servers map[swarm.PeerID]*node
	records map[swarm.PeerID][]swarm.Record
	dialled []swarm.PeerID
	hear    func(swarm.Record) error // if not nil, is told of announcements first
	tasks   sync.WaitGroup
	ctx     context.Context
	end     context.CancelFunc
}

type node struct {
	log io.Writer // nil: nowhere
	*Server
	engine    *fakeEngine
	loader    *fakeLoader
	stop      context.CancelFunc
	done      chan error
	metricsTo prometheus.Registerer
	adapters  []blocks.Adapter
	pinger    Pinger
	signer    Signer
	speeds    Speeds
	memory    func() (sysmem.Pressure, error)
	loading   func() *swarm.Loading
	// accept, if set, takes push streams in place of the server.
	accept func(from swarm.PeerID, s wire.Stream)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, servers: map[swarm.PeerID]*node{}, records: map[swarm.PeerID][]swarm.Record{}}
	w.ctx, w.end = context.WithCancel(t.Context())
	return w
}

// close ends every stream and server and waits for all of them.
func (w *world) close() {
	w.end()
	for _, n := range w.servers {
		if n.stop != nil {
			n.stop()
			<-n.done
		}
	}
	w.tasks.Wait()
}

func (w *world) View(_ context.Context, uid swarm.UID) (swarm.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []swarm.Record
	for _, list := range w.records {
		all = append(all, list[len(list)-1])
	}
	return swarm.NewView(manifest, time.Now(), all), nil
}

func (w *world) Announce(_ context.Context, r swarm.Record) error {
	if w.hear != nil {
		if err := w.hear(r); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Issued, r.Seq = time.Now().UnixMilli(), uint64(len(w.records[r.Peer])+1)
	r.Expires = r.Issued + 60_000
	w.records[r.Peer] = append(w.records[r.Peer], r)
	return r.Validate()
}

// Accept takes "record of PEER" for a signed record.
func (w *world) Accept(b []byte) (*swarm.Record, error) {
	var p swarm.PeerID
	if n, _ := fmt.Sscanf(string(b), "record of %s", &p); n != 1 {
		return nil, errors.New("bad signature")
	}
	return &swarm.Record{Peer: p}, nil
}

type fakeDialer struct {
	w    *world
	from swarm.PeerID
}

func (d fakeDialer) Dial(ctx context.Context, to swarm.PeerID, proto string) (wire.Stream, error) {
	d.w.mu.Lock()
	d.w.dialled = append(d.w.dialled, to)
	n := d.w.servers[to]
	d.w.mu.Unlock()
	if n == nil {
		return nil, errors.New("connection refused")
	}
	a, b := wire.Pipe()
	d.w.tasks.Go(func() {
		if n.accept != nil {
			n.accept(d.from, b)
			return
		}
		n.ServePush(d.w.ctx, d.from, b)
	})
	return a, nil
}

// serve starts a server that holds a span and is online; change may be nil.
func (w *world) serve(id swarm.PeerID, span swarm.Span, change func(*Config, *node)) *node {
	w.t.Helper()
	n := w.start(id, func(c *Config, n *node) {
		c.Span = &span
		if change != nil {
			change(c, n)
		}
	})
	select {
	case <-n.Ready():
	case err := <-n.done:
		w.t.Fatalf("server %s ended: %v", id, err)
	}
	return n
}

// start runs a server.
func (w *world) start(id swarm.PeerID, change func(*Config, *node)) *node {
	w.t.Helper()
	n := &node{engine: &fakeEngine{}, done: make(chan error, 1), signer: &fakeSigner{id: id}}
	cfg := DefaultConfig()
	cfg.Manifest, cfg.Memory, cfg.Spare, cfg.CacheToken = manifest, 1<<28, 0, cachePages*tensor.PageTokens
	cfg.PeerCache = 1 // tests of shares say so
	n.loader = &fakeLoader{engine: n.engine, sizes: fakeSizes}
	if change != nil {
		change(&cfg, n)
	}
	n.loader.adapters = n.adapters
	var err error
	n.Server, err = New(cfg, Deps{
		Self: id, Loader: n.loader, Directory: w, Loading: n.loading, Dialer: fakeDialer{w, id}, Metrics: n.metricsTo, Pinger: n.pinger, Signer: n.signer, Speeds: n.speeds, Memory: n.memory, Log: slog.New(slog.NewTextHandler(cmp.Or[io.Writer](n.log, io.Discard), nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.ctx))
	n.stop = stop
	w.mu.Lock()
	w.servers[id] = n
	w.mu.Unlock()
	go func() {
		n.done <- n.Run(ctx)
		close(n.done)
	}()
	return n
}

// idle checks that a server holds nothing of any session.
func (n *node) idle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	items, rows := n.queue.Len()
	if used := n.cache.Stats().UsedTokens; used != 0 || len(n.byKey) != 0 || len(n.byID) != 0 || items != 0 || rows != 0 || n.early != 0 || len(n.hellos) != 0 {
		t.Errorf("left behind: %d tokens of cache, %d sessions, %d items with %d rows, %d early push streams", used, len(n.byKey), items, rows, n.early)
	}
	if f, p := n.frames.out.Load(), n.packets.out.Load(); f != 0 || p != 0 || n.queued != 0 || n.journals != 0 {
		t.Errorf("%d buffers of frames and %d of packets are not in their pools, %d bytes of frames and %d of journal are counted", f, p, n.queued, n.journals)
	}
}

// peer is a scripted end of a stream: a client's, or a predecessor's.
type peer struct {
	t      *testing.T
	stream wire.Stream
	r      *wire.Reader
	id     wire.SessionID
	epoch  uint32
	step   uint64
}

// dial opens a control stream to a server.
func (w *world) dial(n *node, from swarm.PeerID) *peer {
	a, b := wire.Pipe()
	w.tasks.Go(func() { n.ServeSession(w.ctx, from, b) })
	return &peer{t: w.t, stream: a, r: rowsReader(a), id: wire.SessionID{1}}
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.stream.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

func (p *peer) send(t wire.Type, v any) {
	p.t.Helper()
	if o, ok := v.(wire.Open); ok {
		v = named(o)
	}
	p.write(wire.AppendJSON(nil, t, v))
}

// openMsg is a plain Open for blocks of a one-stage chain.
func openMsg(span swarm.Span) wire.Open {
	return wire.Open{
		Version: wire.Version, Session: wire.SessionID{1}, UID: manifest.UID(), Span: span, MaxLength: 200, Activations: "auto",
		Route: wire.Route{Epoch: 1, Journal: -1},
	}
}

// named fills in the session's mode, unless the test has one of its own.
func named(o wire.Open) wire.Open {
	if o.Mode.IsZero() {
		o.Mode = o.SessionMode().Hash()
	}
	return o
}

// opened opens and commits a session on a server; change may be nil.
func (w *world) opened(n *node, from swarm.PeerID, span swarm.Span, change func(*wire.Open)) *peer {
	w.t.Helper()
	p := w.dial(n, from)
	o := openMsg(span)
	if change != nil {
		change(&o)
	}
	p.id, p.epoch = o.Session, o.Route.Epoch
	p.send(wire.TypeOpen, o)
	p.expect(wire.TypeAccept)
	p.write(wire.AppendFrame(nil, wire.TypeCommit))
	return p
}

func (p *peer) header(start, n, want int) wire.RowsHeader {
	p.step++
	return wire.RowsHeader{Session: p.id, Epoch: p.epoch, Step: p.step, Start: uint32(start), Count: uint32(n), Want: uint32(want), Codec: codec.F32}
}

func rowsFrame(h wire.RowsHeader, rows []float32) []byte {
	return wire.AppendFrame(nil, wire.TypeRows, h.Append(nil), codec.Append(nil, codec.F32, rows))
}

// rows sends positions [from, to) of all, whose outputs are wanted from want on.
func (p *peer) rows(all []float32, from, to, want int) {
	p.t.Helper()
	p.write(rowsFrame(p.header(from, to-from, want), all[from*hidden:to*hidden]))
}
