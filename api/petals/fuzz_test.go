package petals

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"whorl/api"
	"whorl/internal/operations"
	"whorl/swarm"
)

// FuzzForm: whatever comes as a body is fields or an error of the caller's.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"inputs=a&max_new_tokens=3", "inputs=%zz", `{"inputs":"a","max_new_tokens":"3","extra_stop_sequences":["a",1]}`, "a=1&a=2&temperature=inf", `{"temperature":1e999}`, "", "{}", "null", `{"top_k":{}}`} {
		f.Add("application/x-www-form-urlencoded", s)
		f.Add("application/json", s)
	}
	f.Fuzz(func(t *testing.T, media, body string) {
		fs, err := fieldsOfBody(media, []byte(body))
		if err == nil {
			fs.add(fieldsOfForm(url.Values{"model": {"x"}}))
			fs.text("model", maxModelName)
			fuzzTurn(t, fs)
		} else if s := api.Describe(err).Status; s < 400 || s > 499 {
			t.Errorf("status %d: %v", s, err)
		}
	})
}

// fuzzTurn checks what a turn promises whatever it was read from.
func fuzzTurn(t *testing.T, fs *fields) {
	turn, err := parseTurn(fs)
	if err != nil {
		if api.Describe(err).Code != swarm.CodeBadRequest {
			t.Errorf("code %s: %v", api.Describe(err).Code, err)
		}
		return
	}
	if err := turn.req.Sampling.Validate(); err != nil {
		t.Errorf("accepted what the sampler refuses: %v", err)
	}
	if len(turn.req.Stop) > maxStops+1 || slices.Contains(turn.req.Stop, "") || turn.newTokens < 0 || turn.newTokens > maxPositions || turn.timeout < 0 {
		t.Errorf("%+v", turn)
	}
}

// FuzzFrame: whatever a client sends is a frame, or an error that ends the socket.
func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		`{"type":"open_inference_session","model":"m","max_length":"8"}`, `{"type":"generate","inputs":"a","max_new_tokens":1,"stop_sequence":"b","extra_stop_sequences":"c"}`,
		`{"type":"generate","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stream":1}`, `{"type":"truncate","position":1e3}`, `{"type":7}`, `{"type":"ping"}x`, `nul`, "\xff",
	} {
		f.Add([]byte(s))
	}
	nobody := struct {
		api.Node
		api.Control
		api.Directory
		api.Peering
		api.Settings
		api.Routes
		api.Tasks
		api.Adapting
	}{}
	a, err := api.New(api.Config{Engines: func() []api.Engine { return nil }, Node: nobody, Control: nobody, Directory: nobody, Peering: nobody, Settings: nobody, Routes: nobody, Tasks: nobody, Adapting: nobody, Operations: new(operations.Set)},
		map[string]api.Form{"openai": Traceback, "anthropic": Traceback, "ollama": Traceback, "legacy": Traceback, "problem": Traceback})
	if err != nil {
		f.Fatal(err)
	}
	t0 := talk{socket: &socket{api: a}}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m := parseFrame(websocket.TextMessage, frame)
		if m.err != nil {
			if d := api.Describe(m.err); d.Code != api.CodeFrame || strings.Contains(d.Message, "\n") {
				t.Errorf("%+v", d)
			}
			return
		}
		if m.kind != "generate" {
			return
		}
		if _, err := t0.messages(m.fields); err != nil && api.Describe(err).Status != 400 {
			t.Error(err)
		}
		fuzzTurn(t, m.fields)
	})
}
