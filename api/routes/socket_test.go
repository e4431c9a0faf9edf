package routes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"whorl/client/sample"
	"whorl/swarm"
)

// peer is the client's end of a socket under test.
type peer struct {
	t *testing.T
	c *websocket.Conn
	b *bench
}

func dial(t *testing.T, b *bench, header http.Header, protocols ...string) *peer {
	t.Helper()
	srv := httptest.NewServer(b.api.Public())
	t.Cleanup(srv.Close)
	d := websocket.Dialer{Subprotocols: protocols}
	c, resp, err := d.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/api/v2/generate", header)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		t.Error("no X-Request-Id on the upgrade")
	}
	t.Cleanup(func() { c.Close() })
	return &peer{t, c, b}
}

func (p *peer) send(frame string) {
	p.t.Helper()
	if err := p.c.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
}

// read reads one frame and checks that it is one of the contract's.
func (p *peer) read() map[string]any {
	p.t.Helper()
	p.c.SetReadDeadline(time.Now().Add(patience))
	_, b, err := p.c.ReadMessage()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		p.t.Fatal(err)
	}
	schema := "SocketOpened"
	switch {
	case m["ok"] == false:
		schema = "SocketFailure"
		if text, ok := m["traceback"].(string); !ok || strings.Contains(text, "\n") || strings.Contains(text, "goroutine") {
			p.t.Errorf("traceback %q", text)
		}
	case m["outputs"] != nil:
		schema = "SocketDelta"
	case m["type"] == "pong":
		schema = "SocketPong"
	case m["type"] != nil:
		schema = "SocketState"
	}
	checkSchema(p.t, schema, p.b.doc.Components.Schemas[schema].Value, b)
	return m
}

// want reads a frame and compares the fields given.
func (p *peer) want(fields string) map[string]any {
	p.t.Helper()
	var want map[string]any
	if err := json.Unmarshal([]byte(fields), &want); err != nil {
		p.t.Fatal(err)
	}
	got := p.read()
	for name, v := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(v) {
			p.t.Errorf("%s is %v, want %v in %v", name, got[name], v, got)
		}
	}
	return got
}

// wantClose reads until the close frame.
func (p *peer) wantClose(code int) {
	p.t.Helper()
	p.c.SetReadDeadline(time.Now().Add(patience))
	_, b, err := p.c.ReadMessage()
	if !websocket.IsCloseError(err, code) {
		p.t.Errorf("got %q, %v, want close code %d", b, err, code)
	}
}

func (p *peer) open(limit int) {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"type":"open_inference_session","model":"org/toy","max_length":%d}`, limit))
	p.want(fmt.Sprintf(`{"ok":true,"session_id":"00112233","model":"org/toy","max_length":%d,"protocol":2}`, limit))
}

func TestSocketManyBeams(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":30,"num_beams":9}`)
	if m := p.want(`{"ok":false}`); m["error"].(map[string]any)["param"] != "num_beams" || len(b.engine.opened) > 0 {
		t.Errorf("%v", m)
	}
}

// A session is opened for so many beams, and a turn may use as many; what is wrong with
// one leaves the session as it was.
func TestSocketSearch(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":30,"num_beams":3}`)
	p.want(`{"ok":true,"max_length":30}`)
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":2,"num_beams":2,"early_stopping":"maybe"}`)
	if m := p.want(`{"ok":false}`); m["error"].(map[string]any)["param"] != "early_stopping" {
		t.Errorf("%v", m)
	}
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":3,"num_beams":3,"length_penalty":"0.5","early_stopping":true}`)
	p.want(`{"ok":true,"outputs":"bcd","stop":true,"token_count":3}`)
	r := b.engine.requests()[0]
	if b.engine.opened[0].Beams != 3 || r.Beams != (sample.BeamParams{Beams: 3, LengthPenalty: 0.5, Early: sample.EarlyTrue, Return: 1}) {
		t.Errorf("opened %+v, asked %+v", b.engine.opened[0], r.Beams)
	}
	p.send(`{"type":"generate","inputs":"x","max_new_tokens":2,"num_beams":2,"do_sample":1,"temperature":0.5,"seed":7}`)
	p.want(`{"ok":true,"stop":true}`)
	if r := b.engine.requests()[1]; r.Beams.Beams != 2 || r.Sampling.Temperature != 0.5 || r.Sampling.Seed != 7 {
		t.Errorf("drawn: %+v", r)
	}
	p.send(`{"type":"generate","inputs":"x","max_new_tokens":2,"guidance_scale":"1.5","negative_prompt":"yz"}`)
	p.want(`{"ok":true,"stop":true}`)
	if g := b.engine.requests()[2].Guidance; g == nil || g.Scale != 1.5 || fmt.Sprint(g.Other) != "[1 121 122]" {
		t.Errorf("guided: %+v", g)
	}
	p.send(`{"type":"generate","inputs":"x","max_new_tokens":2,"guidance_scale":2,"negative_prompt_ids":[999]}`)
	if m := p.want(`{"ok":false}`); m["error"].(map[string]any)["param"] != "negative_prompt_ids" {
		t.Errorf("%v", m)
	}
}

// The protocol as clients of the Petals gateway know it.
func TestSocketLegacy(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	// As the upstream example: nobody waits for the open's reply.
	p.send(`{"type":"open_inference_session","model":"org/toy","max_length":"100"}`)
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":"1","stop_sequence":"d","extra_stop_sequences":["z"],"do_sample":0}`)
	if m := p.read(); m["ok"] != true || m["outputs"] != nil {
		t.Errorf("open reply %v", m)
	}
	p.want(`{"ok":true,"outputs":"b","stop":false,"token_count":1}`)
	p.want(`{"ok":true,"outputs":"c","stop":false,"token_count":1}`)
	p.want(`{"ok":true,"outputs":"d","stop":false,"token_count":1}`)
	m := p.want(`{"ok":true,"outputs":"","stop":true,"token_count":0,"stop_reason":"stop","stop_match":"d","position":5}`)
	if fmt.Sprint(m["usage"]) != "map[completion_tokens:3 prompt_tokens:2]" || fmt.Sprint(m["route"]) != "[map[blocks:0:8 peer:12D3KooWabcdef]]" {
		t.Errorf("last frame %v", m)
	}
	// Without a stop sequence: one reply. The cache is kept: no begin token, no old text.
	p.send(`{"type":"generate","inputs":"xy","max_new_tokens":2,"return_token_ids":1}`)
	p.want(`{"ok":true,"outputs":"za","stop":true,"token_count":2,"token_ids":[122,97],"position":9,"stop_reason":"length"}`)
	p.send(`{"type":"generate","inputs":null,"max_new_tokens":1}`)
	p.want(`{"outputs":"b","stop":true,"position":10}`)
	var prompts []string
	for _, r := range b.engine.requests() {
		prompts = append(prompts, fmt.Sprint(r.Prompt))
	}
	if got := strings.Join(prompts, " "); got != "[1 97] [120 121] []" {
		t.Errorf("prompts %s", got)
	}
	p.c.Close()
	eventually(t, func() bool { return b.engine.closedSessions() == 1 })
}

// Frames of several tokens, as many as max_new_tokens, where there is a stop sequence.
func TestSocketGroups(t *testing.T) {
	p := dial(t, newBench(t, nil), nil)
	p.open(100)
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":2,"stop_sequence":"f"}`)
	p.want(`{"outputs":"bc","token_count":2,"stop":false}`)
	p.want(`{"outputs":"de","token_count":2,"stop":false}`)
	p.want(`{"outputs":"f","token_count":1,"stop":true}`)
	p.send(`{"type":"generate","max_new_tokens":3,"stream":true}`)
	p.want(`{"outputs":"g","token_count":1,"stop":false}`)
	p.want(`{"outputs":"h","token_count":1,"stop":false}`)
	p.want(`{"outputs":"i","token_count":1,"stop":false}`)
	p.want(`{"outputs":"","token_count":0,"stop":true,"stop_reason":"length"}`)
}

// CASE-023: the budget is checked before any compute, and the session survives.
func TestSocketBudget(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	p.open(64)
	prompt := strings.Repeat("a", 49) // and the begin token
	p.send(fmt.Sprintf(`{"type":"generate","inputs":%q,"max_new_tokens":20}`, prompt))
	m := p.read()
	if text := m["traceback"].(string); m["ok"] != false || text != "Maximum length exceeded: prefix 0 + prompt 50 + new 20 exceeds pre-allocated maximum 64" {
		t.Errorf("%v", m)
	}
	if e := m["error"].(map[string]any); e["code"] != "max_length" || e["position"] != 0. || e["prompt_tokens"] != 50. || e["max_new_tokens"] != 20. || e["max_length"] != 64. || e["retryable"] != false {
		t.Errorf("%v", e)
	}
	if n := len(b.engine.requests()); n != 0 {
		t.Errorf("%d turns were computed", n)
	}
	p.send(fmt.Sprintf(`{"type":"generate","inputs":%q,"max_new_tokens":14}`, prompt))
	p.want(`{"ok":true,"stop":true,"token_count":14,"position":64}`)
	// Full: nothing more, until it is cut back.
	p.send(`{"type":"generate","max_new_tokens":1}`)
	p.want(`{"ok":false,"traceback":"Maximum length exceeded: prefix 64 + prompt 0 + new 1 exceeds pre-allocated maximum 64"}`)
	p.send(`{"type":"truncate","position":62}`)
	p.want(`{"ok":true,"type":"truncate","position":62}`)
	p.send(`{"type":"truncate","position":63}`)
	p.want(`{"ok":false}`)
	// A stop sequence that never comes ends with the phrase that clients look for.
	p.send(`{"type":"generate","max_new_tokens":1,"stop_sequence":"Z"}`)
	p.want(`{"ok":true,"token_count":1,"stop":false}`)
	p.want(`{"ok":true,"token_count":1,"stop":false}`)
	p.want(`{"ok":false,"traceback":"Maximum length exceeded: prefix 64 + prompt 0 + new 1 exceeds pre-allocated maximum 64"}`)
	p.send(`{"type":"close"}`)
	p.want(`{"ok":true,"type":"close"}`)
	p.wantClose(websocket.CloseNormalClosure)
}

// A turn with a bad value is refused; the dialogue goes on.
func TestSocketBadValues(t *testing.T) {
	p := dial(t, newBench(t, nil), nil)
	p.open(100)
	for frame, param := range map[string]string{
		`{"type":"generate","inputs":"a","max_new_tokens":1,"temperature":-1}`:                           "temperature",
		`{"type":"generate","inputs":"a","max_new_tokens":1,"top_p":1.5}`:                                "top_p",
		`{"type":"generate","inputs":"a","max_new_tokens":1,"top_k":"x"}`:                                "top_k",
		`{"type":"generate","inputs":"a"}`:                                                               "max_new_tokens",
		`{"type":"generate","max_new_tokens":1}`:                                                         "inputs",
		`{"type":"generate","messages":[{"role":"robot"}],"max_new_tokens":1}`:                           "messages.0.role",
		`{"type":"generate","messages":[{"role":"user","content":"a"}],"inputs":"a","max_new_tokens":1}`: "messages",
		`{"type":"generate","messages":[{"role":"system","content":"no template"}],"max_new_tokens":1}`:  "messages",
		`{"type":"generate","inputs":"a","max_new_tokens":1,"extra_stop_sequences":{}}`:                  "extra_stop_sequences",
		`{"type":"truncate"}`: "position",
	} {
		p.send(frame)
		m := p.want(`{"ok":false}`)
		if e := m["error"].(map[string]any); e["param"] != param {
			t.Errorf("%s: %v", frame, m)
		}
	}
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":1,"what":1,"temperature":0.5}`)
	m := p.want(`{"ok":true,"outputs":"b"}`)
	if got := fmt.Sprint(m["warnings"]); got != `[temperature has no effect without do_sample the unknown field "what" was ignored]` {
		t.Errorf("warnings %s", got)
	}
}

// What breaks the protocol ends the socket, with a reason.
func TestSocketBreaks(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		opened      bool
		kind        int
		openErr     error
		text        string
		code        int
	}{
		{name: "not JSON", frame: `{"type":`, text: "JSON", code: 1008},
		{name: "not an object", frame: `[]`, text: "JSON object", code: 1008},
		{name: "two objects", frame: `{"type":"ping"}{}`, text: "more than one", code: 1008},
		{name: "unknown type", frame: `{"type":"dance"}`, opened: true, text: "dance", code: 1008},
		{name: "no type", frame: `{}`, text: "type", code: 1008},
		{name: "binary", frame: `{}`, kind: websocket.BinaryMessage, text: "binary", code: 1008},
		{name: "generate before open", frame: `{"type":"generate","inputs":"a","max_new_tokens":1}`, text: "expected next", code: 1008},
		{name: "open twice", frame: `{"type":"open_inference_session","max_length":5}`, opened: true, text: "expected next", code: 1008},
		{name: "no length", frame: `{"type":"open_inference_session"}`, text: "max_length", code: 1008},
		{name: "no such model", frame: `{"type":"open_inference_session","model":"x","max_length":5}`, text: "not served", code: 1008},
		{name: "no room", frame: `{"type":"open_inference_session","max_length":5}`, openErr: swarm.Errorf(swarm.CodeCacheFull, swarm.Again, "all 16 pages are taken"), text: "attention cache is full", code: 1013},
		{name: "blocks missing", frame: `{"type":"open_inference_session","max_length":5}`, openErr: &swarm.Error{Code: swarm.CodeBlocksMissing, Verdict: swarm.Elsewhere, Message: "No servers holding blocks 4-7 of org/toy are online", Missing: []swarm.Span{{Start: 4, End: 8}}},
			text: "No servers holding blocks", code: 1013},
		{name: "broken", frame: `{"type":"open_inference_session","max_length":5}`, openErr: fmt.Errorf("open /secret/path: denied"), text: "internal error", code: 1011},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.engine.openErr = c.openErr
			p := dial(t, b, nil)
			if c.opened {
				p.open(10)
			}
			if c.kind == 0 {
				c.kind = websocket.TextMessage
			}
			p.c.WriteMessage(c.kind, []byte(c.frame))
			m := p.want(`{"ok":false}`)
			if text := m["traceback"].(string); !strings.Contains(text, c.text) || strings.Contains(text, "secret") {
				t.Errorf("traceback %q", text)
			}
			if e := m["error"].(map[string]any); c.code == 1013 && (e["retryable"] != true || e["retry_after_ms"] == nil) {
				t.Errorf("error %v", e)
			}
			p.wantClose(c.code)
			if c.opened {
				eventually(t, func() bool { return b.engine.closedSessions() == 1 })
			}
		})
	}
}

// A failure in the middle of a turn ends the socket; what was said before stays said.
func TestSocketTurnFails(t *testing.T) {
	b := newBench(t, nil)
	b.engine.dieAfter, b.engine.dieErr = 2, swarm.Errorf(swarm.CodePeerLost, swarm.Again, "server …abcdef is gone")
	p := dial(t, b, nil)
	p.open(50)
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":9,"stream":true}`)
	p.want(`{"outputs":"b"}`)
	p.want(`{"outputs":"c"}`)
	p.want(`{"ok":false,"traceback":"server …abcdef is gone"}`)
	p.wantClose(1013)
}

// cancel ends the turn with what it has and keeps the session.
func TestSocketCancelAndPing(t *testing.T) {
	b := newBench(t, nil)
	b.engine.step = make(chan struct{}, 1)
	p := dial(t, b, nil)
	p.open(100)
	p.send(`{"type":"cancel"}`)
	p.want(`{"ok":true,"type":"cancel","running":false}`)
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":9,"stream":true}`)
	b.engine.step <- struct{}{}
	p.want(`{"outputs":"b","stop":false}`)
	p.send(`{"type":"ping"}`)
	p.want(`{"ok":true,"type":"pong"}`) // while the turn runs
	p.send(`{"type":"cancel"}`)
	p.want(`{"ok":true,"type":"cancel","running":true}`)
	p.want(`{"stop":true,"stop_reason":"cancelled","position":3}`)

	p.send(`{"type":"generate","max_new_tokens":9}`) // and once before the first token
	eventually(t, func() bool { return len(b.engine.requests()) == 2 })
	p.send(`{"type":"cancel"}`)
	p.want(`{"ok":true,"type":"cancel"}`)
	p.want(`{"ok":true,"stop":true,"stop_reason":"cancelled","outputs":"","token_count":0}`)
	b.engine.step <- struct{}{}
	p.send(`{"type":"generate","max_new_tokens":1}`)
	p.want(`{"outputs":"c","stop":true,"stop_reason":"length"}`)
}

// A turn's own deadline is a failure of that turn.
func TestSocketTimeout(t *testing.T) {
	b := newBench(t, nil)
	b.engine.step = make(chan struct{})
	p := dial(t, b, nil)
	p.open(100)
	p.send(`{"type":"generate","inputs":"a","max_new_tokens":9,"timeout":0.01}`)
	m := p.want(`{"ok":false}`)
	if e := m["error"].(map[string]any); e["code"] != "timeout" {
		t.Errorf("%v", m)
	}
	p.wantClose(1013)
}

// A conversation given whole each time is computed only where it is new.
func TestSocketMessages(t *testing.T) {
	b := newBench(t, nil)
	b.engine.eosAfter = 2
	p := dial(t, b, nil)
	p.open(200)
	p.send(`{"type":"generate","messages":[{"role":"user","content":"hi"}],"stream":true,"max_new_tokens":5}`)
	p.want(`{"outputs":"a","stop":false}`)
	p.want(`{"outputs":"b","stop":false}`)
	p.want(`{"outputs":"","stop":false,"token_count":1}`) // the end token is counted and not shown
	m := p.want(`{"stop":true,"stop_reason":"eos","outputs":""}`)
	if fmt.Sprint(m["usage"]) != "map[cached_tokens:0 completion_tokens:3 prompt_tokens:10]" {
		t.Errorf("first turn: %v", m["usage"])
	}
	// "<s><u>hi\n<a>" + "ab" are held; the end token is where the template goes on.
	p.send(`{"type":"generate","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ab"},{"role":"user","content":"x"}],"max_new_tokens":1}`)
	m = p.want(`{"stop":true}`)
	if fmt.Sprint(m["usage"]) != "map[cached_tokens:12 completion_tokens:1 prompt_tokens:9]" || m["position"] != 22. {
		t.Errorf("second turn: %v", m)
	}
	// The same again: the last id runs once more, what came after it is cut.
	p.send(`{"type":"generate","messages":[{"role":"user","content":"hi"}],"max_new_tokens":1}`)
	m = p.want(`{"stop":true}`)
	if fmt.Sprint(m["usage"]) != "map[cached_tokens:9 completion_tokens:1 prompt_tokens:1]" || m["position"] != 11. {
		t.Errorf("regenerated: %v", m)
	}
}
