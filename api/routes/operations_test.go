package routes

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/operations"
	"whorl/swarm"
)

// begun reads the operation that a reply tells of.
func begun(t *testing.T, w *httptest.ResponseRecorder) (o gen.Operation) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || w.Header().Get("Location") != "/api/v1/operations/"+o.Id {
		t.Fatalf("%v, Location %q: %s", err, w.Header().Get("Location"), w.Body)
	}
	return o
}

// What takes a while is begun, looked at, waited for, followed and cancelled.
func TestOperations(t *testing.T) {
	b := newBench(t, nil)
	h := b.api.Admin()
	b.node.hold = make(chan struct{})
	w := do(h, "POST", "/api/v1/node/restart", "")
	o := begun(t, w)
	if w.Code != 202 || o.Kind != "restart" || o.State != "running" || o.Done || !o.Cancellable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	at := w.Header().Get("Location")
	// Others of its kind, or that exclude it, are refused with its address.
	for _, path := range []string{"/api/v1/node/restart", "/api/v1/node/benchmark", "/api/v1/node/rebalance"} {
		if w := do(h, "POST", path, ""); w.Code != 409 || w.Header().Get("Location") != at || !strings.Contains(w.Body.String(), `"operation_running"`) || !strings.Contains(w.Body.String(), at) {
			t.Errorf("%s beside it: status %d, %v: %s", path, w.Code, w.Header(), w.Body)
		}
	}
	if w := do(h, "POST", "/api/v1/node/rebalance", `{"dry_run":true}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"from":"0:4","to":"4:8"`) {
		t.Errorf("a dry run beside it: status %d: %s", w.Code, w.Body)
	}
	// Who drains twice drains once, and who resumes ends it.
	drain := begun(t, do(h, "POST", "/api/v1/node/drain", `{"reason":"disk"}`))
	if again := begun(t, do(h, "POST", "/api/v1/node/drain", "")); again.Id != drain.Id || b.node.reason != "disk" {
		t.Errorf("drained again: %s, %s", again.Id, b.node.reason)
	}
	if w := do(h, "POST", "/api/v1/node/resume?wait=5s", ""); w.Code != 200 || begun(t, w).State != "done" || b.node.state != swarm.Online {
		t.Errorf("resume: status %d: %s", w.Code, w.Body)
	}
	if w := do(h, "POST", "/api/v1/node/resume?wait=x", ""); w.Code != 400 {
		t.Errorf("a wrong time to wait: status %d", w.Code)
	}
	w = do(h, "GET", "/api/v1/operations/"+drain.Id, "")
	if json.Unmarshal(w.Body.Bytes(), &drain); drain.State != "cancelled" || drain.Error.Code != "cancelled" || drain.Progress.Total != 3 {
		t.Errorf("the drain: %s", w.Body)
	}
	// One that is cancelled while somebody waits for it is an error to them.
	srv := httptest.NewServer(h)
	defer srv.Close()
	stream, err := http.Get(srv.URL + at + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Scan()
	if got := lines.Text(); got != "event: progress" {
		t.Errorf("the stream begins with %q", got)
	}
	if w := do(h, "DELETE", at, ""); w.Code != 202 {
		t.Errorf("cancel: status %d: %s", w.Code, w.Body)
	}
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if !strings.Contains(strings.Join(rest, "\n"), "\nevent: cancelled\ndata: {") {
		t.Errorf("the stream ends with %q", rest)
	}
	if w := do(h, "GET", at+"?wait=1m", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"cancelled by the operator"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := do(h, "DELETE", at, ""); w.Code != 200 {
		t.Errorf("cancel again: status %d: %s", w.Code, w.Body)
	}
	// A shutdown cannot be cancelled, and is one however often it is asked for.
	end := begun(t, do(h, "POST", "/api/v1/node/shutdown", ""))
	if again := begun(t, do(h, "POST", "/api/v1/node/shutdown", "")); again.Id != end.Id || end.Cancellable {
		t.Errorf("%+v, again %+v", end, again)
	}
	if w := do(h, "DELETE", "/api/v1/operations/"+end.Id, ""); w.Code != 409 || !strings.Contains(w.Body.String(), "not_cancellable") {
		t.Errorf("cancel of a shutdown: status %d: %s", w.Code, w.Body)
	}
	close(b.node.hold)
	if w := do(h, "POST", "/api/v1/node/benchmark?wait=5s", `{"seconds":0.5}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"rates":{"forward_rps":2}`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	// One that fails while somebody waits has the status of its error.
	if w := do(h, "POST", "/api/v1/node/rebalance?wait=5s", `{"to":"4:12"}`); w.Code != 400 || !strings.Contains(w.Body.String(), "org/toy has blocks 0:8") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := do(h, "GET", "/api/v1/operations?limit=2", "", "Accept: text/plain"); !strings.HasPrefix(w.Body.String(), "ID ") || !strings.Contains(w.Body.String(), "rebalance  failed") || strings.Count(w.Body.String(), "\n") != 3 {
		t.Errorf("%s", w.Body)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/api/v1/node/drain?wait=1h", ""}, {"POST", "/api/v1/node/drain", `{"deadline_s":0}`}, {"POST", "/api/v1/node/rebalance", `{"to":"5:4"}`},
		{"POST", "/api/v1/node/rebalance", `{"to":"4:8","dry_run":true}`}, {"POST", "/api/v1/node/benchmark", `{"seconds":31}`},
	} {
		if w := do(h, c.method, c.path, c.body); w.Code != 400 {
			t.Errorf("%s %s %s: status %d: %s", c.method, c.path, c.body, w.Code, w.Body)
		}
	}
}

// What a request began is found by its key when the node has started anew, unless it failed: then it
// may be tried again. Nobody finds what another's key began.
func TestOperationsOfEarlierRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "operations.json")
	run := func() *bench {
		return newBench(t, func(c *api.Config) { c.Operations = operations.Open(t.Context(), path, nil) })
	}
	const rebalance, key = "/api/v1/node/rebalance?wait=5s", "Idempotency-Key: move"
	h := run().api.Admin()
	done := begun(t, do(h, "POST", "/api/v1/node/benchmark?wait=5s", `{"seconds":0.5}`, "Idempotency-Key: measure"))
	if w := do(h, "POST", rebalance, `{"to":"4:12"}`, key); w.Code != 400 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	held := run()
	held.node.hold = make(chan struct{})
	cut := begun(t, do(held.api.Admin(), "POST", "/api/v1/node/restart", "", "Idempotency-Key: restart"))

	b := run()
	h = b.api.Admin()
	w := do(h, "POST", "/api/v1/node/benchmark?wait=5s", `{"seconds":0.5}`, "Idempotency-Key: measure")
	if again := begun(t, w); w.Code != 200 || again.Id != done.Id || w.Header().Get("Idempotency-Replayed") != "true" || again.Metadata["seconds"] != "0.5" || again.Result == nil {
		t.Errorf("sent again: status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	if w := do(h, "POST", "/api/v1/node/benchmark?wait=5s", `{"seconds":0.7}`, "Idempotency-Key: measure"); w.Code != 422 {
		t.Errorf("another request: status %d: %s", w.Code, w.Body)
	}
	if w := do(h, "GET", "/api/v1/operations/"+cut.Id+"?wait=5s", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"code":"interrupted"`) || !strings.Contains(w.Body.String(), `"state":"failed"`) {
		t.Errorf("what was cut off: status %d: %s", w.Code, w.Body)
	}
	if w := do(h, "POST", "/api/v1/node/restart?wait=5s", "", "Idempotency-Key: restart"); w.Code != 200 || begun(t, w).Id == cut.Id {
		t.Errorf("tried again: status %d: %s", w.Code, w.Body)
	}
	close(held.node.hold)
	held.cfg.Operations.Close()
}

// Who waits holds a connection: one caller can hold so many, what is refused was not begun, and comes
// through when it is sent again.
func TestWaitsAreBounded(t *testing.T) {
	b := newBench(t, nil)
	h := b.api.Admin()
	b.node.hold = make(chan struct{})
	at := do(h, "POST", "/api/v1/node/restart", "").Header().Get("Location")
	ctx, stop := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	for range 16 {
		waits.Go(func() {
			for refused := true; refused && ctx.Err() == nil; { // one that looks below may have the place
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1"+at+"?wait=5m", nil))
				refused = w.Code == 429
			}
		})
	}
	for do(h, "GET", at+"?wait=1ms", "").Code != 429 { // until all of them wait
	}
	drain := func() *httptest.ResponseRecorder {
		return do(h, "POST", "/api/v1/node/drain?wait=1ms", "", "Idempotency-Key: once")
	}
	if w := drain(); w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"queue_full"`) {
		t.Errorf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	if w := do(h, "GET", at+"/events", ""); w.Code != 429 {
		t.Errorf("a stream beside them: status %d", w.Code)
	}
	if w := do(h, "GET", "/api/v1/operations", ""); w.Code != 200 || strings.Contains(w.Body.String(), `"drain"`) {
		t.Errorf("what was refused was begun: %s", w.Body)
	}
	if w := do(h, "GET", at, ""); w.Code != 200 {
		t.Errorf("a look without a wait: status %d", w.Code)
	}
	stop()
	waits.Wait()
	if w := drain(); w.Code != 202 && w.Code != 200 {
		t.Errorf("afterwards: status %d: %s", w.Code, w.Body)
	}
	close(b.node.hold)
}
