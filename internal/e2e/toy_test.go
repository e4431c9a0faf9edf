//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// toy is the folder of the toy model: 8 blocks, random weights.
const toy = "../swarmtest/testdata/toy"

// reference is what transformers gives greedily for a prompt.
type reference struct {
	Prompt    string    `json:"prompt"`
	PromptIDs []int32   `json:"ids"`
	IDs       []int32   `json:"new"`
	Margins   []float64 `json:"margins"` // of the two best logits at each step
	Text      string    `json:"text"`
	Joined    []int32   `json:"joined"` // prompt, ten new ids, " and"
	After     []int32   `json:"after"`  // what follows
}

// refs are the references whose first n steps are decided by more than 1e-3: closer ones
// say nothing.
func refs(t *testing.T, n int) []reference {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(toy, "ref.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Prompts []reference `json:"prompts"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	var clear []reference
	for _, r := range all.Prompts {
		if len(r.IDs) >= n && slices.Min(r.Margins[:n]) > 1e-3 {
			clear = append(clear, r)
		}
	}
	if len(clear) < 8 {
		t.Fatalf("%d of %d references are clear over %d steps, want at least 8", len(clear), len(all.Prompts), n)
	}
	return clear
}

// swarm is a bootstrap, servers with the given spans, and a gateway.
type swarm struct {
	bootstrap *node
	servers   []*node
	gateway   *node
}

// spawn starts a swarm of the toy model; extra flags go to every server.
func spawn(t *testing.T, spans []string, extra ...string) *swarm {
	t.Helper()
	s := &swarm{bootstrap: start(t, "bootstrap", "--new-swarm", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")}
	for _, span := range spans {
		s.servers = append(s.servers, launch(t, s.serverArgs(span, extra...)...))
	}
	for i, n := range s.servers {
		if err := n.wait(t, patience); err != nil {
			t.Fatalf("server %s: %v\n%s", spans[i], err, n.log)
		}
	}
	s.gateway = start(t, "gateway", toy, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")
	return s
}

func (s *swarm) serverArgs(span string, extra ...string) []string {
	return append([]string{"serve", toy, "--initial-peers", s.peers(), "--block-indices", span,
		"--http", "off", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "1000", "--update-period", "1s"}, extra...)
}

func (s *swarm) peers() string { return strings.Join(s.bootstrap.Addrs, ",") }

// completion is the part of an OpenAI completion that the cases look at.
type completion struct {
	Choices []struct {
		Text         string  `json:"text"`
		FinishReason string  `json:"finish_reason"`
		TokenIDs     []int32 `json:"token_ids"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
		Param   string `json:"param"`
	} `json:"error"`
}

// post sends a completion request and returns the status and the answer.
func (s *swarm) post(t *testing.T, body map[string]any) (int, completion) {
	t.Helper()
	if body["model"] == nil {
		body["model"] = s.model(t)
	}
	b, _ := json.Marshal(body)
	resp, err := http.Post(s.gateway.HTTP+"/v1/completions", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var c completion
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatalf("status %d: %v in %.300s", resp.StatusCode, err, raw)
	}
	return resp.StatusCode, c
}

// model is the name the gateway serves.
func (s *swarm) model(t *testing.T) string {
	t.Helper()
	var list struct {
		Data []struct{ ID string } `json:"data"`
	}
	get(t, s.gateway.HTTP+"/v1/models", &list)
	if len(list.Data) != 1 {
		t.Fatalf("the gateway lists %d models, want 1", len(list.Data))
	}
	return list.Data[0].ID
}

// get reads JSON.
func get(t *testing.T, url string, v any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil || resp.StatusCode != 200 {
		t.Fatalf("GET %s: status %d, %v", url, resp.StatusCode, err)
	}
}

// frame is a message of the gateway's WebSocket.
type frame struct {
	OK         bool    `json:"ok"`
	Outputs    *string `json:"outputs"`
	Stop       bool    `json:"stop"`
	TokenCount int     `json:"token_count"`
	TokenIDs   []int32 `json:"token_ids"`
	Traceback  string  `json:"traceback"`
	StopReason string  `json:"stop_reason"`
	SessionID  string  `json:"session_id"`
}

// socket is an open session.
type socket struct {
	t *testing.T
	c *websocket.Conn
}

// open opens a WebSocket session with a budget of positions.
func (s *swarm) open(t *testing.T, budget int) *socket {
	t.Helper()
	u, _ := url.Parse(s.gateway.HTTP)
	c, _, err := websocket.DefaultDialer.Dial("ws://"+u.Host+"/api/v2/generate", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	k := &socket{t, c}
	k.send(map[string]any{"type": "open_inference_session", "model": s.model(t), "max_length": budget})
	if f := k.read(); !f.OK {
		t.Fatalf("open: %s", f.Traceback)
	}
	return k
}

func (k *socket) send(m map[string]any) {
	k.t.Helper()
	if err := k.c.WriteJSON(m); err != nil {
		k.t.Fatal(err)
	}
}

// read reads one frame; a stream that stays silent for long fails the test.
func (k *socket) read() frame {
	k.t.Helper()
	k.c.SetReadDeadline(time.Now().Add(patience))
	var f frame
	if err := k.c.ReadJSON(&f); err != nil {
		k.t.Fatalf("read: %v", err)
	}
	return f
}

// generate sends a turn and reads it to its end; each is called with every frame.
func (k *socket) generate(m map[string]any, each func(n int)) (ids []int32, text string, last frame) {
	k.t.Helper()
	m["type"], m["return_token_ids"] = "generate", true
	k.send(m)
	for {
		f := k.read()
		if !f.OK {
			return ids, text, f
		}
		ids = append(ids, f.TokenIDs...)
		if f.Outputs != nil {
			text += *f.Outputs
		}
		if each != nil {
			each(len(ids))
		}
		if f.Stop {
			return ids, text, f
		}
	}
}

func equal(t *testing.T, what string, got, want []int32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func idList(ids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}
