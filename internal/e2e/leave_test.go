//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Callers that go away, by a deadline of a millisecond or by closing their socket, prove
// nothing about a server: none of them is told that blocks are missing, the swarm is not
// called broken, and who comes next is served at once.
func TestCallersThatLeave(t *testing.T) {
	all := refs(t, 4)
	s := spawn(t, []string{"0:3", "3:6", "6:8"})
	model := s.model(t)
	s.post(t, map[string]any{"prompt": all[0].Prompt, "max_tokens": 1})
	ask := func(ctx context.Context, body map[string]any) (int, string) {
		body["model"] = model
		b, _ := json.Marshal(body)
		r, _ := http.NewRequestWithContext(ctx, "POST", s.gateway.HTTP+"/v1/completions", bytes.NewReader(b))
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	var callers sync.WaitGroup
	for i := range 60 {
		callers.Go(func() {
			body, long := map[string]any{"prompt": "hi", "n": 4, "max_tokens": 1}, patience
			if i%2 == 0 {
				body["timeout"] = 0.001
			} else {
				long = time.Duration(i%7) * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			if status, text := ask(ctx, body); status == 503 || strings.Contains(text, "blocks_missing") || strings.Contains(text, "No servers") {
				t.Errorf("caller %d: status %d: %.300s", i, status, text)
			}
		})
		if i%6 == 5 {
			callers.Wait()
		}
	}
	if status, text := ask(t.Context(), map[string]any{"prompt": all[0].Prompt, "max_tokens": 4}); status != 200 {
		t.Errorf("the next caller: status %d: %.300s", status, text)
	}
	if n := reroutes(t, s); n > 0 { // it would have waited for those that are avoided, or gone round them
		t.Errorf("%v re-routes", n)
	}
	if a := s.gateway.avoided(t); len(a) > 0 {
		t.Errorf("servers are avoided: %v", a)
	}
	resp, err := http.Get(s.gateway.HTTP + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); strings.Contains(string(text), "broken") {
		t.Errorf("models: %s", text)
	}
}

// avoided is why a node avoids peers, by peer.
func (n *node) avoided(t *testing.T) map[string]string {
	t.Helper()
	var list struct {
		Items []struct {
			Peer  string `json:"peer_id"`
			Avoid *struct{ Kind, Reason string }
		}
	}
	get(t, n.Admin+"/api/v1/peers/standings", &list)
	out := map[string]string{}
	for _, p := range list.Items {
		if p.Avoid != nil {
			out[p.Peer] = p.Avoid.Kind
		}
	}
	return out
}
