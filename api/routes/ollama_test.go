package routes

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

// lines are the pieces of a stream, each of the contract's form.
func lines(t *testing.T, b *bench, path, body string) (out []gen.OllamaAnswer) {
	t.Helper()
	w := do(b.api.Public(), "POST", path, body)
	if media := w.Header().Get("Content-Type"); media != "application/x-ndjson" {
		t.Fatalf("status %d, %s: %s", w.Code, media, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		checkSchema(t, path, b.doc.Components.Schemas["OllamaAnswer"].Value, []byte(line))
		var a gen.OllamaAnswer
		json.Unmarshal([]byte(line), &a)
		out = append(out, a)
	}
	return out
}

// text joins what pieces say.
func text(pieces []gen.OllamaAnswer) (thought, said string) {
	for _, p := range pieces {
		if p.Message != nil {
			thought, said = thought+api.Value(p.Message.Thinking, ""), said+p.Message.Content
		}
		thought, said = thought+api.Value(p.Thinking, ""), said+api.Value(p.Response, "")
	}
	return thought, said
}

// Prompts are those of the other dialects; an answer is the same streamed and whole.
func TestOllama(t *testing.T) {
	for _, c := range []struct{ path, body, prompt, thought, said, reason string }{
		{"/api/chat", `"messages":[{"role":"system","content":"be"},{"role":"user","content":"m"}],"options":{"num_predict":3}`, "<s>be\n<u>m\n<a>", "", "abc", "length"},
		{"/api/chat", `"messages":[{"role":"user","content":"m"}],"options":{"stop":["c"],"num_predict":9.0},"keep_alive":"5m","format":""`, "<u>m\n<a>", "", "ab", "stop"},
		{"/api/chat", `"messages":[{"role":"user","content":"m"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"7"}],"options":{"num_predict":1}`,
			"<u>m\n<a>" + `[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]` + "\n<t>7f\n<a>", "", "a", "length"},
		{"/api/chat", `"messages":[{"role":"user","content":"thinks"}]`, "<u>thinks\n<a>", "hm", "Yes", "stop"},
		{"/api/chat", `"messages":[{"role":"user","content":"thinks"}],"think":false`, "<enable_thinking>false\n<u>thinks\n<a>", "hm", "Yes", "stop"},
		{"/api/generate", `"prompt":"thinks","think":"high"`, "<enable_thinking>true\n<reasoning_effort>\"high\"\n<u>thinks\n<a>", "hm", "Yes", "stop"},
		{"/api/generate", `"prompt":"m","system":"be","options":{"num_predict":2}`, "<s>be\n<u>m\n<a>", "", "ab", "length"},
		{"/api/generate", `"prompt":"m","raw":true,"options":{"num_predict":2}`, "m", "", "no", "length"},
	} {
		b := newBench(t, nil)
		if strings.Contains(c.body, "thinks") {
			b.engine.thinks, b.engine.says = true, "<think>hm</think>\nYes"
		}
		streamed := lines(t, b, c.path, `{`+c.body+`}`)
		w := do(b.api.Public(), "POST", c.path, `{"model":"org/toy:latest","stream":false,`+c.body+`}`)
		conforms(t, b.doc, "POST", c.path, w)
		var whole gen.OllamaAnswer
		json.Unmarshal(w.Body.Bytes(), &whole)
		prompt := strings.TrimPrefix(b.engine.Decode(b.engine.requests()[0].Prompt), "<s>")
		if prompt != c.prompt {
			t.Errorf("%s: prompt %q, want %q", c.body, prompt, c.prompt)
		}
		for _, pieces := range [][]gen.OllamaAnswer{streamed, {whole}} {
			thought, said := text(pieces)
			last := pieces[len(pieces)-1]
			if thought != c.thought || said != c.said || !last.Done || string(api.Value(last.DoneReason, "")) != c.reason {
				t.Errorf("%s: %q, %q: %+v", c.body, thought, said, pieces)
			}
			if api.Value(last.PromptEvalCount, 0) != len(c.prompt)+1 || api.Value(last.EvalCount, 0) < len(c.said) || last.Model != "org/toy" {
				t.Errorf("%s: %+v", c.body, last)
			}
			for _, p := range pieces[:len(pieces)-1] {
				if p.Done || p.DoneReason != nil {
					t.Errorf("%s: a piece is done: %+v", c.body, p)
				}
			}
		}
	}
}

// Options reach the sampler, and those left out have the defaults of all dialects.
func TestOllamaOptions(t *testing.T) {
	b := newBench(t, nil)
	const say = `{"prompt":"m","options":`
	lines(t, b, "/api/generate", say+`{"temperature":0.25,"top_k":7,"top_p":0.5,"min_p":0.1,"repeat_penalty":1.5,"seed":42,"stop":"x","num_predict":1,"mirostat":0,"num_ctx":99}}`)
	lines(t, b, "/api/generate", say+`{"num_predict":-1}}`)
	lines(t, b, "/api/generate", say+`null}`)
	turns := b.engine.requests()
	if s := turns[0].Sampling; s.Temperature != 0.25 || s.TopK != 7 || s.TopP != 0.5 || s.MinP != 0.1 || s.RepetitionPenalty != 1.5 || s.Seed != 42 || turns[0].Stop[0] != "x" || turns[0].MaxNewTokens != 1 {
		t.Errorf("asked: %+v", turns[0])
	}
	room := fakeLimit - len(turns[1].Prompt)
	if s := turns[1].Sampling; s.Temperature != 1 || s.TopP != 1 || s.RepetitionPenalty != 1 || turns[1].MaxNewTokens != room || turns[2].MaxNewTokens != room {
		t.Errorf("not asked: %+v, %+v", turns[1], turns[2])
	}
	if w := do(b.api.Public(), "POST", "/api/generate", `{"prompt":"m","options":{"frobnicate":1}}`); !strings.Contains(w.Header().Get("X-Warning"), "frobnicate") {
		t.Errorf("%v", w.Header())
	}
}

// What cannot be done is named.
func TestOllamaRefused(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct{ path, body, names string }{
		{"/api/chat", `"tools":[{}]`, "tools.0.type"},
		{"/api/chat", `"format":"xml"`, "format is"},
		{"/api/chat", `"format":{"type":"object","not":{}}`, "cannot be kept"},
		{"/api/chat", `"logprobs":true`, "logprobs is not supported"},
		{"/api/chat", `"think":true`, "knows no thinking"},
		{"/api/chat", `"think":7`, "think"},
		{"/api/chat", `"options":{"temperature":-1}`, "temperature is -1"},
		{"/api/chat", `"options":{"repeat_penalty":-1}`, "repeat_penalty is -1"},
		{"/api/chat", `"options":{"num_predict":0}`, "num_predict is 0"},
		{"/api/chat", `"options":{"num_predict":999}`, "maximum context length is 256"},
		{"/api/chat", `"options":{"mirostat":2}`, "mirostat is 2"},
		{"/api/chat", `"options":{"repeat_last_n":64}`, "repeat_last_n is 64"},
		{"/api/chat", `"options":{"stop":[""]}`, "stop holds an empty text"},
		{"/api/chat", `"options":7`, "options"},
		{"/api/chat", `"messages":[{"role":"user","content":"m","images":["AAAA"]}]`, "messages.0.images"},
		{"/api/chat", `"model":"llama3"`, `"llama3" is not served`},
		{"/api/generate", `"suffix":"x"`, "suffix is not supported"},
		{"/api/generate", `"context":[1]`, "context is not supported"},
		{"/api/generate", `"images":["AAAA"]`, "images is not supported"},
	} {
		body := `{"prompt":"m",` + c.body + `}`
		if c.path == "/api/chat" && !strings.Contains(c.body, "messages") {
			body = `{"messages":[{"role":"user","content":"m"}],` + c.body + `}`
		}
		w := do(b.api.Public(), "POST", c.path, body)
		conforms(t, b.doc, "POST", c.path, w)
		var out gen.OllamaFailure
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code < 400 || w.Code > 404 || !strings.Contains(out.Error, c.names) {
			t.Errorf("%s: status %d: %s", body, w.Code, w.Body)
		}
	}
}

// A failure after the first line is the last line; before it, it has its status. While nothing
// comes there are empty pieces.
func TestOllamaStream(t *testing.T) {
	b := newBench(t, nil)
	b.engine.dieAfter, b.engine.dieErr = 2, swarm.Errorf(swarm.CodeBlocksMissing, swarm.Again, "nobody holds blocks")
	w := do(b.api.Public(), "POST", "/api/generate", `{"prompt":"m"}`)
	if !strings.HasSuffix(w.Body.String(), "}\n"+`{"error":"nobody holds blocks"}`+"\n") {
		t.Errorf("%s", w.Body)
	}
	b.engine.openErr = swarm.Errorf(swarm.CodeCacheFull, swarm.Again, "full")
	if w := do(b.api.Public(), "POST", "/api/generate", `{"prompt":"m"}`); w.Code != 429 || w.Body.String() != `{"error":"full"}`+"\n" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.step = make(chan struct{})
		go func() {
			time.Sleep(25 * time.Second) // of the bubble's clock
			b.engine.step <- struct{}{}
		}()
		got := lines(t, b, "/api/chat", `{"messages":[{"role":"user","content":"m"}],"options":{"num_predict":1}}`)
		if len(got) != 4 || got[0].Message.Content != "" || got[1].Done || got[2].Message.Content != "a" || !got[3].Done {
			t.Errorf("%+v", got)
		}
	})
}

// Nothing to answer only says that the model is known.
func TestOllamaLoad(t *testing.T) {
	b := newBench(t, nil)
	for _, path := range []string{"/api/chat", "/api/generate"} {
		w := do(b.api.Public(), "POST", path, `{"model":"org/toy"}`)
		conforms(t, b.doc, "POST", path, w)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"done":true,"done_reason":"load"`) || len(b.engine.requests()) > 0 {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
}

// Models are told with what a gateway knows of them.
func TestOllamaModels(t *testing.T) {
	b := newBench(t, nil)
	b.engine.thinks = true
	for _, c := range []struct{ method, path, body, has string }{
		{"GET", "/api/tags", "", `"model":"org/toy","modified_at":"2025-06-15T15:06:40Z","name":"org/toy","size":0`},
		{"POST", "/api/show", `{"name":"org/toy"}`, `"capabilities":["completion","tools","thinking"]`},
		{"POST", "/api/show", `{"model":"org/toy"}`, `"general.architecture":"whorl","general.basename":"org/toy","whorl.block_count":8,"whorl.context_length":256`},
		{"GET", "/api/version", "", `{"version":"0.1"}`},
	} {
		w := do(b.api.Public(), c.method, c.path, c.body)
		conforms(t, b.doc, c.method, c.path, w)
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: status %d: %s", c.path, w.Code, w.Body)
		}
	}
}

// Without the option none of it is there, for whatever method, and what lies beside it stays.
func TestOllamaOff(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Ollama = false })
	for _, path := range []string{"/api/chat", "/api/generate", "/api/tags", "/api/show", "/api/version"} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			w := do(b.api.Public(), method, path, "", "Origin: http://localhost:3000", "Access-Control-Request-Method: POST")
			if w.Code != 404 || !strings.Contains(w.Body.String(), `"code":"unknown_url"`) || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: status %d: %v %s", method, path, w.Code, w.Header(), w.Body)
			}
		}
	}
	if w := do(b.api.Public(), "POST", "/api/v1/generate", `{"inputs":"x","max_new_tokens":1}`); w.Code != 200 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	on := newBench(t, nil)
	if w := do(on.api.Admin(), "GET", "/api/tags", ""); w.Code != 404 {
		t.Errorf("admin: status %d: %s", w.Code, w.Body)
	}
}

// Calls are told whole, plain and in a line of their own; format gives the answer a form.
func TestOllamaTools(t *testing.T) {
	b := newBench(t, nil)
	b.engine.template, b.engine.room = "<tool_call>", 4000
	b.engine.says = "Well.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
	const body = `{"messages":[{"role":"user","content":"m"}],"tools":[{"type":"function","function":{"name":"f"}}]`
	w := do(b.api.Public(), "POST", "/api/chat", body+`,"stream":false}`)
	conforms(t, b.doc, "POST", "/api/chat", w)
	var plain gen.OllamaAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil || plain.Message.Content != "Well." || len(plain.Message.ToolCalls) != 2 || string(plain.Message.ToolCalls[0].Function.Arguments) != `{"a":1}` {
		t.Errorf("%v: %s", err, w.Body)
	}
	text, calls := "", 0
	for line := range strings.Lines(do(b.api.Public(), "POST", "/api/chat", body+`}`).Body.String()) {
		var piece gen.OllamaAnswer
		if err := json.Unmarshal([]byte(line), &piece); err != nil {
			t.Fatal(err)
		}
		text, calls = text+piece.Message.Content, calls+len(piece.Message.ToolCalls)
	}
	if text != "Well." || calls != 2 {
		t.Errorf("streamed %q and %d calls", text, calls)
	}
	for format, want := range map[string]string{`"json"`: `{"a": 1}`, `{"const":"e"}`: `"e"`, `""`: "{\"a\": 1}"} {
		b.engine.says = `{"a": 1}`
		for _, path := range []string{"/api/chat", "/api/generate"} {
			w := do(b.api.Public(), "POST", path, `{"prompt":"m","messages":[{"role":"user","content":"m"}],"stream":false,"format":`+format+`}`)
			var got gen.OllamaAnswer
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || (got.Message != nil && got.Message.Content != want) || (got.Response != nil && *got.Response != want) {
				t.Errorf("%s of %s: %v: %s", path, format, err, w.Body)
			}
		}
	}
}
