package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
)

func TestSocketLimits(t *testing.T) {
	t.Run("frame size", func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.FrameBytes = 200 })
		p := dial(t, b, nil)
		p.open(10)
		p.send(`{"type":"generate","inputs":"` + strings.Repeat("a", 300) + `"}`)
		p.wantClose(websocket.CloseMessageTooBig)
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
	})
	t.Run("queue", func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.Queue = 2 })
		b.engine.step = make(chan struct{}) // never
		p := dial(t, b, nil)
		p.open(100)
		for range 5 {
			p.send(`{"type":"generate","inputs":"a","max_new_tokens":1}`)
		}
		m := p.want(`{"ok":false}`)
		if e := m["error"].(map[string]any); e["code"] != "queue_full" {
			t.Errorf("%v", m)
		}
		p.wantClose(1013)
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
	})
	t.Run("idle", func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.Idle = 30 * time.Millisecond })
		p := dial(t, b, nil)
		p.want(`{"ok":false}`)
		p.wantClose(1000)
	})
	t.Run("ping", func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.Ping = 5 * time.Millisecond })
		p := dial(t, b, nil)
		pings := make(chan struct{}, 100)
		p.c.SetPingHandler(func(string) error {
			select {
			case pings <- struct{}{}:
			default:
			}
			return nil
		})
		go p.c.ReadMessage()
		for range 3 {
			select {
			case <-pings:
			case <-time.After(patience):
				t.Fatal("no ping")
			}
		}
	})
	t.Run("slow reader", func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.Write = time.Second })
		b.cfg.Engines = func() []api.Engine { return []api.Engine{floodEngine{b.engine}} }
		api, err := New(b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.api = api
		p := dial(t, b, nil)
		p.open(100)
		p.send(`{"type":"generate","inputs":"a","max_new_tokens":50,"stream":true}`)
		// Nobody reads: the turn must end and the session be closed.
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
	})
}

// floodEngine's sessions say a megabyte for each token, for ever.
type floodEngine struct{ *fakeEngine }

func (e floodEngine) Open(ctx context.Context, o client.SessionOptions) (api.Session, error) {
	return floodSession{&fakeSession{e: e.fakeEngine}}, nil
}

type floodSession struct{ *fakeSession }

func (s floodSession) Generate(ctx context.Context, r client.Request, emit func(client.Delta) error) (client.Result, error) {
	for ctx.Err() == nil {
		if err := emit(client.Delta{Text: strings.Repeat("x", 1<<20), IDs: []int32{7}}); err != nil {
			return client.Result{}, err
		}
	}
	return client.Result{}, swarm.Errorf(swarm.CodeCancelled, swarm.Caller, "cancelled")
}

func TestSocketAccess(t *testing.T) {
	b := newBench(t, func(c *api.Config) {
		c.Public = api.Listener{Token: "s3cret", Origins: []string{"https://chat.example.org"}}
	})
	srv := httptest.NewServer(b.api.Public())
	defer srv.Close()
	url := "ws" + strings.TrimPrefix(srv.URL, "http") + "/api/v2/generate"
	for _, c := range []struct {
		name      string
		header    http.Header
		protocols []string
		status    int
	}{
		{"no token", nil, nil, 401},
		{"wrong token", http.Header{"Authorization": {"Bearer x"}}, nil, 401},
		{"header", http.Header{"Authorization": {"Bearer s3cret"}}, nil, 101},
		{"sub-protocol", nil, []string{"whorl", "bearer.s3cret"}, 101},
		{"foreign page", http.Header{"Authorization": {"Bearer s3cret"}, "Origin": {"https://evil.example"}}, nil, 403},
		{"configured page", http.Header{"Origin": {"https://chat.example.org"}}, []string{"whorl", "bearer.s3cret"}, 101},
		{"own page", http.Header{"Origin": {srv.URL}}, []string{"bearer.s3cret", "whorl"}, 101},
		{"another site's name", http.Header{"Authorization": {"Bearer s3cret"}, "Host": {"evil.example"}}, nil, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, resp, err := (&websocket.Dialer{Subprotocols: c.protocols}).Dial(url, c.header)
			if resp == nil || resp.StatusCode != c.status {
				t.Fatalf("%v, %v", resp, err)
			}
			if c.status == 101 {
				defer conn.Close()
				if c.protocols != nil && conn.Subprotocol() != "whorl" {
					t.Errorf("sub-protocol %q", conn.Subprotocol())
				}
				return
			}
			var f gen.SocketFailure
			if json.NewDecoder(resp.Body).Decode(&f); f.Traceback == "" {
				t.Error("no legacy error form")
			}
		})
	}
}

// One user's sockets do not lock out the others: their number is bounded, and beyond a first
// session so is what they hold of the cache.
func TestSocketsOfOneUser(t *testing.T) {
	t.Run("number", func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.Sockets = 2 })
		p := dial(t, b, nil)
		dial(t, b, nil)
		srv := httptest.NewServer(b.api.Public())
		defer srv.Close()
		url := "ws" + strings.TrimPrefix(srv.URL, "http") + "/api/v2/generate"
		_, resp, err := websocket.DefaultDialer.Dial(url, nil)
		if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("a third one: %v, %v", resp, err)
		}
		p.send(`{"type":"close"}`)
		p.want(`{"ok":true,"type":"close"}`)
		p.wantClose(1000)
		eventually(t, func() bool {
			c, _, err := websocket.DefaultDialer.Dial(url, nil)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	})
	t.Run("cache", func(t *testing.T) {
		b := newBench(t, nil)
		for i := range b.node.views[0].Servers {
			b.node.views[0].Servers[i].CacheTotal = 1000
		}
		first := dial(t, b, nil)
		first.open(800) // as long as servers allow
		second := dial(t, b, nil)
		second.send(`{"type":"open_inference_session","max_length":100}`)
		m := second.want(`{"ok":false}`)
		if e := m["error"].(map[string]any); e["code"] != "too_many_sessions" && e["code"] != "rate_limit_exceeded" || !strings.Contains(fmt.Sprint(e), "800 tokens") {
			t.Errorf("%v", m)
		}
		second.wantClose(1013)
		first.send(`{"type":"close"}`)
		first.want(`{"ok":true,"type":"close"}`)
		first.wantClose(1000)
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
		for range 5 {
			dial(t, b, nil).open(100)
		}
	})
}
