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

// message asks for one, and returns what the sampler got as the prompt.
func message(t *testing.T, b *bench, body string) (out gen.MessagesAnswer, prompt string) {
	t.Helper()
	w := do(b.api.Public(), "POST", "/v1/messages", body, "Anthropic-Version: 2023-06-01")
	conforms(t, b.doc, "POST", "/v1/messages", w)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
		t.Fatalf("status %d: %v: %s", w.Code, err, w.Body)
	}
	if w.Header().Get("Request-Id") != w.Header().Get("X-Request-Id") {
		t.Errorf("the request has two names: %v", w.Header())
	}
	turns := b.engine.requests()
	return out, strings.TrimPrefix(b.engine.Decode(turns[len(turns)-1].Prompt), "<s>")
}

// A conversation goes through the same template as in a chat, and an answer says why it ended.
func TestMessages(t *testing.T) {
	const say = `"messages":[{"role":"user","content":"m"}]`
	for _, c := range []struct {
		name, body, prompt, text string
		reason                   gen.MessagesAnswerStopReason
		stop                     string
	}{
		{"plain", `{"max_tokens":3,` + say + `}`, "<u>m\n<a>", "abc", "max_tokens", ""},
		{"system", `{"max_tokens":3,"system":"be","stream":false,` + say + `}`, "<s>be\n<u>m\n<a>", "abc", "max_tokens", ""},
		{"blocks", `{"max_tokens":3,"system":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":"e"}],` +
			`"messages":[{"role":"user","content":[{"type":"text","text":"k"},{"type":"text","text":"l"}]},{"role":"assistant","content":[{"type":"text","text":"m"}]},{"role":"user","content":"n"}]}`,
			"<s>be\n<u>kl\n<a>m\n<u>n\n<a>", "abc", "max_tokens", ""},
		{"neighbours", `{"max_tokens":1,"messages":[{"role":"user","content":"k"},{"role":"user","content":"l"},{"role":"assistant","content":"m"},{"role":"user","content":"n"}]}`,
			"<u>k\nl\n<a>m\n<u>n\n<a>", "a", "max_tokens", ""},
		{"stop", `{"max_tokens":9,"stop_sequences":["x","c"],` + say + `}`, "<u>m\n<a>", "ab", "stop_sequence", "c"},
		{"end", `{"max_tokens":9,"thinking":{"type":"disabled"},"tools":[],` + say + `}`, "<u>m\n<a>", "abcd", "end_turn", ""},
	} {
		b := newBench(t, nil)
		if c.name == "end" {
			b.engine.eosAfter = 4
		}
		got, prompt := message(t, b, c.body)
		if prompt != c.prompt || len(got.Content) != 1 || *got.Content[0].Text != c.text || *got.StopReason != c.reason || api.Value(got.StopSequence, "") != c.stop {
			t.Errorf("%s: prompt %q, answer %+v", c.name, prompt, got)
		}
		if got.Usage.InputTokens != len(c.prompt)+1 || got.Usage.OutputTokens != usedTokens(c.text, c.reason) {
			t.Errorf("%s: usage %+v", c.name, got.Usage)
		}
		w := do(b.api.Public(), "POST", "/v1/messages/count_tokens", c.body)
		var counted gen.CountedTokens
		if err := json.Unmarshal(w.Body.Bytes(), &counted); err != nil || counted.InputTokens != got.Usage.InputTokens {
			t.Errorf("%s: counted %s, used %d", c.name, w.Body, got.Usage.InputTokens)
		}
	}
}

// usedTokens counts what the fake model makes: its end token and a stop text too.
func usedTokens(text string, reason gen.MessagesAnswerStopReason) int {
	if reason == gen.MessagesAnswerStopReasonMaxTokens {
		return len(text)
	}
	return len(text) + 1
}

// What chooses tokens reaches the sampler; what is left out has the defaults of all dialects.
func TestMessagesSampling(t *testing.T) {
	b := newBench(t, nil)
	const say = `"max_tokens":1,"messages":[{"role":"user","content":"m"}]`
	message(t, b, `{`+say+`,"temperature":0.25,"top_p":0.5,"top_k":7,"stop_sequences":["x"]}`)
	message(t, b, `{`+say+`,"temperature":null,"top_k":-1}`)
	turns := b.engine.requests()
	if s := turns[0].Sampling; s.Temperature != 0.25 || s.TopP != 0.5 || s.TopK != 7 || len(turns[0].Stop) != 1 {
		t.Errorf("asked: %+v", turns[0])
	}
	if s := turns[1].Sampling; s.Temperature != 1 || s.TopP != 1 || s.TopK != 0 || s.RepetitionPenalty != 1 {
		t.Errorf("not asked: %+v", s)
	}
}

// What cannot be done is named, and has Anthropic's form.
func TestMessagesRefused(t *testing.T) {
	b := newBench(t, nil)
	const say = `"messages":[{"role":"user","content":"m"}]`
	for _, c := range []struct{ body, names string }{
		{`{` + say + `}`, "max_tokens is missing"},
		{`{"max_tokens":1}`, "messages is missing"},
		{`{"max_tokens":0,` + say + `}`, "max_tokens is 0"},
		{`{"max_tokens":1,"messages":[]}`, "messages"},
		{`{"max_tokens":1,` + say + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "tools.0.type"},
		{`{"max_tokens":1,` + say + `,"tool_choice":{"type":"any"}}`, "there are no tools"},
		{`{"max_tokens":1,` + say + `,"thinking":{"type":"enabled","budget_tokens":1024}}`, `thinking of type "enabled" is not supported`},
		{`{"max_tokens":1,` + say + `,"output_config":{"format":{}}}`, "output_config.format.type is missing"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, `messages.0.content.0.type is "image"`},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}]}`, `messages.0.content.0`},
		{`{"max_tokens":1,"messages":[{"role":"system","content":"m"}]}`, `messages.0.role is "system"`},
		{`{"max_tokens":1,"messages":[{"role":"user","content":"m"},{"role":"assistant","content":"So"}]}`, "messages.1.role"},
		{`{"max_tokens":1,` + say + `,"temperature":-1}`, "temperature is -1"},
		{`{"max_tokens":1,` + say + `,"stop_sequences":[""]}`, "stop_sequences.0"},
		{`{"max_tokens":999,` + say + `}`, "maximum context length is 256 tokens"},
		{`{"max_tokens":1,"model":"gpt","messages":[{"role":"user","content":"m"}]}`, `"gpt" is not served`},
	} {
		w := do(b.api.Public(), "POST", "/v1/messages", c.body)
		conforms(t, b.doc, "POST", "/v1/messages", w)
		var out gen.MessagesFailure
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || !strings.Contains(out.Error.Message, c.names) || out.RequestId != w.Header().Get("X-Request-Id") {
			t.Errorf("%s: status %d: %s", c.body, w.Code, w.Body)
		}
		if kind := map[int]gen.MessagesErrorType{400: "invalid_request_error", 404: "not_found_error"}[w.Code]; out.Error.Type != kind || kind == "" {
			t.Errorf("%s: status %d is a %s", c.body, w.Code, out.Error.Type)
		}
	}
	if w := do(b.api.Public(), "GET", "/v1/messages", ""); w.Code != 405 || !strings.Contains(w.Body.String(), `"type":"error"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// events are those of a stream, whose data have the form of the contract.
func events(t *testing.T, b *bench, body string) (names []string, data []string) {
	t.Helper()
	w := do(b.api.Public(), "POST", "/v1/messages", body)
	schema := b.doc.Components.Schemas["MessagesEvent"].Value
	for part := range strings.SplitSeq(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n") {
		name, text, ok := strings.Cut(part, "\ndata: ")
		name = strings.TrimPrefix(name, "event: ")
		if !ok || !strings.HasPrefix(text, `{`) || !strings.Contains(text, `"type":"`+name+`"`) {
			t.Fatalf("status %d: no event: %q", w.Code, part)
		}
		checkSchema(t, name, schema, []byte(text))
		names, data = append(names, name), append(data, text)
	}
	return names, data
}

// The order of a stream, its text and its end.
func TestMessagesStream(t *testing.T) {
	b := newBench(t, nil)
	names, data := events(t, b, `{"max_tokens":9,"stream":true,"stop_sequences":["c"],"messages":[{"role":"user","content":"m"}]}`)
	if got := strings.Join(names, " "); got != "message_start content_block_start content_block_delta content_block_delta content_block_stop message_delta message_stop" {
		t.Fatal(got)
	}
	for i, want := range map[int]string{
		0: `"stop_reason":null,"stop_sequence":null,"type":"message","usage":{"input_tokens":9,"output_tokens":0}`,
		1: `"content_block":{"text":"","type":"text"},"index":0`,
		3: `"delta":{"text":"b","type":"text_delta"},"index":0`,
		5: `"delta":{"stop_reason":"stop_sequence","stop_sequence":"c"},"type":"message_delta","usage":{"input_tokens":9,"output_tokens":3}`,
	} {
		if !strings.Contains(data[i], want) {
			t.Errorf("event %d is %s, want %s", i, data[i], want)
		}
	}
	_, data = events(t, b, `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"m"}]}`)
	if end := data[len(data)-2]; !strings.Contains(end, `"stop_reason":"max_tokens","stop_sequence":null`) {
		t.Error(end)
	}
}

// Before the first byte a failure has its status; after it, it is the last event.
func TestMessagesStreamBreaks(t *testing.T) {
	const body = `{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"m"}]}`
	b := newBench(t, nil)
	b.engine.dieAfter, b.engine.dieErr = 2, swarm.Errorf(swarm.CodeBlocksMissing, swarm.Again, "nobody holds blocks")
	names, data := events(t, b, body)
	if last := len(names) - 1; names[last] != "error" || !strings.Contains(data[last], `"error":{"message":"nobody holds blocks","type":"overloaded_error"}`) {
		t.Errorf("%v: %v", names, data)
	}
	b = newBench(t, nil)
	b.engine.openErr = swarm.Errorf(swarm.CodeCacheFull, swarm.Again, "full")
	if w := do(b.api.Public(), "POST", "/v1/messages", body); w.Code != 429 || !strings.Contains(w.Body.String(), `"type":"rate_limit_error"`) || w.Header().Get("X-Should-Retry") != "true" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// While nothing comes a stream pings, and has begun.
func TestMessagesPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *api.Config) { c.Limits.KeepAlive = 10 * time.Second })
		b.engine.step = make(chan struct{})
		go func() {
			time.Sleep(25 * time.Second)
			b.engine.step <- struct{}{}
		}()
		names, _ := events(t, b, `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"m"}]}`)
		if got := strings.Join(names, " "); got != "message_start ping ping content_block_start content_block_delta content_block_stop message_delta message_stop" {
			t.Error(got)
		}
	})
}

// A model that thinks is told not to; what it thinks nevertheless is not shown.
func TestMessagesThoughts(t *testing.T) {
	for _, stream := range []bool{false, true} {
		b := newBench(t, nil)
		b.engine.thinks, b.engine.says = true, "<think>hm</think>\nYes"
		body := `{"max_tokens":99,"messages":[{"role":"user","content":"m"}]`
		text := ""
		if stream {
			_, data := events(t, b, body+`,"stream":true}`)
			for _, d := range data {
				var e struct{ Delta gen.MessagesPiece }
				json.Unmarshal([]byte(d), &e)
				text += e.Delta.Text
			}
		} else {
			got, prompt := message(t, b, body+`}`)
			text = *got.Content[0].Text
			if !strings.HasPrefix(prompt, "<enable_thinking>false\n") || got.Usage.OutputTokens != len(b.engine.says)+1 {
				t.Errorf("prompt %q, usage %+v", prompt, got.Usage)
			}
		}
		if text != "Yes" {
			t.Errorf("stream %v: %q", stream, text)
		}
	}
}

// A key is the listener's token, on all of its routes.
func TestAPIKey(t *testing.T) {
	const token = "a token of some length"
	b := newBench(t, func(c *api.Config) { c.Public.Token = token })
	const body = `{"max_tokens":1,"messages":[{"role":"user","content":"m"}]}`
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{nil, 401},
		{[]string{"X-Api-Key: " + token}, 200},
		{[]string{"X-Api-Key: another"}, 401},
		{[]string{"Authorization: Bearer " + token, "X-Api-Key: another"}, 200},
		{[]string{"Authorization: Bearer another", "X-Api-Key: " + token}, 401},
	} {
		w := do(b.api.Public(), "POST", "/v1/messages", body, c.headers...)
		conforms(t, b.doc, "POST", "/v1/messages", w)
		if w.Code != c.status || c.status == 401 && !strings.Contains(w.Body.String(), `"type":"authentication_error"`) {
			t.Errorf("%v: status %d: %s", c.headers, w.Code, w.Body)
		}
	}
	if w := do(b.api.Public(), "GET", "/v1/models", "", "X-Api-Key: "+token); w.Code != 200 {
		t.Errorf("models: status %d", w.Code)
	}
}

// Tools, calls and what tools answered reach the template as in a chat; a call is a block, plain
// and streamed.
func TestMessagesTools(t *testing.T) {
	b := newBench(t, nil)
	b.engine.template, b.engine.room = "<tool_call>", 4000
	b.engine.says = "Well.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
	const body = `{"max_tokens":200,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"k"},` +
		`{"role":"assistant","content":[{"type":"text","text":"l"},{"type":"tool_use","id":"t1","name":"f","input":{"a":2}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"7"}]},{"type":"text","text":"m"}]}]`
	got, prompt := message(t, b, body+`}`)
	const want = `<tools>[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]` + "\n<u>k\n" +
		`<a>l[{"id":"t1","type":"function","function":{"name":"f","arguments":{"a":2}}}]` + "\n<t>7t1\n<u>m\n<a>"
	if prompt != want || *got.StopReason != "tool_use" || len(got.Content) != 2 || *got.Content[0].Text != "Well." || *got.Content[1].Name != "f" || string(got.Content[1].Input) != `{"a":1}` {
		t.Errorf("prompt %q, answer %s", prompt, jsonOf(got))
	}
	names, data := events(t, b, body+`,"stream":true}`)
	if got := strings.Join(names, " "); !strings.Contains(got, "content_block_stop content_block_start content_block_delta") || !strings.HasSuffix(got, "content_block_stop message_delta message_stop") {
		t.Error(got)
	}
	arguments := ""
	for _, d := range data {
		var e struct {
			Index int
			Delta gen.MessagesInputPiece
		}
		json.Unmarshal([]byte(d), &e)
		if arguments += e.Delta.PartialJson; e.Delta.PartialJson != "" && e.Index != 1 {
			t.Errorf("%s", d)
		}
	}
	if arguments != `{"a": 1}` {
		t.Errorf("arguments %q", arguments)
	}
	for choice, stop := range map[string]gen.MessagesAnswerStopReason{`{"type":"any"}`: "tool_use", `{"type":"tool","name":"f","disable_parallel_tool_use":true}`: "tool_use", `{"type":"none"}`: "end_turn"} {
		b.engine.says = "x"
		if got, _ := message(t, b, body+`,"tool_choice":`+choice+`}`); *got.StopReason != stop {
			t.Errorf("%s: %s", choice, jsonOf(got))
		}
	}
	b.engine.says = "x"
	if got, _ := message(t, b, `{"max_tokens":9,"messages":[{"role":"user","content":"k"}],"output_config":{"format":{"type":"json_schema","schema":{"const":7}}}}`); *got.Content[0].Text != "7" {
		t.Errorf("%s", jsonOf(got))
	}
}
