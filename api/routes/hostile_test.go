package routes

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/api/openai"
	"whorl/client"
)

// A name in another case is not the field to the contract, but is to encoding/json: it is
// refused wherever it stands, since its value was not checked.
func TestNamesInAnotherCase(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct{ path, body, param string }{
		{"completions", `{"prompt":"a","Max_Tokens":2000000000000000}`, "max_tokens"},
		{"completions", `{"prompt":"a","Logprobs":500}`, "logprobs"},
		{"completions", `{"prompt":"a","\u017ftop":["x"]}`, "stop"}, // the long s folds to an s
		{"completions", `{"prompt":"a","stream_options":{"Include_Usage":5}}`, "stream_options.include_usage"},
		{"chat/completions", `{"messages":[{"role":"user","content":"a"}],"N":100}`, "n"},
		{"chat/completions", `{"messages":[{"role":"user","Role":"robot","content":"a"}]}`, "messages.0.role"},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"a","TYPE":"image_url"}]}]}`, "messages.0.content.0.type"},
		{"chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"Function":{},"function":{"name":"f","arguments":{}}}]}]}`, "messages.0.tool_calls.0.function"},
	} {
		w := do(b.api.Public(), "POST", "/v1/"+c.path, c.body)
		var got gen.OpenAIErrorReply
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 400 || api.Value(got.Error.Param, "") != c.param || !strings.Contains(got.Error.Message, "write "+c.param) {
			t.Errorf("%s: status %d, %s", c.body, w.Code, w.Body)
		}
	}
	// Inside of what goes to a template names are the template's business.
	if w := do(b.api.Public(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"chat_template_kwargs":{"Role":1}}`); w.Code != 200 {
		t.Errorf("a variable: status %d, %s", w.Code, w.Body)
	}
}

// What is wrong with a value of several forms is said of the form it has.
func TestErrorsOfForms(t *testing.T) {
	b := newBench(t, nil)
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`:                     "messages.0.content.0.",
		`{"messages":[{"role":"user","content":5}]}`:                                                                  "messages.0.content is 5: want: Text, or text parts",
		`{"messages":[{"role":"user"}],"stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"]}`: "stop is wrong: maximum number of items is 16",
		`{"messages":[{"role":"user"}],"max_tokens":1e9}`:                                                             "max_tokens is 1e+09: want at most 1048576",
		`{"messages":[{"role":"user"}],"temperature":-1}`:                                                             "temperature is -1: want 0 (greedy) to 100",
	} {
		w := do(b.api.Public(), "POST", "/v1/chat/completions", body)
		var got gen.OpenAIErrorReply
		if json.Unmarshal(w.Body.Bytes(), &got); w.Code != 400 || !strings.Contains(got.Error.Message, want) {
			t.Errorf("%s: status %d, %s: want %s", body, w.Code, w.Body, want)
		}
	}
}

// Paths under /v1 answer in its form, pages or not.
func TestPathsBesideRoutes(t *testing.T) {
	b := newBench(t, func(c *api.Config) {
		c.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a page") })
	})
	for path, want := range map[string]string{
		"/v1": `"type":"invalid_request_error"`, "/v1/": `"type":"invalid_request_error"`, "/v1/models/": `"type":"invalid_request_error"`,
		"/v1/images": `"type":"invalid_request_error"`, "/api": `"title":"Not Found"`, "/api/": `"title":"Not Found"`,
	} {
		if w := do(b.api.Public(), "GET", path, ""); w.Code != 404 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
	}
	if w := do(b.api.Public(), "GET", "/v1x", ""); w.Body.String() != "a page" {
		t.Errorf("/v1x: %s", w.Body)
	}
}

func TestContentEncoding(t *testing.T) {
	b := newBench(t, nil)
	for coding, status := range map[string]int{"gzip": 415, "identity": 200} {
		for _, path := range []string{"/v1/completions", "/api/v1/generate"} {
			w := do(b.api.Public(), "POST", path, `{"prompt":"a","inputs":"a","max_new_tokens":1}`, "Content-Encoding: "+coding)
			if refused := strings.Contains(w.Body.String(), "content encoding"); refused != (status == 415) || path[1] == 'v' && w.Code != status {
				t.Errorf("%s to %s: status %d, %s", coding, path, w.Code, w.Body)
			}
		}
	}
}

// A browser that a client's library runs in asks for headers of that library.
func TestPreflightOfSDK(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Public = api.Listener{Origins: []string{"https://a.example"}} })
	w := do(b.api.Public(), "OPTIONS", "/v1/chat/completions", "", "Origin: https://a.example", "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization,content-type,x-stainless-os, X-Stainless-Retry-Count,openai-organization,openai-project,openai-beta,idempotency-key,http-referer,x-title,dangerously-allow-browser,x-stainless-a\"b")
	const want = "authorization, content-type, x-request-id, x-request-timeout, x-whorl-verify, x-stainless-os, x-stainless-retry-count, " +
		"openai-organization, openai-project, openai-beta, idempotency-key, http-referer, x-title, dangerously-allow-browser"
	if got := w.Header().Get("Access-Control-Allow-Headers"); w.Code != 204 || got != want {
		t.Errorf("status %d, allowed %q", w.Code, got)
	}
}

// Bodies that break off or never end are the client's fault, and are given up.
func TestBrokenBodies(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Limits.Body = 50 * time.Millisecond })
	srv := httptest.NewServer(b.api.Public())
	defer srv.Close()
	for _, path := range []string{"/v1/completions", "/api/v1/generate"} {
		for _, c := range []struct{ name, rest, want string }{
			{"chunk", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "cannot be read"},
			{"slow", "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "did not come within 50ms"},
			{"slow form", "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100\r\n\r\n--b\r\n", "did not come within 50ms"},
		} {
			if c.name == "slow form" && path[1] == 'v' {
				continue
			}
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n"+c.rest); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(conn) // until it is closed
			conn.Close()
			if got := string(all); err != nil || !strings.Contains(got, c.want) || path[1] == 'v' && !strings.HasPrefix(got, "HTTP/1.1 40") {
				t.Errorf("%s to %s: %v: %s", c.name, path, err, got)
			}
		}
	}
}

// A body has a deadline while it comes, and what comes after it has none.
func TestBodyDeadline(t *testing.T) {
	a := newBench(t, nil).api.api
	for _, body := range []string{"", "{}"} {
		begin := time.Now()
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		if _, err := a.ReadBody(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(body))); err != nil {
			t.Fatal(err)
		}
		if len(w.set) != 2 || w.set[0].Before(begin.Add(a.Limits.Body)) || !w.set[1].IsZero() {
			t.Errorf("body %q: deadlines %v, want one and its end", body, w.set)
		}
	}
}

// deadlines is a connection that notes its deadlines of reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// A query that is not well escaped is said so, not taken for an empty one.
func TestBadQuery(t *testing.T) {
	w := do(newBench(t, nil).api.Public(), "POST", "/api/v1/generate?inputs=%zz&max_new_tokens=2", "")
	if got := w.Body.String(); !strings.Contains(got, `"ok":false`) || !strings.Contains(got, "the query cannot be read") {
		t.Errorf("status %d, %s", w.Code, got)
	}
}

// A text that is not even encoded, for its length, is one that is too long.
func TestFarTooLong(t *testing.T) {
	f := api.Describe(api.EncodeError(&fakeEngine{room: 100}, "prompt", fmt.Errorf("encoding: %w", client.ErrTooLong)))
	want := "This model's maximum context length is 100 tokens. However, you requested 513 tokens"
	_, body := openai.Error(f, "")
	if got := body.(gen.OpenAIErrorReply).Error; f.Status != 400 || api.Value(got.Code, "") != "context_length_exceeded" || api.Value(got.Param, "") != "prompt" || !strings.HasPrefix(got.Message, want) {
		t.Errorf("status %d, %+v", f.Status, got)
	}
}
