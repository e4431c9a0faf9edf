package routes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
)

// response asks for one.
func response(t *testing.T, b *bench, h http.Handler, body string) (out gen.Response, prompt string) {
	t.Helper()
	w := do(h, "POST", "/v1/responses", body)
	conforms(t, b.doc, "POST", "/v1/responses", w)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
		t.Fatalf("status %d: %v: %s", w.Code, err, w.Body)
	}
	turns := b.engine.requests()
	return out, strings.TrimPrefix(b.engine.Decode(turns[len(turns)-1].Prompt), "<s>")
}

// texts are the items of a response, each in a line.
func texts(r gen.Response) string {
	var out []string
	for _, it := range r.Output {
		line := string(it.Type)
		for _, p := range api.Value(it.Content, nil) {
			line += " " + p.Text
		}
		if it.Name != nil {
			line += " " + *it.Name + *it.Arguments
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

// All that an input may hold reaches the template; an answer is items, and goes on from another.
func TestResponses(t *testing.T) {
	b := newBench(t, nil)
	b.engine.room, b.engine.template = 4000, "<tool_call>"
	public := b.api.Public()
	b.engine.says = "Yes"
	one, prompt := response(t, b, public, `{"input":"m","instructions":"be","metadata":{"k":"v"}}`)
	if prompt != "<s>be\n<u>m\n<a>" || texts(one) != "message Yes" || one.Status != "completed" || one.Usage.OutputTokens != 4 || one.Metadata["k"] != "v" || !one.Store {
		t.Errorf("prompt %q, %s", prompt, jsonOf(one))
	}
	b.engine.says = "Well.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
	const tools = `"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}]`
	two, prompt := response(t, b, public, `{"input":[{"role":"user","content":[{"type":"input_text","text":"n"}]}],"previous_response_id":"`+one.Id+`",`+tools+`}`)
	if !strings.HasSuffix(prompt, "\n<u>m\n<a>Yes\n<u>n\n<a>") || texts(two) != `message Well.; function_call f{"a": 1}` || *two.PreviousResponseId != one.Id {
		t.Errorf("prompt %q, %s", prompt, jsonOf(two))
	}
	call := two.Output[1]
	b.engine.says = "Seven."
	three, prompt := response(t, b, public, `{"input":[{"type":"function_call_output","call_id":"`+*call.CallId+`","output":"7"}],"previous_response_id":"`+two.Id+`"}`)
	want := fmt.Sprintf(`<a>Well.[{"id":"%s","type":"function","function":{"name":"f","arguments":{"a":1}}}]`+"\n<t>7%s\n<a>", *call.CallId, *call.CallId)
	if !strings.HasSuffix(prompt, want) || texts(three) != "message Seven." {
		t.Errorf("prompt %q, want %q; %s", prompt, want, jsonOf(three))
	}
	// Without anything stored, the same history in items.
	_, again := response(t, b, public, `{"store":false,"input":[{"role":"user","content":"m"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes"}]},{"role":"user","content":"n"},`+
		`{"type":"reasoning","id":"rs_1","summary":[]},{"role":"assistant","content":"Well."},{"type":"function_call","call_id":"`+*call.CallId+`","name":"f","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"`+*call.CallId+`","output":"7"}]}`)
	if again != prompt {
		t.Errorf("in items %q\nstored   %q", again, prompt)
	}
	b.engine.says, b.engine.thinks = "<think>Hm.</think>7", true
	if r, _ := response(t, b, public, `{"input":"m","text":{"format":{"type":"json_schema","name":"x","schema":{"type":"integer"}}},"reasoning":{"effort":"low"}}`); texts(r) != "reasoning Hm.; message 7" || r.Usage.OutputTokensDetails.ReasoningTokens == 0 {
		t.Errorf("%s", jsonOf(r))
	}
	b.engine.thinks, b.engine.says = false, "abcdef"
	if r, _ := response(t, b, public, `{"input":"m","max_output_tokens":3}`); r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" || texts(r) != "message abc" {
		t.Errorf("%s", jsonOf(r))
	}

	get := func(method, path string) string {
		w := do(public, method, path, "")
		pattern := "/v1/responses/{id}"
		if strings.Contains(path, "/input_items") {
			pattern += "/input_items"
		}
		conforms(t, b.doc, method, pattern, w)
		return w.Body.String()
	}
	if got := get("GET", "/v1/responses/"+two.Id); strings.TrimSpace(got) != jsonOf(two) {
		t.Errorf("stored %s, told %s", got, jsonOf(two))
	}
	if got := get("GET", "/v1/responses/"+two.Id+"/input_items?order=asc&limit=1"); !strings.Contains(got, `"text":"n"`) || !strings.Contains(got, `"has_more":false`) {
		t.Error(got)
	}
	if got := get("DELETE", "/v1/responses/"+two.Id); !strings.Contains(got, `"deleted":true`) {
		t.Error(got)
	}
	for _, path := range []string{"/v1/responses/" + two.Id, "/v1/responses/resp_x", "/v1/responses/resp_x/input_items"} {
		if got := get("GET", path); !strings.Contains(got, `"code":"not_found"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// What cannot be done is named.
func TestResponsesRefused(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct{ body, param string }{
		{`{}`, "input"}, {`{"input":""}`, ""}, {`{"input":[{"content":"m"}]}`, "input.0.role"}, {`{"input":[{"type":"function_call"}]}`, "input.0.name"},
		{`{"input":[{"type":"item_reference","id":"x"}]}`, "input.0.type"}, {`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`, "input.0.content"},
		{`{"input":"m","tools":[{"type":"web_search"}]}`, "tools.0.type"}, {`{"input":"m","tool_choice":"required"}`, "tool_choice"}, {`{"input":"m","background":true}`, "background"},
		{`{"input":"m","previous_response_id":"resp_x"}`, "previous_response_id"}, {`{"input":"m","temperature":-1}`, "temperature"}, {`{"input":"m","conversation":"c"}`, "conversation"},
		{`{"input":"m","text":{"format":{"type":"json_schema","schema":{"not":{}}}}}`, "text.format"}, {`{"input":"m","truncation":"auto"}`, "truncation"},
	} {
		w := do(b.api.Public(), "POST", "/v1/responses", c.body)
		conforms(t, b.doc, "POST", "/v1/responses", w)
		if c.param == "" {
			continue // an empty text is a turn like others
		}
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"`+c.param+`"`) {
			t.Errorf("%s: status %d: %s", c.body, w.Code, w.Body)
		}
	}
}

// The events of a stream come to what the whole response is, which its last event has.
func TestResponsesStream(t *testing.T) {
	const body = `{"input":"m","tools":[{"type":"function","name":"f"}]`
	for _, says := range []string{"Yes", "", "<think>Hm.</think>Well.\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call><tool_call>{\"name\": \"f\"}</tool_call>"} {
		b := newBench(t, nil)
		b.engine.room, b.engine.template, b.engine.says, b.engine.thinks = 4000, "<tool_call>", says, strings.HasPrefix(says, "<think>")
		if says == "" {
			b.engine.eosAfter, b.engine.says = 1, "\n"
		}
		plain, _ := response(t, b, b.api.Public(), body+`}`)
		w := do(b.api.Public(), "POST", "/v1/responses", body+`,"stream":true}`)
		schema := b.doc.Components.Schemas["ResponseEvent"].Value
		var pieces, done strings.Builder
		var last gen.ResponseEvent
		n := 0
		for part := range strings.SplitSeq(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n") {
			name, data, _ := strings.Cut(part, "\ndata: ")
			checkSchema(t, name, schema, []byte(data))
			var e gen.ResponseEvent
			if err := json.Unmarshal([]byte(data), &e); err != nil || "event: "+string(e.Type) != name || e.SequenceNumber != n {
				t.Fatalf("event %d, %v: %s", n, err, part)
			}
			n++
			if e.Delta != nil {
				pieces.WriteString(*e.Delta)
			}
			if e.Item != nil && e.Type == "response.output_item.done" {
				for _, p := range api.Value(e.Item.Content, nil) {
					done.WriteString(p.Text)
				}
				if e.Item.Arguments != nil {
					done.WriteString(*e.Item.Arguments)
				}
			}
			last = e
		}
		if last.Type != "response.completed" || texts(*last.Response) != texts(plain) || !strings.HasPrefix(done.String(), pieces.String()) {
			t.Errorf("%q: last %s %s, plain %s, in pieces %q, done %q", says, last.Type, texts(*last.Response), texts(plain), pieces.String(), done.String())
		}
	}
	b := newBench(t, nil)
	b.engine.dieAfter, b.engine.dieErr = 1, swarm.Errorf(swarm.CodeBlocksMissing, swarm.Elsewhere, "nobody")
	if w := do(b.api.Public(), "POST", "/v1/responses", `{"input":"m","stream":true}`); !strings.Contains(w.Body.String(), "event: response.failed\ndata: ") || !strings.Contains(w.Body.String(), `"status":"failed"`) {
		t.Error(w.Body)
	}
}

// Vectors are of length 1 unless they are wanted as they are; scores are the cosines between them.
func TestEmbeddings(t *testing.T) {
	b := newBench(t, nil)
	ask := func(path, body string) string {
		w := do(b.api.Public(), "POST", path, body)
		conforms(t, b.doc, "POST", path, w)
		return w.Body.String()
	}
	if got := ask("/v1/embeddings", `{"input":["ab",""],"normalize":false}`); !strings.Contains(got, `"input is empty`) {
		t.Error(got)
	}
	if got := ask("/v1/embeddings", `{"input":"ab","normalize":false}`); !strings.Contains(got, `"embedding":[3,0,98,98]`) || !strings.Contains(got, `"usage":{"prompt_tokens":3,"total_tokens":3}`) {
		t.Error(got)
	}
	var one struct {
		Data []struct{ Embedding []float64 }
	}
	if got := ask("/v1/embeddings", `{"input":[[97,98],[97]]}`); json.Unmarshal([]byte(got), &one) != nil || len(one.Data) != 2 || one.Data[1].Embedding[2] < 0.99 {
		t.Error(got)
	}
	if got := ask("/v1/embeddings", `{"input":[97],"encoding_format":"base64","normalize":false}`); !strings.Contains(got, `"embedding":"AACAPwAAAAAAAMJCAAAAAA=="`) {
		t.Error(got)
	}
	if got := ask("/v1/embeddings", `{"input":"a","dimensions":2}`); !strings.Contains(got, `"param":"dimensions"`) {
		t.Error(got)
	}
	if got := ask("/v1/score", `{"text_1":"ab","text_2":["ab","zzzz"]}`); !strings.Contains(got, `{"index":0,"object":"score","score":1}`) && !strings.Contains(got, `"score":0.99999`) && !strings.Contains(got, `"score":1.0000000`) {
		t.Error(got)
	}
	if got := ask("/v1/score", `{"text_1":["a","b"],"text_2":"c"}`); !strings.Contains(got, `"param":"text_1"`) {
		t.Error(got)
	}
}

// Of more answers the likeliest are given.
func TestBestOf(t *testing.T) {
	b := newBench(t, nil)
	var got gen.Completion
	w := do(b.api.Public(), "POST", "/v1/completions", `{"prompt":["a","b"],"n":2,"best_of":4,"max_tokens":3}`)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Choices) != 4 || got.Choices[3].Index != 3 || got.Choices[3].Text != "cde" || got.Choices[0].Logprobs != nil || got.Usage.CompletionTokens != 24 {
		t.Errorf("%v: %s", err, w.Body)
	}
	if n := len(b.engine.requests()); n != 8 {
		t.Errorf("%d answers were made", n)
	}
}
