package routes

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"whorl/api"
	"whorl/client"
	"whorl/swarm"
	"whorl/tensor"
)

// rowEngine computes nothing: what goes forward comes back as it is, once it may.
type rowEngine struct {
	*fakeEngine
	wait    chan struct{} // a pass waits for it; nil for none
	begun   chan struct{} // a pass has begun
	dies    error         // of a step
	adapter string        // of the last pass
}

type fakeHead struct{}

func (fakeHead) Embed(dst []float32, ids []int32) error { return nil }
func (fakeHead) Logits(dst, hidden []float32, n int, mode tensor.Activations) error {
	return nil
}

func (e *rowEngine) Head() client.Head { return fakeHead{} }

func (e *rowEngine) Outputs(ctx context.Context, span swarm.Span, o client.RemoteOptions, b *client.Batch) ([]float32, error) {
	e.adapter = o.Adapter
	select {
	case e.begun <- struct{}{}:
	default:
	}
	if e.wait != nil {
		select {
		case <-e.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return b.Rows, nil
}

func (e *rowEngine) Gradients(ctx context.Context, span swarm.Span, o client.RemoteOptions, b *client.Batch, grads []float32) (rows, prompts []float32, err error) {
	if err := o.Keep(1 << 40); err != nil {
		return nil, nil, err
	}
	return grads, nil, nil
}

func (e *rowEngine) OpenRows(ctx context.Context, o client.RowOptions) (api.RowSession, error) {
	if e.openErr != nil {
		return nil, e.openErr
	}
	return &rowSession{e: e}, nil
}

type rowSession struct {
	e *rowEngine
	n int
}

func (s *rowSession) ID() string { return "0011" }
func (s *rowSession) Step(ctx context.Context, rows []float32) ([]float32, error) {
	s.n += len(rows) / 4
	return rows, s.e.dies
}
func (s *rowSession) Position() int          { return s.n }
func (s *rowSession) Truncate(pos int) error { s.n = pos; return nil }
func (s *rowSession) Reroutes() int          { return 0 }
func (s *rowSession) Close() error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.e.closed++
	return nil
}

// hiddenBench is a bench whose model has layers.
func hiddenBench(t *testing.T, change func(*api.Config)) (*bench, *rowEngine) {
	e := &rowEngine{begun: make(chan struct{}, 1)}
	b := newBench(t, func(c *api.Config) {
		if change != nil {
			change(c)
		}
		own := c.Engines
		c.Engines = func() []api.Engine {
			e.fakeEngine = own()[0].(*fakeEngine)
			return []api.Engine{e}
		}
	})
	e.fakeEngine = b.engine
	return b, e
}

// dialHidden opens a socket and reads its first message.
func dialHidden(t *testing.T, b *bench, query string, header http.Header) *peer {
	t.Helper()
	srv := httptest.NewServer(b.api.Public())
	t.Cleanup(srv.Close)
	c, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/api/v1/hidden"+query, header)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		t.Error("no X-Request-Id on the upgrade")
	}
	t.Cleanup(func() { c.Close() })
	p := &peer{t, c, b}
	if m := p.header(); m["type"] != "ready" || m["model"] != "org/toy" || m["protocol"] != 1.0 {
		t.Errorf("%v", m)
	}
	return p
}

func (p *peer) ask(header string, values int) {
	p.t.Helper()
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...)
	if err := p.c.WriteMessage(websocket.BinaryMessage, append(b, make([]byte, 4*values)...)); err != nil {
		p.t.Fatal(err)
	}
}

// header reads one message and checks that its header is one of the contract's.
func (p *peer) header() map[string]any {
	p.t.Helper()
	p.c.SetReadDeadline(time.Now().Add(patience))
	kind, b, err := p.c.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage {
		p.t.Fatalf("read: %d %v", kind, err)
	}
	b = b[4 : 4+binary.LittleEndian.Uint32(b)]
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		p.t.Fatal(err)
	}
	checkSchema(p.t, "HiddenReply", p.b.doc.Components.Schemas["HiddenReply"].Value, b)
	return m
}

// fails reads an error of a code.
func (p *peer) fails(code string) map[string]any {
	p.t.Helper()
	m := p.header()
	e, _ := m["error"].(map[string]any)
	if e["code"] != code {
		p.t.Fatalf("%v, want %s", m, code)
	}
	return e
}

// Errors tell what is wrong; those of a request leave the socket open, those of the protocol end it.
func TestHiddenErrors(t *testing.T) {
	b, e := hiddenBench(t, nil)
	p := dialHidden(t, b, "?model=org/toy", nil)
	p.ask(`{"id":7,"type":"step","lengths":[1]}`, 4)
	p.fails("no_session")
	p.ask(`{"id":7,"type":"norm","rows":1}`, 4)
	p.fails(string(swarm.CodeUnsupported)) // this head has no way back
	p.ask(`{"id":7,"type":"forward","lengths":[2]}`, 9)
	p.fails("invalid_value")
	e.openErr = swarm.Errorf(swarm.CodeCacheFull, swarm.Again, "no cache")
	p.ask(`{"id":7,"type":"open","max_length":9,"batch":2}`, 0)
	if err := p.fails(string(swarm.CodeCacheFull)); err["retryable"] != true || err["retry_after_ms"] == nil {
		t.Errorf("%v", err)
	}
	e.openErr = nil
	p.ask(`{"id":8,"type":"open","max_length":9,"batch":2}`, 0)
	if m := p.header(); m["type"] != "opened" {
		t.Fatalf("%v", m)
	}
	e.dies = swarm.Errorf(swarm.CodePeerLost, swarm.Elsewhere, "lost")
	p.ask(`{"id":9,"type":"step","lengths":[1,2]}`, 12)
	p.fails("peer_lost")
	e.dies = nil
	p.ask(`{"id":9,"type":"truncate","positions":[0,0]}`, 0)
	if m := p.header(); m["type"] != "state" {
		t.Errorf("%v", m)
	}
	e.dies = swarm.Errorf(swarm.CodeNoSession, swarm.Caller, "killed")
	p.ask(`{"id":9,"type":"step","lengths":[1,2]}`, 12)
	p.fails("no_session")
	eventually(t, func() bool { return b.engine.closedSessions() == 2 })
	for _, frame := range []string{"", "\x01\x00\x00\x00{", "\xff\xff\xff\xff", "\x02\x00\x00\x00{}"} {
		p := dialHidden(t, b, "", nil)
		p.c.WriteMessage(websocket.BinaryMessage, []byte(frame))
		p.fails("bad_message")
		p.wantClose(websocket.ClosePolicyViolation)
	}
	p = dialHidden(t, b, "", nil)
	p.send(`{"id":1,"type":"close"}`)
	p.fails("bad_message")
	p.wantClose(websocket.ClosePolicyViolation)
}

// A model with prompts of its own, or none of that name, is refused before there is a socket.
func TestHiddenModels(t *testing.T) {
	b, _ := hiddenBench(t, nil)
	own := b.cfg.Engines
	b.cfg.Engines = func() []api.Engine {
		return append(own(), api.Tuned(own()[0], "poems", &client.Prompts{Tokens: 1, Shallow: make([]float32, 4)}), otherName{own()[0]})
	}
	var err error
	if b.api, err = New(b.cfg); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(b.api.Public())
	defer srv.Close()
	for model, status := range map[string]int{"other": 404, "org/toy:poems": 400} {
		_, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/api/v1/hidden?model="+model, nil)
		if err == nil || resp.StatusCode != status || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v, %v", model, resp, err)
		}
	}
	c, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/api/v1/hidden?model=other%20name", nil)
	if err != nil {
		t.Fatalf("%v, %v", resp, err)
	}
	c.Close()
}

// otherName is a model as a gateway of several lists it.
type otherName struct{ api.Engine }

func (e otherName) Unwrap() api.Engine { return e.Engine }

func (e otherName) Model() client.Model {
	m := e.Engine.Model()
	m.Name = "other name"
	return m
}

func TestHiddenLimits(t *testing.T) {
	t.Run("memory of one request", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) { c.Limits.RowBytes = 10000 })
		p := dialHidden(t, b, "", nil)
		p.ask(`{"id":1,"type":"forward","lengths":[63]}`, 4*63) // takes 5,040 bytes of 5,000
		p.fails("max_length")
		p.ask(`{"id":1,"type":"forward","lengths":[62]}`, 4*62)
		if m := p.header(); m["rows"] != 62.0 {
			t.Errorf("%v", m)
		}
		p.ask(`{"id":1,"type":"backward","lengths":[1]}`, 8) // whose way keeps a terabyte
		if e := p.fails(string(swarm.CodeTooMany)); e["retryable"] != true {
			t.Errorf("%v", e)
		}
		p.ask(`{"id":2,"type":"open","max_length":200,"batch":2}`, 0)
		p.fails("max_length")
	})
	t.Run("message size", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) { c.Limits.RowBytes = 10000 })
		p := dialHidden(t, b, "", nil)
		p.ask(`{"id":1,"type":"open","max_length":9}`, 0)
		p.header()
		p.c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<20)) // which may be cut off
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
	})
	t.Run("memory of all", func(t *testing.T) {
		b, e := hiddenBench(t, func(c *api.Config) { c.Limits.RowBytes = 10000 })
		e.wait = make(chan struct{})
		p, q := dialHidden(t, b, "", nil), dialHidden(t, b, "", nil)
		p.ask(`{"id":1,"type":"forward","lengths":[62]}`, 4*62)
		<-e.begun
		q.ask(`{"id":1,"type":"forward","lengths":[62]}`, 4*62)
		q.ask(`{"id":2,"type":"forward","lengths":[62]}`, 4*62) // waits for the first to give its memory back
		<-e.begun
		close(e.wait)
		for _, p := range []*peer{p, q, q} {
			if m := p.header(); m["rows"] != 62.0 {
				t.Errorf("%v", m)
			}
		}
	})
	t.Run("queue", func(t *testing.T) {
		b, e := hiddenBench(t, func(c *api.Config) { c.Limits.Queue = 2 })
		e.wait = make(chan struct{})
		p := dialHidden(t, b, "", nil)
		for range 5 {
			p.ask(`{"id":1,"type":"forward","lengths":[1]}`, 4)
		}
		p.fails("queue_full")
		p.wantClose(websocket.CloseTryAgainLater)
	})
	t.Run("idle", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) { c.Limits.Idle = 50 * time.Millisecond })
		p := dialHidden(t, b, "", nil)
		p.fails("idle")
		p.wantClose(websocket.CloseNormalClosure)
	})
	t.Run("time", func(t *testing.T) {
		b, e := hiddenBench(t, nil)
		e.wait = make(chan struct{})
		p := dialHidden(t, b, "", nil)
		p.ask(`{"id":1,"type":"forward","lengths":[1],"timeout_ms":20}`, 4)
		p.fails(string(swarm.CodeTimeout))
	})
	t.Run("slow reader", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) {
			c.Limits.Write, c.Limits.RowBytes, c.Limits.Queue = 500*time.Millisecond, 1<<30, 1<<20
		})
		p := dialHidden(t, b, "", nil)
		p.ask(`{"id":1,"type":"open","max_length":9}`, 0)
		p.header()
		go func() { // until it is closed; nobody reads
			for {
				header := `{"id":1,"type":"forward","lengths":[2048]}`
				m := append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...)
				if p.c.WriteMessage(websocket.BinaryMessage, append(m, make([]byte, 16*2048)...)) != nil {
					return
				}
			}
		}()
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
	})
	t.Run("a message that does not end", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) { c.Limits.Body = 50 * time.Millisecond })
		p := dialHidden(t, b, "", nil)
		p.ask(`{"id":1,"type":"open","max_length":9}`, 0)
		p.header()
		w, err := p.c.NextWriter(websocket.BinaryMessage)
		if err != nil {
			t.Fatal(err)
		}
		header := `{"id":1,"type":"forward","lengths":[1000]}`
		w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header...))
		w.Write(make([]byte, 9000)) // more than a buffer: a part of it goes out
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
	})
	t.Run("sockets of one user", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) { c.Limits.Sockets = 1 })
		srv := httptest.NewServer(b.api.Public())
		defer srv.Close()
		url := "ws" + strings.TrimPrefix(srv.URL, "http") + "/api/v1/hidden"
		c, _, err := websocket.DefaultDialer.Dial(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, resp, err := websocket.DefaultDialer.Dial(url, nil); err == nil || resp.StatusCode != 429 {
			t.Errorf("%v, %v", resp, err)
		}
	})
	t.Run("token", func(t *testing.T) {
		b, _ := hiddenBench(t, func(c *api.Config) { c.Public = api.Listener{Token: "s3cret"} })
		srv := httptest.NewServer(b.api.Public())
		defer srv.Close()
		if _, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/api/v1/hidden", nil); err == nil || resp.StatusCode != 401 {
			t.Errorf("%v, %v", resp, err)
		}
		dialHidden(t, b, "", http.Header{"Authorization": {"Bearer s3cret"}})
	})
}
