package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"

	"whorl/api"
	"whorl/client"
	"whorl/client/sample"
	"whorl/internal/journal"
	"whorl/internal/operations"
	"whorl/swarm"
	"whorl/swarm/trust"
)

// The fake model's tokens are the bytes of its texts; 0 is the end token and 1 the begin
// token. It answers with the letters after the last one of the prompt: "a" gives "bcd...".
const (
	fakeEOS   = 0
	fakeBOS   = 1
	fakeVocab = 256
	fakeLimit = 256
)

var fakeManifest = swarm.Manifest{
	Name: "org/toy", Blocks: 8, Hidden: 4,
	Class: swarm.Class{ConfigHash: "c", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "exact1"},
}

// fakeEngine is an Engine whose behaviour tests bend. Safe for concurrent use once made.
type fakeEngine struct {
	name     string        // of the model; "" for that of the manifest
	openErr  error         // what Open says
	dieAfter int           // tokens after which a turn dies of dieErr; 0 never
	dieErr   error         //
	eosAfter int           // tokens after which the end token comes; 0 never
	room     int           // positions that servers hold; 0 for as many as the model takes
	bare     bool          // no begin token
	thinks   bool          // as a template that knows <think>
	says     string        // what it answers, if not letters
	template string        // source of its template, which tells how it calls tools
	step     chan struct{} // if not nil, each token waits for one

	mu     sync.Mutex // guards below
	opened []client.SessionOptions
	turns  []client.Request
	closed int
	atOnce int // most sessions that were open at a time
}

func (e *fakeEngine) Model() client.Model {
	m := fakeManifest
	if e.name != "" {
		m.Name = e.name
	}
	return client.Model{Name: m.Name, UID: m.UID(), Manifest: m, Vocab: fakeVocab, MaxLength: fakeLimit, Created: time.Unix(1750000000, 0)}
}

func (e *fakeEngine) Encode(text string, special bool) ([]int32, error) {
	var ids []int32
	if special && text != "" && !e.bare {
		ids = append(ids, fakeBOS)
	}
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids, nil
}

func (e *fakeEngine) BadWords(texts []string) (out [][]int32, err error) {
	for _, t := range texts {
		ids, err := e.Encode(t, false)
		if err != nil {
			return nil, err
		}
		out = append(out, ids)
	}
	return out, nil
}

func (e *fakeEngine) EncodeChat(ms []client.Message, x client.ChatExtras) ([]int32, error) {
	var sb strings.Builder
	if x.Tools != nil && ms[0].Content != "no tools" { // as a template that leaves them out
		fmt.Fprintf(&sb, "<tools>%s\n", x.Tools)
	}
	for _, name := range slices.Sorted(maps.Keys(x.Vars)) {
		fmt.Fprintf(&sb, "<%s>%s\n", name, x.Vars[name])
	}
	for _, m := range ms {
		if m.Role == "system" && m.Content == "no template" {
			return nil, fmt.Errorf("toy: %w", client.ErrNoTemplate)
		}
		if strings.Contains(string(m.ToolCalls), `"name":"picky","arguments":"`) {
			return nil, errors.New("arguments has no items")
		}
		fmt.Fprintf(&sb, "<%s>%s%s%s%s%s\n", m.Role[:1], m.Reasoning, m.Content, m.ToolCalls, m.ToolCallID, m.Name)
	}
	return e.Encode(sb.String()+"<a>", true)
}

func (e *fakeEngine) Thinks() bool { return e.thinks }

func (e *fakeEngine) Decode(ids []int32) string {
	var sb strings.Builder
	for _, id := range ids {
		sb.WriteString(e.TokenText(id))
	}
	return sb.String()
}

func (e *fakeEngine) TokenText(id int32) string {
	switch id {
	case fakeEOS:
		return "</s>"
	case fakeBOS:
		return "<s>"
	}
	return string(rune(id))
}

func (e *fakeEngine) TokenBytes(id int32, first bool) []byte {
	if id == fakeEOS || id == fakeBOS {
		return nil
	}
	return []byte{byte(id)}
}

func (e *fakeEngine) Room(context.Context, client.SessionOptions) int {
	return cmp.Or(e.room, fakeLimit)
}

func (e *fakeEngine) Open(ctx context.Context, o client.SessionOptions) (api.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = append(e.opened, o)
	if e.openErr != nil {
		return nil, e.openErr
	}
	e.atOnce = max(e.atOnce, len(e.opened)-e.closed)
	return &fakeSession{e: e, limit: o.MaxLength, verify: o.Verify}, nil
}

func (e *fakeEngine) closedSessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

func (e *fakeEngine) requests() []client.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.turns)
}

type fakeSession struct {
	e      *fakeEngine
	limit  int
	ids    []int32
	prompt int // ids before the answer
	verify int
}

func (s *fakeSession) ID() string   { return "00112233" }
func (s *fakeSession) IDs() []int32 { return slices.Clone(s.ids) }

func (s *fakeSession) Truncate(pos int) error {
	if pos > len(s.ids) {
		return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "cannot cut the session to position %d: it has %d", pos, len(s.ids))
	}
	s.ids = s.ids[:pos]
	return nil
}

func (s *fakeSession) Close() error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.e.closed++
	return nil
}

// Generate behaves as client.Session does, stop texts of one byte only.
func (s *fakeSession) Generate(ctx context.Context, r client.Request, emit func(client.Delta) error) (client.Result, error) {
	s.e.mu.Lock()
	s.e.turns = append(s.e.turns, r)
	s.e.mu.Unlock()
	if len(r.Branches) > 0 {
		return s.branches(ctx, r, emit)
	}
	return s.answer(ctx, r, emit)
}

func (s *fakeSession) answer(ctx context.Context, r client.Request, emit func(client.Delta) error) (client.Result, error) {
	s.ids = append(s.ids, r.Prompt...)
	s.prompt = len(s.ids)
	res := client.Result{PromptTokens: len(r.Prompt), Finish: client.FinishLength, Route: []swarm.Hop{{Peer: "12D3KooWabcdef", Span: swarm.Span{Start: 0, End: 8}}}}
	if s.verify > 1 {
		res.Verified = s.verify
	}
	if r.Echo {
		res.Echo = &client.Echo{Text: strings.TrimPrefix(s.e.Decode(r.Prompt), "<s>")}
		for i, id := range r.Prompt {
			if r.TopLogprobs >= 0 {
				res.Echo.Logprobs = append(res.Echo.Logprobs, client.Logprob{ID: id, Logprob: -2, Top: []sample.Alternative{{ID: id, Logprob: -2}}[:min(1, r.TopLogprobs)], Offset: max(0, i-1)})
			}
		}
		if emit != nil {
			if err := emit(client.Delta{Text: res.Echo.Text, Logprobs: res.Echo.Logprobs, Echo: true}); err != nil {
				return res, err
			}
		}
	}
	form := begunForm(r)
	for len(res.IDs) < r.MaxNewTokens {
		if err := s.wait(ctx); err != nil {
			if len(res.IDs) > 0 && swarm.CodeOf(err) == swarm.CodeCancelled {
				res.Finish = client.FinishCancelled
				break
			}
			return res, err
		}
		if s.e.dieAfter > 0 && len(res.IDs) == s.e.dieAfter {
			return res, s.e.dieErr
		}
		id := s.next()
		if s.e.eosAfter > 0 && len(res.IDs) == s.e.eosAfter {
			id = fakeEOS
		}
		if form != nil {
			id = formed(form, id)
		}
		s.ids = append(s.ids, id)
		res.IDs = append(res.IDs, id)
		d := client.Delta{Text: string(rune(id)), IDs: []int32{id}}
		if r.TopLogprobs >= 0 {
			top := []sample.Alternative{{ID: id, Logprob: -0.5}, {ID: id + 1, Logprob: -1.5}}[:min(2, r.TopLogprobs)]
			d.Logprobs = []client.Logprob{{ID: id, Logprob: -0.5, Top: top, Offset: len(res.Text)}}
			res.Logprobs = append(res.Logprobs, d.Logprobs...)
		}
		ended := id == fakeEOS && !r.IgnoreEOS
		if id == fakeEOS {
			d.Text = ""
		}
		if slices.Contains(r.Stop, d.Text) {
			res.Finish, res.StopMatch, ended = client.FinishStop, d.Text, true
			if !r.IncludeStop {
				d.Text = ""
			}
		} else if ended {
			res.Finish = client.FinishEOS
		}
		res.Text += d.Text
		if emit != nil {
			if err := emit(d); err != nil {
				return res, err
			}
		}
		if ended {
			break
		}
	}
	res.Position = len(s.ids)
	for i := range r.Beams.Return { // worse answers are shorter
		n := len(res.IDs) - i
		res.Answers = append(res.Answers, client.Answer{IDs: res.IDs[:n], Text: res.Text[:n], Score: -float64(i), Finish: client.FinishEOS})
	}
	return res, nil
}

func (s *fakeSession) next() int32 {
	if n := len(s.ids) - s.prompt; s.e.says != "" {
		if n < len(s.e.says) {
			return int32(s.e.says[n])
		}
		return fakeEOS
	}
	last := s.ids[len(s.ids)-1]
	if last < 'a' || last >= 'z' {
		return 'a'
	}
	return last + 1
}

// wait is a step of compute.
func (s *fakeSession) wait(ctx context.Context) error {
	if s.e.step != nil {
		select {
		case <-s.e.step:
		case <-ctx.Done():
		}
	}
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return swarm.Errorf(swarm.CodeTimeout, swarm.Again, "the deadline of the request passed")
	}
	return swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "cancelled")
}

// fakeNode is a Node, a Control and a Directory.
type fakeNode struct {
	mu       sync.Mutex // guards all
	state    swarm.State
	reason   string
	stopped  bool
	killed   []string
	bans     []string
	dialled  []string
	ready    map[string]error
	views    []swarm.View
	restarts int
	hold     chan struct{} // operations wait until it is closed; nil: they do not
}

// Ping reaches 12D3KooWa alone.
func (n *fakeNode) Ping(ctx context.Context, p swarm.PeerID) (time.Duration, error) {
	switch p {
	case "12D3KooWa":
		return 1400 * time.Microsecond, nil
	case "12D3KooWb":
		return 0, errors.New("connection refused")
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

func (n *fakeNode) Status() swarm.NodeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	rate := 310.5
	return swarm.NodeStatus{
		Peer: "12D3KooWabcdef", Roles: []string{"server", "gateway"}, Version: "0.1", Started: time.Unix(1750000000, 0).UTC(), Swarm: "test",
		Manifest: &fakeManifest, UID: fakeManifest.UID(), State: n.state, Span: &swarm.Span{Start: 0, End: 8}, Rates: swarm.Rates{InferenceRPS: &rate},
	}
}

func (n *fakeNode) Sessions() []swarm.SessionStatus {
	at := time.Unix(1750000000, 0).UTC()
	return []swarm.SessionStatus{
		{ID: "bb", Role: "gateway", Model: "org/toy", Route: []swarm.Hop{{Peer: "12D3KooWabcdef", Span: swarm.Span{Start: 0, End: 8}}}, Opened: at.Add(time.Second)},
		{ID: "aa", Role: "server", Model: "org/toy", Peer: "12D3KooWclient", Span: &swarm.Span{Start: 0, End: 8}, Opened: at},
	}
}

func (n *fakeNode) Peers() []swarm.PeerStatus {
	return []swarm.PeerStatus{{Peer: "12D3KooWb", Direction: "inbound"}, {Peer: "12D3KooWa", Addrs: []string{"/ip4/127.0.0.1/tcp/1"}, Direction: "outbound"}}
}

func (n *fakeNode) Blocks() []swarm.BlockStatus {
	return []swarm.BlockStatus{{Index: 0, State: "loaded", Bytes: 100, Load: time.Millisecond, Digest: "d0"}, {Index: 1, State: "loading"}}
}

func (n *fakeNode) Ready() map[string]error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

func (n *fakeNode) Invite() (api.Invitation, error) {
	return api.Invitation{Word: "whorl1aecg2yljnybagaican4vv6ow", Swarm: "main", Peers: []string{"/ip4/127.0.0.1/tcp/1/p2p/x"}, Secret: true}, nil
}

func (n *fakeNode) Standings() []trust.Standing {
	b, now := trust.NewBook(trust.DefaultParams()), time.Unix(1750000000, 0)
	b.Observe(trust.Observation{Peer: "12D3KooWa", Prefix: "203.0.113.0/24", Kind: trust.Proven, Detail: "row 3"}, now)
	b.Observe(trust.Observation{Peer: "12D3KooWb", Kind: trust.Served, Count: 3}, now)
	return b.Standings(now)
}

func (n *fakeNode) Ban(p swarm.PeerID, long time.Duration, reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bans = append(n.bans, fmt.Sprintf("%s for %v: %s", p, long, reason))
}

func (n *fakeNode) Pardon(p swarm.PeerID) bool { return p == "12D3KooWa" }

func (n *fakeNode) KillSession(id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id != "aa" {
		return swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "there is no session %q", id)
	}
	n.killed = append(n.killed, id)
	return nil
}

func (n *fakeNode) Views() []swarm.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.views
}

// fakeRecord is of a server of the toy.
func fakeRecord(peer string, from, to int, state swarm.State) swarm.Record {
	r := swarm.Record{
		Peer: swarm.PeerID(peer), Manifest: fakeManifest, Span: swarm.Span{Start: from, End: to}, State: state, Seq: 1,
		Issued: 1750000000000, Expires: 1750000060000, Version: "0.1", Throughput: 10, CacheTotal: 1000, CacheLeft: 600, MaxLength: 256,
		PublicName: "name of " + peer, NextRTT: map[swarm.PeerID]float64{"12D3KooWb": 2},
	}
	return r
}

func fakeView(records ...swarm.Record) swarm.View {
	return swarm.NewView(fakeManifest, time.Unix(1750000000, 0), records)
}

// bench is an API over fakes.
type bench struct {
	api    *Routes
	doc    *openapi3.T
	engine *fakeEngine
	node   *fakeNode
	cfg    api.Config

	settings *fakeSettings
	events   *journal.Log
}

func newBench(t testing.TB, change func(*api.Config)) *bench {
	t.Helper()
	b := &bench{engine: &fakeEngine{}, node: &fakeNode{state: swarm.Online}, settings: &fakeSettings{values: map[string]string{"log-level": "info", "port": "31330"}}, events: journal.New(100, 1<<20)}
	b.events.Add(time.Unix(1750000000, 0), "info", map[string]string{"message": "ready"})
	b.node.views = []swarm.View{fakeView(fakeRecord("12D3KooWa", 0, 8, swarm.Online), fakeRecord("12D3KooWb", 4, 8, swarm.Joining))}
	b.cfg = api.Config{
		Engines: func() []api.Engine { return []api.Engine{b.engine} }, Node: b.node, Control: b.node, Tasks: b.node, Adapting: b.node, Operations: operations.New(t.Context(), nil), Directory: b.node, Peering: b.node, Routes: b.node, Settings: b.settings, History: fakeHistory{}, Events: b.events, Logs: b.events,
		Registry: prometheus.NewRegistry(), Ollama: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	b.cfg.Keys = newRing(t)
	if change != nil {
		change(&b.cfg)
	}
	var err error
	if b.api, err = New(b.cfg); err != nil {
		t.Fatal(err)
	}
	b.doc = b.api.api.Document()
	return b
}

// do asks a handler; headers are "Name: value". The request is over when it returns, as on a listener.
func do(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	ctx, over := context.WithCancel(context.Background())
	defer over()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, v, _ := strings.Cut(line, ": ")
		if r.Header.Set(name, v); name == "Host" {
			r.Host = v
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
