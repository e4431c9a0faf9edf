package routes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"whorl/api"
	"whorl/swarm"
)

// The pages of a list are the list, whatever comes and goes between them.
func TestPages(t *testing.T) {
	b := newBench(t, nil)
	var all []swarm.Record
	for i := range 25 {
		all = append(all, fakeRecord(fmt.Sprintf("12D3KooW%02d", i+10), 0, 8, swarm.Online))
	}
	b.node.views = []swarm.View{fakeView(all...)}
	h := b.api.Public()
	var seen []string
	cursor := ""
	for range 10 {
		var page struct {
			Items []struct {
				Peer string `json:"peer_id"`
			}
			Next string `json:"next_cursor"`
		}
		w := do(h, "GET", "/api/v1/swarm/servers?limit=10&cursor="+cursor, "")
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
		}
		for _, s := range page.Items {
			seen = append(seen, s.Peer)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		b.node.views = []swarm.View{fakeView(all[1:]...)} // the first one has gone
	}
	if len(seen) != 25 || seen[0] != "12D3KooW10" || seen[24] != "12D3KooW34" {
		t.Errorf("%d servers: %v", len(seen), seen)
	}
	for _, c := range []struct {
		query, param string
	}{{"limit=0", "limit"}, {"limit=1001", "limit"}, {"limit=x", ""}, {"cursor=*", "cursor"}, {"cursor=zzzz", "cursor"}} {
		w := do(h, "GET", "/api/v1/swarm/servers?"+c.query, "")
		if w.Code != 400 || !strings.Contains(w.Body.String(), c.param) {
			t.Errorf("%s: status %d, %s", c.query, w.Code, w.Body)
		}
	}
}

// Who asks for text gets a table, in which no text of a stranger breaks a line.
func TestTables(t *testing.T) {
	b := newBench(t, nil)
	evil := fakeRecord("12D3KooWa", 0, 8, swarm.Online)
	evil.PublicName = "a\tb\n\x1b[31mred\u202e"
	b.node.views = []swarm.View{fakeView(evil, fakeRecord("12D3KooWb", 4, 8, swarm.Joining))}
	for _, c := range []struct {
		accept, want string
	}{
		{"text/plain", "PEER       MODEL    STATE    BLOCKS  TOK/S  CACHE LEFT  NAME\n" +
			"12D3KooWa  org/toy  online   0:8     10.0   600         a?b??[31mred?\n" +
			"12D3KooWb  org/toy  joining  4:8     10.0   600         -\n"},
		{"text/plain;q=0.9, application/json", "PEER"},
		{"application/json, text/plain", `{"items"`}, {"*/*", `{"items"`}, {"", `{"items"`},
	} {
		w := do(b.api.Public(), "GET", "/api/v1/swarm/servers", "", "Accept: "+c.accept)
		if !strings.HasPrefix(w.Body.String(), c.want) {
			t.Errorf("Accept %q:\n%s", c.accept, w.Body)
		}
	}
	w := do(b.api.Public(), "GET", "/api/v1/swarm/servers?model=org/toy&limit=1", "", "Accept: text/plain")
	if next := w.Header().Get("Link"); !strings.HasPrefix(next, "</api/v1/swarm/servers?cursor=") || !strings.HasSuffix(next, `&limit=1&model=org%2Ftoy>; rel="next"`) {
		t.Errorf("Link: %q", next)
	}
}

// Who follows events sees each once, also after the connection broke.
func TestFollow(t *testing.T) {
	b := newBench(t, nil)
	srv := httptest.NewServer(b.api.Public())
	defer srv.Close()
	follow := func(last string) (next func() string, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", srv.URL+"/api/v1/events?types=session,info", nil)
		r.Header.Set("Last-Event-ID", last)
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(err, resp)
		}
		lines := bufio.NewScanner(resp.Body)
		return func() string {
			for lines.Scan() {
				if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
					last = id
				}
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					return data + " " + last
				}
			}
			t.Fatal("the stream ended")
			return ""
		}, func() { cancel(); resp.Body.Close() }
	}
	next, stop := follow("")
	first, id, _ := strings.Cut(next(), " ")
	b.events.Add(time.Now(), "peer.gone", 1)
	b.events.Add(time.Now(), "session.opened", 2)
	second, _, _ := strings.Cut(next(), " ")
	stop()
	b.events.Add(time.Now(), "session.ended", 3)
	next, stop = follow(id)
	defer stop()
	again, _, _ := strings.Cut(next(), " ")
	third, last, _ := strings.Cut(next(), " ")
	if first != `{"message":"ready"}` || second != "2" || again != "2" || third != "3" {
		t.Errorf("%s, %s; again from %s: %s, %s", first, second, id, again, third)
	}
	// The other form waits for a list.
	done := make(chan string)
	go func() {
		resp, err := http.Get(srv.URL + "/api/v1/events?types=model&wait=60s&since=" + last)
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		var out struct {
			Items []struct{ Kind string }
			Last  string
		}
		json.NewDecoder(resp.Body).Decode(&out)
		done <- fmt.Sprint(out.Items, out.Last > last)
	}()
	b.events.Add(time.Now(), "peer.gone", 4)
	b.events.Add(time.Now(), "model.coverage", map[string]int{})
	if got := <-done; got != "[{model.coverage}] true" {
		t.Errorf("%s", got)
	}
	for _, query := range []string{"wait=x", "wait=-1s", "wait=1h"} {
		if w := do(b.api.Public(), "GET", "/api/v1/events?"+query, ""); w.Code != 400 {
			t.Errorf("%s: status %d", query, w.Code)
		}
	}
}

// Settings change only from the state that the caller saw, if it says which.
func TestConfig(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Admin.Token = "sixteen letters." })
	h := b.api.Admin()
	ask := func(method, body string, headers ...string) *httptest.ResponseRecorder {
		return do(h, method, "/api/v1/node/config", body, append(headers, "Authorization: Bearer sixteen letters.")...)
	}
	old := ask("GET", "").Header().Get("ETag")
	if w := ask("PATCH", `{"log-level":"warn"}`, "If-Match: "+old); w.Code != 200 || w.Header().Get("ETag") == old || b.settings.values["log-level"] != "warn" {
		t.Fatalf("status %d, %v: %s", w.Code, b.settings.values, w.Body)
	}
	for _, c := range []struct {
		body, match string
		status      int
	}{
		{`{"log-level":"debug"}`, old, 412}, {`{"log-level":"debug"}`, "*", 200}, {`{"log-level":null}`, "", 200},
		{`{"port":7}`, "", 409}, {`{"log-level":{}}`, "", 400}, {`[]`, "", 400}, {`{"log-level":[1]}`, "", 400},
	} {
		var headers []string
		if c.match != "" {
			headers = append(headers, "If-Match: "+c.match)
		}
		if w := ask("PATCH", c.body, headers...); w.Code != c.status {
			t.Errorf("%s if %s: status %d: %s", c.body, c.match, w.Code, w.Body)
		}
	}
	if got := ask("GET", "", "Accept: text/plain").Body.String(); got != "NAME       VALUE  SOURCE   NEEDS RESTART\nlog-level  info   flag     no\nport       31330  default  yes\n" {
		t.Errorf("%s", got)
	}
	if w := do(h, "GET", "/api/v1/logs", ""); w.Code != 401 {
		t.Errorf("the log without a token: status %d", w.Code)
	}
}

// The history comes in points and in pages, and nodes without one say so.
func TestHistory(t *testing.T) {
	b := newBench(t, nil)
	h := b.api.Public()
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/api/v1/swarm/models/org%2Ftoy/history?from=2025-06-15T15:00:00Z&to=2025-06-15T15:10:00Z&step=5m", 200,
			"AT                    SERVERS  HOLDERS  MISSING  TOK/S\n2025-06-15T15:00:00Z  0        0        0:8      0.0\n2025-06-15T15:05:00Z  0        0        0:8      0.0\n"},
		{"/api/v1/swarm/events?limit=2", 200, "model_broken"},
		{"/api/v1/swarm/events?limit=2&cursor=2", 200, "AT                    EVENT          MODEL    PEER       BLOCKS  DETAIL\n2025-06-15T15:06:41Z  server_online  org/toy  12D3KooWa  0:4     -\n"},
		{"/api/v1/swarm/events?peer=12D3KooWa", 200, "server_online"},
		{"/api/v1/swarm/events?peer=x!", 400, "peer id"},
		{"/api/v1/swarm/models/org%2Ftoy/history?from=yesterday", 400, "want a time such as"},
		{"/api/v1/swarm/models/org%2Ftoy/history?from=1h&to=2h", 400, "from lies behind to"},
		{"/api/v1/swarm/models/org%2Ftoy/history?from=240h&step=1m", 400, "are 14400 points, of which at most 2000 fit"},
		{"/api/v1/swarm/models/nothing/history", 404, "no model"},
	} {
		w := do(h, "GET", c.path, "", "Accept: text/plain")
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: status %d:\n%s", c.path, w.Code, w.Body)
		}
	}
	b = newBench(t, func(c *api.Config) { c.History = nil })
	if w := do(b.api.Public(), "GET", "/api/v1/swarm/events", ""); w.Code != 404 || !strings.Contains(w.Body.String(), "keeps no history") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// A change that is sent again under its key is done once.
func TestIdempotency(t *testing.T) {
	b := newBench(t, nil)
	h := b.api.Admin()
	ask := func(path, body, key string) *httptest.ResponseRecorder {
		return do(h, "POST", path, body, "Idempotency-Key: "+key)
	}
	first, again := ask("/api/v1/peers", `{"addr":"/ip4/10.0.0.2/tcp/1/p2p/12D3KooWa"}`, "k1"), ask("/api/v1/peers", `{"addr":"/ip4/10.0.0.2/tcp/1/p2p/12D3KooWa"}`, "k1")
	if first.Code != 201 || again.Code != 201 || first.Body.String() != again.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" ||
		again.Header().Get("X-Request-Id") == first.Header().Get("X-Request-Id") {
		t.Errorf("%d %s, again %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	if n := len(b.node.dialled); n != 1 {
		t.Errorf("dialled %d times", n)
	}
	if w := ask("/api/v1/peers", `{"addr":"/ip4/10.0.0.3/tcp/1/p2p/12D3KooWa"}`, "k1"); w.Code != 422 {
		t.Errorf("another request under the key: status %d", w.Code)
	}
	if w := ask("/api/v1/peers", `{"addr":"x"}`, "k2"); w.Code != 400 {
		t.Errorf("status %d", w.Code)
	}
	if w := ask("/api/v1/peers", `{"addr":"x"}`, "k2"); w.Code != 400 || w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("a refusal is no answer: status %d", w.Code)
	}
	if w := ask("/api/v1/node/resume", "", strings.Repeat("k", 200)); w.Code != 400 {
		t.Errorf("a long key: status %d", w.Code)
	}
	for i := range 1000 { // many keys take no more than their memory
		ask("/api/v1/node/resume", "", fmt.Sprint("key", i))
	}
	if w := ask("/api/v1/node/resume", "", "key999"); w.Header().Get("Idempotency-Replayed") != "true" {
		t.Error("the last key is forgotten")
	}
	if w := ask("/api/v1/node/resume", "", "key1"); w.Header().Get("Idempotency-Replayed") != "" {
		t.Error("the first key is still known")
	}
}
