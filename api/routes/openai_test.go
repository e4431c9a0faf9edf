package routes

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client/sample"
	"whorl/swarm"
)

var update = flag.Bool("update", false, "rewrite goldens")

var (
	volatileID   = regexp.MustCompile(`"id":"(chatcmpl|cmpl)-[0-9a-f]{24}"`)
	volatileTime = regexp.MustCompile(`"created":\d+`)
)

// golden compares an event stream with a file, but for ids and times.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = volatileTime.ReplaceAllString(volatileID.ReplaceAllString(got, `"id":"$1-ID"`), `"created":0`)
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", name, got)
	}
}

func TestStreamGoldens(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		setup            func(*fakeEngine)
	}{
		{"chat.txt", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"stream":true}`, nil},
		{"chat_usage_stop.txt", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"stop":["c"],"stream":true,"stream_options":{"include_usage":true}}`, nil},
		{"chat_eos_ids_logprobs.txt", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"stream":true,"return_token_ids":true,"logprobs":true,"top_logprobs":1}`,
			func(e *fakeEngine) { e.eosAfter = 1 }},
		{"chat_broken.txt", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"stream":true}`,
			func(e *fakeEngine) {
				e.dieAfter = 1
				e.dieErr = &swarm.Error{Code: swarm.CodeBlocksMissing, Message: "No servers holding blocks 4-7 of org/toy are online", Missing: []swarm.Span{{Start: 4, End: 8}}}
			}},
		{"completion.txt", "/v1/completions", `{"prompt":"a","max_tokens":2,"stream":true,"logprobs":1,"return_token_ids":true,"stream_options":{"include_usage":true}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			if c.setup != nil {
				c.setup(b.engine)
			}
			w := do(b.api.Public(), "POST", c.path, c.body)
			if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
				t.Fatalf("status %d, %v: %s", w.Code, w.Header(), w.Body)
			}
			golden(t, c.name, w.Body.String())
			schema := b.doc.Paths.Find(c.path).Post.Responses.Status(200).Value.Content["text/event-stream"].Schema.Value
			for _, line := range strings.Split(w.Body.String(), "\n") {
				if data, ok := strings.CutPrefix(line, "data: {"); ok && !strings.HasPrefix(data, `"error"`) {
					checkSchema(t, c.path, schema, []byte("{"+data))
				}
			}
			if b.engine.closedSessions() != 1 {
				t.Error("the session was not closed")
			}
		})
	}
}

// Plain and streamed text agree, choices are kept apart, usage counts a shared prompt once.
func TestChoices(t *testing.T) {
	b := newBench(t, nil)
	var plain gen.Completion
	w := do(b.api.Public(), "POST", "/v1/completions", `{"prompt":["a","ke"],"n":2,"max_tokens":3,"seed":5,"temperature":0.5}`)
	if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	var texts []string
	for i, c := range plain.Choices {
		if texts = append(texts, c.Text); c.Index != i {
			t.Errorf("choice %d has index %d", i, c.Index)
		}
	}
	if got := strings.Join(texts, " "); got != "bcd bcd fgh fgh" {
		t.Errorf("texts %q", got)
	}
	if *plain.Usage != (gen.Usage{PromptTokens: 5, CompletionTokens: 12, TotalTokens: 17}) {
		t.Errorf("usage %+v", *plain.Usage)
	}
	seeds := map[uint64]int{}
	for _, r := range b.engine.requests() {
		seeds[r.Sampling.Seed]++
	}
	if seeds[5] != 2 || seeds[6] != 2 {
		t.Errorf("seeds %v", seeds)
	}
	streamed := make([]string, 4)
	w = do(b.api.Public(), "POST", "/v1/completions", `{"prompt":["a","ke"],"n":2,"max_tokens":3,"stream":true}`)
	for _, line := range strings.Split(w.Body.String(), "\n") {
		var c gen.Completion
		if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &c) == nil {
			for _, x := range c.Choices {
				streamed[x.Index] += x.Text
			}
		}
	}
	if strings.Join(streamed, " ") != "bcd bcd fgh fgh" || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
		t.Errorf("streamed %q in %s", streamed, w.Body)
	}
}

// The choices of a beam search are its answers, best first, plain and streamed.
func TestSearchedChoices(t *testing.T) {
	b := newBench(t, nil)
	body := `{"prompt":["a","ke"],"n":2,"max_tokens":3,"num_beams":4,"length_penalty":2,"early_stopping":true,"return_token_ids":true,
		"logit_bias":{"7":-100,"3":1},"bad_words":["x"],"presence_penalty":1,"frequency_penalty":0.5,"typical_p":0.9,"no_repeat_ngram_size":2,"min_tokens":1`
	var plain gen.Completion
	w := do(b.api.Public(), "POST", "/v1/completions", body+`}`)
	if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	want := []string{"bcd", "bc", "fgh", "fg"}
	for i, c := range plain.Choices {
		if c.Index != i || c.Text != want[i] || len(c.TokenIds) != len(want[i]) || *c.FinishReason != "stop" {
			t.Errorf("choice %d is %+v", i, c)
		}
	}
	if *plain.Usage != (gen.Usage{PromptTokens: 5, CompletionTokens: 10, TotalTokens: 15}) || len(plain.Choices) != 4 {
		t.Errorf("usage %+v of %d choices", *plain.Usage, len(plain.Choices))
	}
	if all := b.engine.requests(); len(all) != 2 || b.engine.opened[0].Beams != 4 {
		t.Errorf("%d turns, opened %+v", len(all), b.engine.opened)
	} else {
		p := all[0].Sampling
		p.Seed = 0
		asked := sample.Params{TopP: 1, TypicalP: 0.9, RepetitionPenalty: 1, PresencePenalty: 1, FrequencyPenalty: 0.5, NoRepeatNGram: 2, MinNewTokens: 1,
			BadWords: [][]int32{{'x'}}, Bias: []sample.Bias{{ID: 3, Value: 1}, {ID: 7, Value: -100}}}
		if !reflect.DeepEqual(p, asked) || all[0].Beams != (sample.BeamParams{Beams: 4, LengthPenalty: 2, Early: sample.EarlyTrue, Return: 2}) {
			t.Errorf("%+v with %+v", p, all[0].Beams)
		}
	}
	streamed, finished := make([]string, 4), 0
	w = do(b.api.Public(), "POST", "/v1/completions", body+`,"stream":true}`)
	for _, line := range strings.Split(w.Body.String(), "\n") {
		var c gen.Completion
		if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &c) == nil {
			for _, x := range c.Choices {
				if streamed[x.Index] += x.Text; x.FinishReason != nil {
					finished++
				}
			}
		}
	}
	if !slices.Equal(streamed, want) || finished != 4 || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
		t.Errorf("streamed %q in %s", streamed, w.Body)
	}
	var chat gen.ChatCompletion
	w = do(b.api.Public(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"n":3,"max_tokens":3,"num_beams":3}`)
	if err := json.Unmarshal(w.Body.Bytes(), &chat); err != nil || len(chat.Choices) != 3 || len(*chat.Choices[2].Message.Content) != 1 {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// A search that fails says so once, though several choices wait for it.
func TestSearchedChoicesFail(t *testing.T) {
	b := newBench(t, nil)
	b.engine.dieAfter, b.engine.dieErr = 1, swarm.Errorf(swarm.CodeBlocksMissing, swarm.Elsewhere, "nobody")
	for _, stream := range []string{"false", "true"} {
		w := do(b.api.Public(), "POST", "/v1/completions", `{"prompt":"a","n":3,"num_beams":3,"stream":`+stream+`}`)
		if strings.Count(w.Body.String(), "nobody") != 1 || strings.Contains(w.Body.String(), "[DONE]") {
			t.Errorf("stream %s: %s", stream, w.Body)
		}
	}
}

// Each bad value is a 400 that names its field.
func TestBadValues(t *testing.T) {
	b := newBench(t, nil)
	chat := func(rest string) string { return `{"messages":[{"role":"user","content":"a"}],` + rest + `}` }
	text := func(rest string) string { return `{"prompt":"a",` + rest + `}` }
	for _, c := range []struct {
		path, body, param, code string
		status                  int
	}{
		{"completions", text(`"temperature":-1`), "temperature", "invalid_value", 400},
		{"completions", text(`"top_p":1.5`), "top_p", "invalid_value", 400},
		{"completions", text(`"top_k":"x"`), "top_k", "invalid_value", 400},
		{"completions", text(`"min_p":2`), "min_p", "invalid_value", 400},
		{"completions", text(`"repetition_penalty":0`), "repetition_penalty", "invalid_value", 400},
		{"completions", text(`"repetition_penalty":1e-300`), "repetition_penalty", "invalid_value", 400},
		{"completions", text(`"repetition_penalty":1e300`), "repetition_penalty", "invalid_value", 400},
		{"completions", text(`"max_tokens":-1`), "max_tokens", "invalid_value", 400},
		{"completions", text(`"max_tokens":1.5`), "max_tokens", "invalid_value", 400},
		{"completions", text(`"seed":"7"`), "seed", "invalid_value", 400},
		{"completions", text(`"stop":[1]`), "stop.0", "invalid_value", 400},
		{"completions", text(`"stop":""`), "stop", "invalid_value", 400},
		{"completions", text(`"logprobs":6`), "logprobs", "invalid_value", 400},
		{"completions", text(`"timeout":0`), "timeout", "invalid_value", 400},
		{"completions", text(`"presence_penalty":2.5`), "presence_penalty", "invalid_value", 400},
		{"completions", text(`"frequency_penalty":-3`), "frequency_penalty", "invalid_value", 400},
		{"completions", text(`"logit_bias":{"256":1}`), "logit_bias", "invalid_value", 400},
		{"completions", text(`"logit_bias":{"a":1}`), "logit_bias", "invalid_value", 400},
		{"completions", text(`"logit_bias":{"5":1,"05":2}`), "logit_bias", "invalid_value", 400},
		{"completions", text(`"typical_p":1.5`), "typical_p", "invalid_value", 400},
		{"completions", text(`"no_repeat_ngram_size":-1`), "no_repeat_ngram_size", "invalid_value", 400},
		{"completions", text(`"min_tokens":-1`), "min_tokens", "invalid_value", 400},
		{"completions", text(`"num_beams":33`), "num_beams", "invalid_value", 400},
		{"completions", text(`"num_beams":9`), "num_beams", "unsupported_parameter", 400},
		{"completions", text(`"num_beams":2,"n":3`), "n", "invalid_value", 400},
		{"completions", text(`"num_beams":2,"guidance_scale":2`), "guidance_scale", "invalid_value", 400},
		{"completions", text(`"guidance_scale":101`), "guidance_scale", "invalid_value", 400},
		{"completions", text(`"negative_prompt":"x"`), "guidance_scale", "invalid_value", 400},
		{"completions", text(`"guidance_scale":2,"negative_prompt":"x","negative_prompt_ids":[5]`), "negative_prompt", "invalid_value", 400},
		{"completions", text(`"guidance_scale":2,"negative_prompt_ids":[500]`), "negative_prompt_ids", "invalid_value", 400},
		{"completions", text(`"num_beams":2,"logprobs":1`), "logprobs", "unsupported_parameter", 400},
		{"completions", text(`"num_beams":2,"early_stopping":"soon"`), "early_stopping", "invalid_value", 400},
		{"completions", text(`"suffix":"x"`), "suffix", "unsupported_parameter", 400},
		{"completions", text(`"best_of":2,"stream":true`), "best_of", "unsupported_parameter", 400},
		{"completions", text(`"best_of":2,"n":3`), "best_of", "invalid_value", 400},
		{"completions", text(`"n":17`), "n", "unsupported_parameter", 400},
		{"completions", text(`"model":"/etc/passwd"`), "model", "model_not_found", 404},
		{"completions", text(`"max_tokens":255`), "prompt", "context_length_exceeded", 400},
		{"completions", `{"prompt":""}`, "prompt", "invalid_value", 400},
		{"completions", `{"prompt":[]}`, "prompt", "invalid_value", 400},
		{"completions", `{"prompt":[1,256]}`, "prompt", "invalid_value", 400},
		{"completions", `{"prompt":{"a":1}}`, "prompt", "invalid_value", 400},
		{"completions", `{}`, "prompt", "invalid_value", 400},
		{"completions", `[1]`, "", "invalid_value", 400},
		{"completions", `{"prompt":`, "", "invalid_value", 400},
		{"chat/completions", `{"messages":[{"role":"robot","content":"a"}]}`, "messages.0.role", "invalid_value", 400},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","text":"x"}]}]}`, "messages.0.content.0.type", "invalid_value", 400},
		{"chat/completions", `{"messages":[{"role":"system","content":"no template"}]}`, "messages", "unsupported_parameter", 400},
		{"chat/completions", chat(`"n":17`), "n", "unsupported_parameter", 400},
		{"chat/completions", chat(`"tools":{"type":"function"}`), "tools", "invalid_value", 400},
		{"chat/completions", chat(`"tool_choice":"required","tools":[{}]`), "tools.0.type", "unsupported_parameter", 400},
		{"chat/completions", chat(`"tool_choice":"required"`), "tool_choice", "invalid_value", 400},
		{"chat/completions", chat(`"tool_choice":"perhaps","tools":[{}]`), "tool_choice", "invalid_value", 400},
		{"chat/completions", chat(`"tools":[{"type":"function","function":{"name":""}}]`), "tools.0.function.name", "invalid_value", 400},
		{"chat/completions", chat(`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`), "tools.1.function.name", "invalid_value", 400},
		{"chat/completions", chat(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`), "tool_choice", "invalid_value", 400},
		{"chat/completions", chat(`"tools":[{"type":"function","function":{"name":"f","parameters":{"not":{}}}}],"tool_choice":"required"`), "tools", "unsupported_parameter", 400},
		{"chat/completions", chat(`"tools":[{"type":"custom","custom":{"name":"f"}}]`), "tools.0.type", "unsupported_parameter", 400},
		{"chat/completions", chat(`"functions":[{"name":"f"}],"function_call":"required"`), "tool_choice", "invalid_value", 400},
		{"chat/completions", chat(`"response_format":{"type":"json_schema"}`), "response_format.json_schema", "invalid_value", 400},
		{"chat/completions", chat(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","uniqueItems":true}}}`), "response_format", "unsupported_parameter", 400},
		{"chat/completions", chat(`"response_format":{"type":"json_object"},"num_beams":2`), "num_beams", "invalid_value", 400},
		{"chat/completions", chat(`"response_format":{"type":"json_object"},"ignore_eos":true`), "ignore_eos", "invalid_value", 400},
		{"chat/completions", chat(`"response_format":{"type":"json_object"},"guided_regex":"a"`), "guided_regex", "unsupported_parameter", 400},
		{"completions", `{"prompt":"a","guided_regex":"("}`, "guided_regex", "invalid_value", 400},
		{"chat/completions", chat(`"chat_template_kwargs":[]`), "chat_template_kwargs", "invalid_value", 400},
		{"chat/completions", chat(`"audio":{"voice":"x"}`), "audio", "unsupported_parameter", 400},
		{"chat/completions", chat(`"documents":[{"text":"x"}]`), "documents", "unsupported_parameter", 400},
		{"chat/completions", chat(`"add_generation_prompt":false`), "add_generation_prompt", "unsupported_parameter", 400},
		{"completions", text(`"stop_token_ids":[1]`), "stop_token_ids", "unsupported_parameter", 400},
		{"completions", text(`"max_tokens":2.5`), "max_tokens", "invalid_value", 400},
		{"completions", text(`"seed":1e300`), "seed", "invalid_value", 400},
		{"completions", `{"prompt":[1.5]}`, "prompt", "invalid_value", 400},
		{"completions", "{\"prompt\":\"a\xff\"}", "", "invalid_value", 400},
		{"chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"\xc3(\"}]}", "", "invalid_value", 400},
		{"chat/completions", chat(`"tool_choice":{"type":"function"}`), "tool_choice", "invalid_value", 400},
		{"chat/completions", chat(`"modalities":["audio"]`), "modalities", "unsupported_parameter", 400},
		{"chat/completions", chat(`"top_logprobs":3`), "top_logprobs", "invalid_value", 400},
		{"chat/completions", chat(`"max_completion_tokens":300,"max_tokens":1`), "messages", "context_length_exceeded", 400},
	} {
		w := do(b.api.Public(), "POST", "/v1/"+c.path, c.body)
		var got gen.OpenAIErrorReply
		json.Unmarshal(w.Body.Bytes(), &got)
		if w.Code != c.status || api.Value(got.Error.Param, "") != c.param || api.Value(got.Error.Code, "") != c.code || !strings.Contains(got.Error.Message, c.param) && strings.Count(c.param, ".") == 0 && c.code == "invalid_value" {
			t.Errorf("%s %s: status %d, %s", c.path, c.body, w.Code, w.Body)
		}
		if w.Header().Get("X-Should-Retry") != "false" {
			t.Errorf("%s %s: X-Should-Retry %q", c.path, c.body, w.Header().Get("X-Should-Retry"))
		}
	}
	if n := len(b.engine.opened); n > 0 {
		t.Errorf("%d sessions were opened for bad requests", n)
	}
}

// What clients send without meaning much by it.
func TestTolerated(t *testing.T) {
	b := newBench(t, nil)
	for _, body := range []string{
		`{"model":null,"messages":[{"role":"developer","content":"x"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"stop":null,"n":null,"max_tokens":null,"tools":[],"temperature":null,"user":null,"metadata":null,"service_tier":{},"tool_choice":null,"stream":null,"response_format":null,"logit_bias":{},"presence_penalty":0}`,
		`{"model":"org/toy","messages":[{"role":"user","content":"a"},{"role":"assistant","content":null}],"tools":[{"type":"function"}],"tool_choice":"none","chat_template_kwargs":{"x":null},"response_format":{"type":"text"},"top_k":-1,"top_p":0,"seed":-3,"stream_options":null}`,
	} {
		if w := do(b.api.Public(), "POST", "/v1/chat/completions", body); w.Code != 200 || len(w.Header().Values("X-Warning")) > 0 {
			t.Errorf("%s: status %d, warnings %q, %s", body, w.Code, w.Header().Values("X-Warning"), w.Body)
		}
	}
	r := b.engine.requests()
	if got := r[0]; got.Sampling.Temperature != 1 || got.MaxNewTokens != fakeLimit-len(got.Prompt) {
		t.Errorf("defaults: %+v", got)
	}
	if got := r[1].Sampling; got.TopK != 1 || got.Seed != ^uint64(2) {
		t.Errorf("top_p 0 is the best alone: %+v", got)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} { // unknown fields are told alike in both modes
		for _, stream := range []string{"true", "false"} {
			w := do(b.api.Public(), "POST", path, `{"messages":[{"role":"user","content":"a"}],"prompt":"a","zz\n":1,"stream":`+stream+`}`)
			if got := strings.Join(w.Header().Values("X-Warning"), ";"); w.Code != 200 || !strings.Contains(got, `unknown field "zz\n"`) {
				t.Errorf("%s stream %s: status %d, warnings %q", path, stream, w.Code, got)
			}
		}
	}
}

func TestBodyLimits(t *testing.T) {
	b := newBench(t, func(c *api.Config) { c.Limits.BodyBytes = 100 })
	big := `{"prompt":"` + strings.Repeat("a", 200) + `"}`
	if w := do(b.api.Public(), "POST", "/v1/completions", big); w.Code != 413 {
		t.Errorf("large body: status %d: %s", w.Code, w.Body)
	}
	if w := do(b.api.Public(), "POST", "/api/v1/generate", big); w.Code != 413 {
		t.Errorf("large legacy body: status %d: %s", w.Code, w.Body)
	}
	if w := do(b.api.Public(), "POST", "/v1/completions", `{"prompt":"a"}`, "Content-Type: text/plain"); w.Code != 415 {
		t.Errorf("text/plain: status %d: %s", w.Code, w.Body)
	}
}

// A comment goes out in a slow prefill, after which the answer comes as always.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.step = make(chan struct{})
		done := make(chan *httptest.ResponseRecorder)
		go func() {
			done <- do(b.api.Public(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"stream":true}`)
		}()
		time.Sleep(25 * time.Second) // of the bubble's clock
		b.engine.step <- struct{}{}
		w := <-done
		if n := strings.Count(w.Body.String(), ": still working\n"); n != 2 {
			t.Errorf("%d comments in 25 s, want 2: %s", n, w.Body)
		}
		if !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
			t.Errorf("no end: %s", w.Body)
		}
	})
}

// A deadline is 504 before the first byte, and a chunk after it.
func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		name, body, header string
		tokens             int // before time runs out
		after              time.Duration
		status             int
		chunk              bool
	}{
		{"plain by field", `{"prompt":"a","timeout":2.5}`, "", 1, 2500 * time.Millisecond, 504, false},
		{"plain by header", `{"prompt":"a"}`, "20s", 0, 20 * time.Second, 504, false},
		{"field wins", `{"prompt":"a","timeout":2}`, "20s", 0, 2 * time.Second, 504, false},
		{"streamed, nothing yet", `{"prompt":"a","timeout":5,"stream":true}`, "", 0, 5 * time.Second, 504, false},
		{"streamed, begun", `{"prompt":"a","timeout":5,"stream":true}`, "", 2, 5 * time.Second, 200, true},
		{"by default", `{"prompt":"a"}`, "", 0, 10 * time.Minute, 504, false},
		{"bad header", `{"prompt":"a"}`, "soon", 0, 0, 400, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				b.engine.step = make(chan struct{}, c.tokens)
				for range c.tokens {
					b.engine.step <- struct{}{}
				}
				begin := time.Now()
				w := do(b.api.Public(), "POST", "/v1/completions", c.body, "X-Request-Timeout: "+c.header)
				if took := time.Since(begin); took != c.after || w.Code != c.status {
					t.Errorf("status %d after %v: %s", w.Code, took, w.Body)
				}
				last := w.Body.String()[strings.LastIndex(strings.TrimSpace(w.Body.String()), "\n")+1:]
				if c.chunk && (!strings.HasPrefix(last, `data: {"error":{"code":"timeout"`) || strings.Contains(w.Body.String(), "[DONE]")) {
					t.Errorf("the stream ended with %s", last)
				}
				if b.engine.closedSessions() != len(b.engine.opened) {
					t.Error("the session was not closed")
				}
			})
		})
	}
}

// A reader that goes away ends the turn and its session.
func TestDisconnectCancels(t *testing.T) {
	for _, stream := range []bool{true, false} {
		b := newBench(t, nil)
		b.engine.step = make(chan struct{}, 2)
		b.engine.step <- struct{}{}
		b.engine.step <- struct{}{}
		srv := httptest.NewServer(b.api.Public())
		defer srv.Close()
		ctx, leave := context.WithCancel(context.Background())
		body := fmt.Sprintf(`{"prompt":"a","max_tokens":200,"stream":%v}`, stream)
		req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/v1/completions", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		left := make(chan struct{})
		go func() {
			defer close(left)
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		eventually(t, func() bool { return len(b.engine.step) == 0 }) // two tokens are made, the third never
		if n := b.engine.closedSessions(); n != 0 {
			t.Fatalf("%d sessions closed too early", n)
		}
		leave()
		eventually(t, func() bool { return b.engine.closedSessions() == 1 })
		<-left
	}
}

// patience is how long a test waits for what takes milliseconds on a quiet machine.
const patience = 30 * time.Second

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not happen within %v", patience)
		}
	}
}

func TestModels(t *testing.T) {
	b := newBench(t, nil)
	other := &fakeEngine{name: "plain"}
	b.cfg.Engines = func() []api.Engine { return []api.Engine{b.engine, other} }
	b.cfg.Registry = nil
	api, err := New(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/v1/models/org/toy": "org/toy", "/v1/models/org%2Ftoy": "org/toy", "/v1/models/plain": "plain"} {
		var m gen.OpenAIModel
		w := do(api.Public(), "GET", path, "")
		if json.Unmarshal(w.Body.Bytes(), &m); w.Code != 200 || m.Id != want || m.ContextLength != fakeLimit {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
	}
	if w := do(api.Public(), "GET", "/v1/models/org/nothing/at/all", ""); w.Code != 404 || !strings.Contains(w.Body.String(), "model_not_found") {
		t.Errorf("unknown: status %d, %s", w.Code, w.Body)
	}
	if w := do(api.Public(), "POST", "/v1/completions", `{"prompt":"a"}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"model"`) {
		t.Errorf("which of two models: status %d, %s", w.Code, w.Body)
	}
}
