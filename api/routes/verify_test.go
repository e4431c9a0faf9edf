package routes

import (
	"strconv"
	"strings"
	"testing"

	"whorl/api"
	"whorl/swarm"
)

// How many chains compute an answer is said by its field, else by its header, else by the
// gateway, in all dialects; the reply says how many agreed, and a failure says nothing of that.
func TestVerify(t *testing.T) {
	routes := map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"m"}],"max_tokens":2`,
		"/v1/completions":      `{"prompt":"m","max_tokens":2`,
		"/v1/responses":        `{"input":"m","max_output_tokens":2`,
		"/v1/messages":         `{"messages":[{"role":"user","content":"m"}],"max_tokens":2`,
		"/api/chat":            `{"messages":[{"role":"user","content":"m"}],"options":{"num_predict":2}`,
		"/api/generate":        `{"prompt":"m","options":{"num_predict":2}`,
		"/api/v1/generate":     `{"inputs":"m","max_new_tokens":2`,
	}
	for path, body := range routes {
		for _, c := range []struct {
			field, header string
			gateway, want int
			wrong         string
		}{
			{"", "", 0, 1, ""},
			{"2", "", 0, 2, ""},
			{"", "3", 0, 3, ""},
			{"2", "3", 0, 2, ""},
			{"", "", 2, 2, ""},
			{"1", "", 2, 1, ""},
			{"4", "", 0, 0, "whorl_verify"},
			{"0", "", 2, 0, "whorl_verify"},
			{"", "4", 0, 0, "X-Whorl-Verify is 4: want 1 to 3"},
			{"", "two", 0, 0, "X-Whorl-Verify is \\\"two\\\""},
		} {
			for _, stream := range []string{"", `,"stream":true`} {
				if stream != "" && path == "/api/v1/generate" {
					continue
				}
				text := body + stream + "}"
				if c.field != "" {
					text = body + stream + `,"whorl_verify":` + c.field + "}"
				}
				var headers []string
				if c.header != "" {
					headers = append(headers, "X-Whorl-Verify: "+c.header)
				}
				b := newBench(t, func(cfg *api.Config) { cfg.Verify, cfg.Ollama = c.gateway, true })
				w := do(b.api.Public(), "POST", path, text, headers...)
				if w.Header().Get("Content-Type") == "application/json" {
					conforms(t, b.doc, "POST", path, w)
				}
				said := ""
				if c.want > 1 {
					said = strconv.Itoa(c.want)
				}
				switch got := w.Header().Get("X-Whorl-Verified"); {
				case got != said:
					t.Errorf("%s %+v: verified %q, want %q: %s", path, c, got, said, w.Body)
				case c.wrong != "":
					if !strings.Contains(w.Body.String(), c.wrong) {
						t.Errorf("%s %+v: %d %s", path, c, w.Code, w.Body)
					}
				case b.engine.opened[0].Verify != c.want:
					t.Errorf("%s %+v: opened with %d", path, c, b.engine.opened[0].Verify)
				}
			}
		}
		b := newBench(t, nil)
		b.engine.openErr = swarm.Errorf(swarm.CodeBlocksMissing, swarm.Elsewhere, "no")
		if w := do(b.api.Public(), "POST", path, body+"}", "X-Whorl-Verify: 2"); w.Header().Get("X-Whorl-Verified") != "" {
			t.Errorf("%s: a failure is verified: %s", path, w.Body)
		}
	}
}

// A session of a socket is verified as it was opened, and its turns say so.
func TestVerifiedSocket(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":20,"whorl_verify":"2"}`)
	p.read()
	p.send(`{"type":"generate","inputs":"m","max_new_tokens":1}`)
	if m := p.read(); m["verified"] != 2.0 || b.engine.opened[0].Verify != 2 {
		t.Errorf("%v, opened %+v", m, b.engine.opened)
	}
	p = dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":20,"whorl_verify":4}`)
	if m := p.read(); m["ok"] != false || !strings.Contains(m["traceback"].(string), "whorl_verify") {
		t.Errorf("%v", m)
	}
}
