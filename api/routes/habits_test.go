package routes

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"whorl/api/gen"
	"whorl/client"
	"whorl/swarm"
)

// What clients and models write for the arguments of a call.
func TestArguments(t *testing.T) {
	body := func(function string) string {
		return `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":` + function + `}]}],"max_tokens":1,"return_token_ids":true}`
	}
	prompt := func(function string) string {
		w := do(newBench(t, nil).api.Public(), "POST", "/v1/chat/completions", body(function))
		var out gen.ChatCompletion
		if json.Unmarshal(w.Body.Bytes(), &out); w.Code != 200 {
			t.Fatalf("%s: status %d: %s", function, w.Code, w.Body)
		}
		var b []byte
		for _, id := range out.Choices[0].PromptTokenIds {
			b = append(b, byte(id))
		}
		return string(b)
	}
	for function, want := range map[string]string{
		`{"name":"f"}`:                             `"arguments":{}`,
		`{"name":"f","arguments":null}`:            `"arguments":{}`,
		`{"name":"f","arguments":"oops {"}`:        `"arguments":"oops {"`,
		`{"name":"picky","arguments":"oops {"}`:    `"arguments":{"arguments":"oops {"}`,
		`{"name":"picky","arguments":"{\"a\":1}"}`: `"arguments":{"a":1}`,
	} {
		if got := prompt(function); !strings.Contains(got, want) {
			t.Errorf("%s: the template got %s", function, got)
		}
	}
}

// Where servers hold less than the model takes, the list of models says so, defaults are
// clipped to it, and what is asked beyond it is refused in the words that clients look for.
func TestRoom(t *testing.T) {
	b := newBench(t, nil)
	b.engine.room = 100
	var m gen.OpenAIModel
	if json.Unmarshal(do(b.api.Public(), "GET", "/v1/models/org/toy", "").Body.Bytes(), &m); m.ContextLength != 100 {
		t.Errorf("context_length %d", m.ContextLength)
	}
	chat := func(n int, more string) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]%s}`, strings.Repeat("a", n), more)
	}
	text := func(n int, more string) string { return fmt.Sprintf(`{"prompt":%q%s}`, strings.Repeat("a", n), more) }
	for _, c := range []struct {
		path, body string
		tokens     int    // of the answer
		overflow   string // or this
	}{
		{"chat/completions", chat(50, ""), 100 - 58, ""}, // 8 of the template
		{"chat/completions", chat(91, ""), 1, ""},
		{"chat/completions", chat(92, ""), 0, "100 tokens. However, you requested 101 tokens (100 in the messages, 1 in the completion)"},
		{"chat/completions", chat(50, `,"max_tokens":43`), 0, "100 tokens. However, you requested 101 tokens (58 in the messages, 43 in the completion)"},
		{"completions", text(95, ""), 4, ""},
		{"completions", text(95, `,"max_tokens":16`), 0, "100 tokens. However, you requested 112 tokens (96 in the prompt, 16 in the completion)"},
	} {
		w := do(b.api.Public(), "POST", "/v1/"+c.path, c.body)
		var out struct{ Usage gen.Usage }
		json.Unmarshal(w.Body.Bytes(), &out)
		if c.overflow == "" && (w.Code != 200 || out.Usage.CompletionTokens != c.tokens) {
			t.Errorf("%s: status %d: %s", c.path, w.Code, w.Body)
		}
		if c.overflow != "" && (w.Code != 400 || !strings.Contains(w.Body.String(), "This model's maximum context length is "+c.overflow) || !strings.Contains(w.Body.String(), "context_length_exceeded")) {
			t.Errorf("%s: status %d: %s", c.path, w.Code, w.Body)
		}
	}
	b.engine.openErr = swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "%w", &client.RoomError{Asked: 60, Most: 50}) // servers left in between
	if w := do(b.api.Public(), "POST", "/v1/completions", text(43, "")); w.Code != 400 || !strings.Contains(w.Body.String(), "maximum context length is 50 tokens. However, you requested 60 tokens") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// JSON does not tell 2 from 2.0.
func TestWholeNumbers(t *testing.T) {
	b := newBench(t, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":2.0,"n":1.0,"top_k":1e1,"seed":7.0,"logprobs":true,"top_logprobs":1.0,"min_tokens":1.0,"no_repeat_ngram_size":0.0,"num_beams":1.0,"tools":[{"type":"function","function":{"name":"f"},"x":2.0}]}`,
		"/v1/completions":      `{"prompt":[1.0,97],"max_completion_tokens":2.0,"best_of":1.0,"logprobs":1.0}`,
		"/api/v1/generate":     `{"inputs":"a","max_new_tokens":2.0,"seed":7.0,"top_k":3.0}`,
	} {
		if w := do(b.api.Public(), "POST", path, body); w.Code != 200 || strings.Contains(w.Body.String(), `"ok":false`) {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
	for _, r := range b.engine.requests() {
		if r.MaxNewTokens != 2 {
			t.Errorf("%d tokens asked for", r.MaxNewTokens)
		}
	}
	if w := do(b.api.Public(), "POST", "/v1/completions", `{"prompt":[[1.0,97.0],[98]],"max_tokens":1}`); w.Code != 200 {
		t.Errorf("lists: status %d: %s", w.Code, w.Body)
	}
}

// Bytes that are no text are refused wherever a text can stand.
func TestNotUTF8(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct{ path, body, media string }{
		{"/api/v1/generate", "{\"inputs\":\"a\xff\",\"max_new_tokens\":1}", "application/json"},
		{"/api/v1/generate", "inputs=a%ff&max_new_tokens=1", "application/x-www-form-urlencoded"},
		{"/api/v1/generate", "inputs=a&stop_sequence=%ff&max_new_tokens=1", "application/x-www-form-urlencoded"},
		{"/api/v1/generate", "inputs=a&extra_stop_sequences=%ff&max_new_tokens=1", "application/x-www-form-urlencoded"},
		{"/api/v1/generate?inputs=%ff", "max_new_tokens=1", "application/x-www-form-urlencoded"},
	} {
		if w := do(b.api.Public(), "POST", c.path, c.body, "Content-Type: "+c.media); !strings.Contains(w.Body.String(), "UTF-8") || !strings.Contains(w.Body.String(), `"ok":false`) {
			t.Errorf("%s %q: status %d: %s", c.path, c.body, w.Code, w.Body)
		}
	}
}

// A client that closes its half of the connection once it has asked gets the answer or
// nothing, never that the swarm is at fault.
func TestHalfClosed(t *testing.T) {
	b := newBench(t, nil)
	b.engine.step = make(chan struct{}) // no token ever
	srv := httptest.NewServer(b.api.Public())
	defer srv.Close()
	for _, path := range []string{"/v1/completions", "/api/v1/generate"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		body := `{"prompt":"a","inputs":"a","max_new_tokens":3}`
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		conn.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %s", path, err, got)
		}
		conn.Close()
	}
}
