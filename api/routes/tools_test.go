package routes

import (
	"encoding/json"
	"strings"
	"testing"

	"whorl/api"
	"whorl/api/gen"
)

// Where the template leaves tools out the model is told of them in the system's text, calls
// and what tools answered are texts too; unless the request says that none is to be called.
func TestToolsUnheard(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f"}}`
	const body = `{"messages":[{"role":"system","content":"no tools"},{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"7"}],"max_tokens":1,"tools":[` + tool + `]`
	b := newBench(t, nil)
	b.engine.room = 4000
	if w := do(b.api.Public(), "POST", "/v1/chat/completions", body+`}`); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	prompt := b.engine.Decode(b.engine.requests()[0].Prompt)
	for _, want := range []string{"<s>no tools\n\nYou may call functions", "<tools>\n" + tool + "\n</tools>", "<u>a\n<a><tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>\n<u><tool_response>\n7\n</tool_response>\n<a>"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the prompt lacks %q: %q", want, prompt)
		}
	}
	if w := do(b.api.Public(), "POST", "/v1/chat/completions", body+`,"tool_choice":"none"}`); w.Code != 200 || strings.Contains(b.engine.Decode(b.engine.requests()[1].Prompt), "<tools>") {
		t.Errorf("tool_choice none: status %d: %s", w.Code, w.Body)
	}
}

// Tools, calls and variables reach the template as they came, but that arguments spelled as
// a text become the object they spell.
func TestTools(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"a","name":"x"},{"role":"assistant","content":null,"reasoning_content":"hm",` +
		`"tool_calls":[{"type":"function","function":{"arguments":"{\"z\":1, \"a\":[\"<\"]}","name":"f"},"id":"c1"}]},` +
		`{"role":"tool","tool_call_id":"c1","name":"f","content":"7"}]`
	const rest = "<u>a\n" + `<a>hm[{"id":"c1","type":"function","function":{"name":"f","arguments":{"z":1,"a":["\u003c"]}}}]` + "\n<t>7c1f\n<a>"
	const tools = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"b":1,"a":2}}}]`
	for _, c := range []struct{ more, want string }{
		{``, ``},
		{`,"tools":[]`, ``},
		{`,"tools":null,"chat_template_kwargs":null`, ``},
		{`,` + tools + `,"tool_choice":"none"`, ``},
		{`,` + tools + `,"tool_choice":"auto"`, "<tools>" + strings.TrimPrefix(tools, `"tools":`) + "\n"},
		{`,` + tools + `,"chat_template_kwargs":{"enable_thinking":false,"deep":{"z":1,"a":2}}`,
			"<tools>" + strings.TrimPrefix(tools, `"tools":`) + "\n<deep>" + `{"z":1,"a":2}` + "\n<enable_thinking>false\n"},
	} {
		w := do(newBench(t, nil).api.Public(), "POST", "/v1/chat/completions", `{`+messages+c.more+`,"max_tokens":1,"return_token_ids":true}`)
		var chat gen.ChatCompletion
		if err := json.Unmarshal(w.Body.Bytes(), &chat); err != nil || len(chat.Choices) != 1 {
			t.Errorf("%s: %v: %s", c.more, err, w.Body)
			continue
		}
		var prompt []byte
		for _, id := range chat.Choices[0].PromptTokenIds {
			if id != fakeBOS {
				prompt = append(prompt, byte(id))
			}
		}
		if string(prompt) != c.want+rest {
			t.Errorf("%s:\n got %q\nwant %q", c.more, prompt, c.want+rest)
		}
	}
}

// answered asks for an answer, plain and streamed, which have to be the same; ids of calls are
// left out.
func answered(t *testing.T, b *bench, body string) (message gen.ChatAnswer, finish string) {
	t.Helper()
	w := do(b.api.Public(), "POST", "/v1/chat/completions", body+`}`)
	var plain gen.ChatCompletion
	if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil || w.Code != 200 {
		t.Fatalf("status %d: %v: %s", w.Code, err, w.Body)
	}
	conforms(t, b.doc, "POST", "/v1/chat/completions", w)
	message, finish = plain.Choices[0].Message, string(plain.Choices[0].FinishReason)
	var joined gen.ChatAnswer
	content, thought, last := "", "", ""
	w = do(b.api.Public(), "POST", "/v1/chat/completions", body+`,"stream":true}`)
	chunk := b.doc.Components.Schemas["ChatChunk"].Value
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		checkSchema(t, "chunk", chunk, []byte("{"+data))
		var c gen.ChatChunk
		if err := json.Unmarshal([]byte("{"+data), &c); err != nil {
			t.Fatal(err)
		}
		d := c.Choices[0].Delta
		content += api.Value(d.Content, "")
		if d.ReasoningContent != nil {
			thought += *d.ReasoningContent
			joined.ReasoningContent = &thought
		}
		for _, p := range d.ToolCalls {
			if p.Id != nil {
				joined.ToolCalls = append(joined.ToolCalls, gen.MadeCall{Id: *p.Id, Type: "function", Function: gen.MadeFunctionCall{Name: *p.Function.Name}})
			}
			joined.ToolCalls[p.Index].Function.Arguments += *p.Function.Arguments
		}
		if f := d.FunctionCall; f != nil {
			if joined.FunctionCall == nil {
				joined.FunctionCall = &gen.MadeFunctionCall{Name: *f.Name}
			}
			joined.FunctionCall.Arguments += *f.Arguments
		}
		if r := c.Choices[0].FinishReason; r != nil {
			last = string(*r)
		}
	}
	for _, list := range [][]gen.MadeCall{message.ToolCalls, joined.ToolCalls} {
		for i := range list {
			if list[i].Id == "" {
				t.Errorf("a call has no id: %s", w.Body)
			}
			list[i].Id = ""
		}
	}
	joined.Role, joined.Content = message.Role, &content
	if content == "" && (joined.ToolCalls != nil || joined.FunctionCall != nil) {
		joined.Content = nil
	}
	if a, b := jsonOf(message), jsonOf(joined); a != b || last != finish {
		t.Errorf("plain %s %s\nstreamed %s %s", a, finish, b, last)
	}
	return message, finish
}

func jsonOf(v any) string { b, _ := json.Marshal(v); return string(b) }

// What a model writes as calls becomes calls, plain and streamed, in the older form too; what only
// looks like one stays text.
func TestToolCalls(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}},{"type":"function","function":{"name":"g"}}]`
	const old = `"functions":[{"name":"f"},{"name":"g"}]`
	const hermes, mistral = "<tool_call>", "[TOOL_CALLS]"
	two := "Well.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
	for _, c := range []struct{ name, template, says, fields, want, finish string }{
		{"two", hermes, two, tools, `{"content":"Well.","refusal":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\": 1}","name":"f"},"id":"","type":"function"},{"function":{"arguments":"{}","name":"g"},"id":"","type":"function"}]}`, "tool_calls"},
		{"old", hermes, two, old, `{"content":"Well.","function_call":{"arguments":"{\"a\": 1}","name":"f"},"refusal":null,"role":"assistant"}`, "function_call"},
		{"mistral", mistral, "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}]", tools, `{"content":null,"refusal":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"g"},"id":"","type":"function"}]}`, "tool_calls"},
		{"none", hermes, two, tools + `,"tool_choice":"none"`, jsonOf(gen.ChatAnswer{Role: "assistant", Content: &two}), "stop"},
		{"unknown", hermes, "<tool_call>{\"name\": \"h\"}", tools, `{"content":"\u003ctool_call\u003e{\"name\": \"h\"}","refusal":null,"role":"assistant"}`, "stop"},
		{"strict", hermes, "{}\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": {}}}", strings.Replace(tools, `"name":"f"`, `"name":"f","strict":true`, 1) + `,"max_tokens":80`,
			`{"content":"{}","refusal":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\": -1}","name":"f"},"id":"","type":"function"}]}`, "tool_calls"},
		{"text", hermes, "a < b", tools, `{"content":"a \u003c b","refusal":null,"role":"assistant"}`, "stop"},
		{"cut off", hermes, two[:50], tools + `,"max_tokens":50`, `{"content":"Well.","refusal":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\":","name":"f"},"id":"","type":"function"}]}`, "length"},
		{"required", hermes, "x", tools + `,"tool_choice":"required","parallel_tool_calls":false`, "", "tool_calls"},
		{"named", hermes, "x", tools + `,"tool_choice":{"type":"function","function":{"name":"g"}}`, `{"content":null,"refusal":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"g"},"id":"","type":"function"}]}`, "tool_calls"},
		{"named old", mistral, "x", old + `,"function_call":{"name":"g"}`, `{"content":null,"function_call":{"arguments":"{}","name":"g"},"refusal":null,"role":"assistant"}`, "function_call"},
	} {
		b := newBench(t, nil)
		b.engine.template, b.engine.says, b.engine.room = c.template, c.says, 4000
		got, finish := answered(t, b, `{"messages":[{"role":"user","content":"a"}],"seed":1,"temperature":0,`+c.fields)
		switch {
		case c.name == "required":
			var arguments struct{ A *int }
			if len(got.ToolCalls) != 1 || got.ToolCalls[0].Function.Name == "f" && (json.Unmarshal([]byte(got.ToolCalls[0].Function.Arguments), &arguments) != nil || arguments.A == nil) {
				t.Errorf("%s: %s", c.name, jsonOf(got))
			}
		case jsonOf(got) != c.want:
			t.Errorf("%s:\n got %s\nwant %s", c.name, jsonOf(got), c.want)
		}
		if finish != c.finish {
			t.Errorf("%s: finish %s, want %s", c.name, finish, c.finish)
		}
	}
}

// Ids of calls are of nine letters where a family's templates want that.
func TestCallIDs(t *testing.T) {
	for template, length := range map[string]int{"[TOOL_CALLS]": 9, "<tool_call>": 29} {
		b := newBench(t, nil)
		b.engine.template, b.engine.room = template, 4000
		w := do(b.api.Public(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
		var chat gen.ChatCompletion
		if err := json.Unmarshal(w.Body.Bytes(), &chat); err != nil || len(chat.Choices[0].Message.ToolCalls) == 0 || len(chat.Choices[0].Message.ToolCalls[0].Id) != length {
			t.Errorf("%s: %s", template, w.Body)
		}
	}
}

// An answer has the form that is asked for, whatever the model would say; a model that thinks may
// do so before.
func TestForms(t *testing.T) {
	for _, c := range []struct{ says, fields, content, thought string }{
		{"abc", `"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"null"}},"required":["name","n"]}}}`, `{"name":"","n": null}`, ""},
		{"{\"a\": [1]}", `"response_format":{"type":"json_object"}`, `{"a": [1]}`, ""},
		{"x", `"response_format":{"type":"text"}`, "x", ""},
		{"7x", `"guided_regex":"[0-9]+ apples"`, "7 apples", ""},
		{"green", `"guided_choice":["red","green"]`, "green", ""},
		{"fals", `"guided_json":"{\"type\":\"boolean\"}"`, "false", ""},
		{"<think>\nHm.\n</think>\n\ntrue", `"guided_json":{"type":"boolean"}`, "true", "Hm."},
		{"true", `"guided_json":{"type":"boolean"},"tools":[{"type":"function","function":{"name":"f"}}]`, "true", ""},
	} {
		b := newBench(t, nil)
		b.engine.says, b.engine.thinks, b.engine.room = c.says, c.thought != "", 4000
		got, finish := answered(t, b, `{"messages":[{"role":"user","content":"a"}],`+c.fields)
		if api.Value(got.Content, "") != c.content || finish != "stop" {
			t.Errorf("%s: %s, %s", c.fields, jsonOf(got), finish)
		}
	}
}
