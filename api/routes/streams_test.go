package routes

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// told is what an answer says, whatever dialect it is in.
type told struct {
	Thought, Said string
	Calls         []string // name and arguments
	End           string
	In, Out       float64 // tokens
}

// object is decoded JSON; its lookups give nothing where nothing is.
type object map[string]any

func (o object) at(path ...any) any {
	var v any = map[string]any(o)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func (o object) text(path ...any) string { s, _ := o.at(path...).(string); return s }

func (o object) count(path ...any) float64 { n, _ := o.at(path...).(float64); return n }

func (o object) list(path ...any) (out []object) {
	l, _ := o.at(path...).([]any)
	for _, x := range l {
		m, _ := x.(map[string]any)
		out = append(out, m)
	}
	return out
}

// call puts a piece of a call to the one of its index.
func (a *told) call(i int, piece string) {
	for len(a.Calls) <= i {
		a.Calls = append(a.Calls, "")
	}
	a.Calls[i] += piece
}

// inputs are the calls with their arguments as Anthropic's dialect has them in a whole answer: as
// objects, of which what is none is a member.
func (a *told) inputs() {
	for i, c := range a.Calls {
		name, arguments, _ := strings.Cut(c, "{")
		var o any
		if json.Unmarshal([]byte("{"+arguments), &o) != nil {
			o = map[string]any{"arguments": "{" + arguments}
		}
		a.Calls[i] = name + jsonOf(o)
	}
}

// dialects say the same question, and read an answer whole and in pieces.
var dialects = []struct {
	path   string
	ask    string // with room for fields
	whole  func(a *told, o object)
	pieces func(a *told, o object)
}{
	{"/v1/chat/completions", `"messages":[{"role":"user","content":"m"}],"stop":["q"],"max_tokens":MOST,"stream_options":{"include_usage":true}TOOLS`,
		func(a *told, o object) {
			m := object(o.list("choices")[0])
			a.Thought, a.Said, a.End = m.text("message", "reasoning_content"), m.text("message", "content"), m.text("finish_reason")
			for i, c := range m.list("message", "tool_calls") {
				a.call(i, c.text("function", "name")+c.text("function", "arguments"))
			}
			a.In, a.Out = o.count("usage", "prompt_tokens"), o.count("usage", "completion_tokens")
		},
		func(a *told, o object) {
			for _, c := range o.list("choices") {
				a.Thought, a.Said, a.End = a.Thought+c.text("delta", "reasoning_content"), a.Said+c.text("delta", "content"), a.End+c.text("finish_reason")
				for _, p := range c.list("delta", "tool_calls") {
					a.call(int(p.count("index")), p.text("function", "name")+p.text("function", "arguments"))
				}
			}
			a.In, a.Out = a.In+o.count("usage", "prompt_tokens"), a.Out+o.count("usage", "completion_tokens")
		}},
	{"/v1/completions", `"prompt":"m","stop":["q"],"max_tokens":MOST,"stream_options":{"include_usage":true}`,
		func(a *told, o object) {
			a.Said, a.End = o.text("choices", 0, "text"), o.text("choices", 0, "finish_reason")
			a.In, a.Out = o.count("usage", "prompt_tokens"), o.count("usage", "completion_tokens")
		},
		func(a *told, o object) {
			a.Said, a.End = a.Said+o.text("choices", 0, "text"), a.End+o.text("choices", 0, "finish_reason")
			a.In, a.Out = a.In+o.count("usage", "prompt_tokens"), a.Out+o.count("usage", "completion_tokens")
		}},
	{"/v1/responses", `"input":"m","store":false,"max_output_tokens":MOSTTOOLS`, readResponse,
		func(a *told, o object) {
			switch o.text("type") {
			case "response.output_text.delta":
				a.Said += o.text("delta")
			case "response.reasoning_text.delta":
				a.Thought += o.text("delta")
			case "response.output_item.added":
				if o.text("item", "type") == "function_call" {
					a.call(len(a.Calls), o.text("item", "name"))
				}
			case "response.function_call_arguments.delta":
				a.call(len(a.Calls)-1, o.text("delta"))
			case "response.completed", "response.incomplete":
				var last told
				whole, _ := o["response"].(map[string]any)
				readResponse(&last, whole)
				a.End, a.In, a.Out = last.End, last.In, last.Out
			}
		}},
	{"/v1/messages", `"messages":[{"role":"user","content":"m"}],"stop_sequences":["q"],"max_tokens":MOSTTOOLS`,
		func(a *told, o object) {
			for _, c := range o.list("content") {
				switch c.text("type") {
				case "thinking":
					a.Thought += c.text("thinking")
				case "text":
					a.Said += c.text("text")
				case "tool_use":
					a.call(len(a.Calls), c.text("name")+jsonOf(c["input"]))
				}
			}
			a.End, a.In, a.Out = o.text("stop_reason"), o.count("usage", "input_tokens"), o.count("usage", "output_tokens")
		},
		func(a *told, o object) {
			switch o.text("type") {
			case "message_start":
				a.In = o.count("message", "usage", "input_tokens")
			case "content_block_start":
				if o.text("content_block", "type") == "tool_use" {
					a.call(len(a.Calls), o.text("content_block", "name"))
				}
			case "content_block_delta":
				a.Thought, a.Said = a.Thought+o.text("delta", "thinking"), a.Said+o.text("delta", "text")
				if o.text("delta", "type") == "input_json_delta" {
					a.call(len(a.Calls)-1, o.text("delta", "partial_json"))
				}
			case "message_delta":
				a.End, a.Out = o.text("delta", "stop_reason"), o.count("usage", "output_tokens")
			}
		}},
	{"/api/chat", `"model":"org/toy","messages":[{"role":"user","content":"m"}],"options":{"stop":["q"],"num_predict":MOST}TOOLS`, readOllama, readOllama},
	{"/api/generate", `"model":"org/toy","prompt":"m","options":{"stop":["q"],"num_predict":MOST}`, readOllama, readOllama},
}

func readResponse(a *told, o object) {
	for _, it := range o.list("output") {
		for _, c := range it.list("content") {
			if it.text("type") == "reasoning" {
				a.Thought += c.text("text")
			} else {
				a.Said += c.text("text")
			}
		}
		if it.text("type") == "function_call" {
			a.call(len(a.Calls), it.text("name")+it.text("arguments"))
		}
	}
	a.End, a.In, a.Out = o.text("status"), o.count("usage", "input_tokens"), o.count("usage", "output_tokens")
}

func readOllama(a *told, o object) {
	a.Thought += o.text("message", "thinking") + o.text("thinking")
	a.Said += o.text("message", "content") + o.text("response")
	for _, c := range o.list("message", "tool_calls") {
		a.call(len(a.Calls), c.text("function", "name")+jsonOf(c.at("function", "arguments")))
	}
	a.End += o.text("done_reason")
	a.In, a.Out = a.In+o.count("prompt_eval_count"), a.Out+o.count("eval_count")
}

// Whatever a model says, in every dialect: what is streamed, put together, is the plain answer.
func TestStreamsAreTheWholeAnswer(t *testing.T) {
	pieces := []string{"<think>", "</think>", "Hm. ", "\n", "<tool_call>", "</tool_call>", `{"name": "f", "arguments": {"a": 1}}`, `{"name": "f", "arguments": {"a":`, `{"name": "h", "arguments": {}}`,
		"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>", "<", "</", "{", "a", " b", "q", "<think", "<tool", "```"}
	rng := rand.New(rand.NewPCG(18, 7))
	rounds := 120
	if testing.Short() {
		rounds = 20
	}
	calls, thoughts := 0, 0
	b := newBench(t, nil)
	b.engine.template, b.engine.room = "<tool_call>", 4000
	for range rounds {
		b.engine.thinks, b.engine.says = rng.IntN(2) == 0, ""
		if b.engine.thinks && rng.IntN(2) == 0 {
			b.engine.says = "<think>\nSo " + pieces[rng.IntN(len(pieces))]
		}
		for range 1 + rng.IntN(7) {
			b.engine.says += pieces[rng.IntN(len(pieces))]
		}
		most := "120"
		if rng.IntN(3) == 0 {
			most = "17"
		}
		for _, d := range dialects {
			tools := `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
			switch d.path {
			case "/v1/responses":
				tools = `,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`
			case "/v1/messages":
				tools = `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`
			}
			body := strings.NewReplacer("MOST", most, "TOOLS", tools).Replace(d.ask)
			var plain, streamed told
			w := do(b.api.Public(), "POST", d.path, `{"stream":false,`+body+`}`, "Anthropic-Version: 2023-06-01")
			var o object
			if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || w.Code != 200 {
				t.Fatalf("%s: %s: status %d: %s", d.path, body, w.Code, w.Body)
			}
			d.whole(&plain, o)
			w = do(b.api.Public(), "POST", d.path, `{"stream":true,`+body+`}`, "Anthropic-Version: 2023-06-01")
			for line := range strings.Lines(w.Body.String()) {
				var o object
				if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &o) == nil {
					d.pieces(&streamed, o)
				}
			}
			if d.path == "/v1/messages" {
				streamed.inputs()
			}
			if calls, thoughts = calls+len(plain.Calls), thoughts+len(plain.Thought); jsonOf(plain) != jsonOf(streamed) {
				t.Errorf("%s: the model says %q, at most %s:\nplain    %s\nstreamed %s", d.path, b.engine.says, most, jsonOf(plain), jsonOf(streamed))
			}
		}
	}
	if calls < rounds/4 || thoughts < rounds {
		t.Errorf("only %d calls, and %d letters of thoughts", calls, thoughts)
	}
}
