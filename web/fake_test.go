package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"whorl/store"
	"whorl/swarm"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeDirectory is a swarm that the test changes.
type fakeDirectory struct {
	mu    sync.Mutex
	views []swarm.View
	err   error
}

func (d *fakeDirectory) Views() []swarm.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.views
}

func (d *fakeDirectory) synced() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *fakeDirectory) set(views ...swarm.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.views = views
}

func (d *fakeDirectory) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

type fakeNode swarm.NodeStatus

func (n fakeNode) Status() swarm.NodeStatus { return swarm.NodeStatus(n) }

// fakeStore is a history whose database can be stopped.
type fakeStore struct {
	*store.Memory
	mu   sync.Mutex
	down bool
}

var errDown = errors.New("connection refused")

func (s *fakeStore) stop(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *fakeStore) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

func (s *fakeStore) Write(ctx context.Context, sample store.Sample) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Memory.Write(ctx, sample)
}

func (s *fakeStore) Events(ctx context.Context, q store.EventQuery) ([]store.Event, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.Memory.Events(ctx, q)
}

func (s *fakeStore) Coverage(ctx context.Context, uid swarm.UID, w store.Window) ([]store.Coverage, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.Memory.Coverage(ctx, uid, w)
}

// manifest is that of a model of so many blocks.
func manifest(name string, blocks int) swarm.Manifest {
	return swarm.Manifest{Name: name, Blocks: blocks, Hidden: 64, Class: swarm.Class{ConfigHash: "c0ffee", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "exact1"}}
}

// record is that of an honest server; change adjusts it.
func record(peer string, m swarm.Manifest, start, end int, state swarm.State, change ...func(*swarm.Record)) swarm.Record {
	rps := 100.0
	r := swarm.Record{Peer: swarm.PeerID(peer), UID: m.UID(), Manifest: m, Span: swarm.Span{Start: start, End: end}, State: state, Version: "1.0", Protocol: 2,
		Rates: swarm.Rates{InferenceRPS: &rps}, Throughput: 50, CacheTotal: 4096, CacheLeft: 4000, MaxLength: 2048}
	for _, f := range change {
		f(&r)
	}
	return r
}

func viewOf(m swarm.Manifest, records ...swarm.Record) swarm.View {
	return swarm.NewView(m, time.Now(), records)
}

func named(name string) func(*swarm.Record) {
	return func(r *swarm.Record) { r.PublicName = name }
}

// rig is a dashboard with everything around it faked.
type rig struct {
	*Site
	dir     *fakeDirectory
	store   *fakeStore
	changes chan struct{}
}

func newRig(t *testing.T, change ...func(*Config, *Deps)) *rig {
	t.Helper()
	r := &rig{dir: &fakeDirectory{}, store: &fakeStore{Memory: store.NewMemory(store.MemoryLimits())}, changes: make(chan struct{}, 1)}
	cfg := DefaultConfig()
	deps := Deps{Contract: contract(t), Directory: r.dir, Store: r.store, Changes: r.changes, Synced: r.dir.synced, Models: func() []string { return []string{"tiny"} },
		Node: fakeNode{Peer: "gate", Addrs: []string{"/ip4/127.0.0.1/tcp/1/p2p/gate"}, Roles: []string{"gateway"}, Swarm: "garden"}}
	for _, f := range change {
		f(&cfg, &deps)
	}
	site, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	r.Site = site
	return r
}

// refresh does one round of the loop, without the loop.
func (r *rig) refresh(t *testing.T, l *loop) *loop {
	if l == nil {
		l = newLoop(r.Site)
	}
	l.refresh(t.Context())
	return l
}

// get asks for a page.
func (r *rig) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// wantText fails the test for each text that a page lacks.
func wantText(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

// wantNot fails the test for each text that a page holds.
func wantNot(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(body, text) {
			t.Errorf("the page holds %q", text)
		}
	}
}

// tape is an event stream without a network.
type tape struct {
	w      *io.PipeWriter
	header http.Header
	status int
}

func (t *tape) Header() http.Header         { return t.header }
func (t *tape) WriteHeader(status int)      { t.status = status }
func (t *tape) Write(b []byte) (int, error) { return t.w.Write(b) }
func (t *tape) Flush()                      {}

// stream is a page that a browser keeps open.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	shown map[string]string // sections as the page shows them now
	end   func()            // closes it and waits for the handler
}

// listen opens a page's stream.
func (r *rig) listen(t *testing.T, path string) *stream {
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer pw.Close()
		r.Handler().ServeHTTP(&tape{w: pw, header: http.Header{}}, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
	}()
	s := &stream{t: t, lines: bufio.NewScanner(pr), shown: map[string]string{}, end: func() { cancel(); pr.Close(); <-done }}
	s.lines.Buffer(nil, 1<<20)
	return s
}

// next waits for an event.
func (s *stream) next() update {
	s.t.Helper()
	for s.lines.Scan() {
		data, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var u update
		if err := json.Unmarshal([]byte(data), &u); err != nil {
			s.t.Fatal(err)
		}
		maps.Copy(s.shown, u.Sections)
		return u
	}
	s.t.Fatal("the stream ended")
	return update{}
}

// until reads events until the page shows a text, and tells how long that took.
func (s *stream) until(section, text string) time.Duration {
	s.t.Helper()
	began := time.Now()
	for range 50 {
		if strings.Contains(s.shown[section], text) {
			return time.Since(began)
		}
		s.next()
	}
	s.t.Fatalf("section %s never held %q:\n%s", section, text, s.shown[section])
	return 0
}
