package routes

import (
	"encoding/json"
	"strings"
	"testing"

	"whorl/api/gen"
)

// Where the template leaves tools out the model would not hear of them: the request is
// refused, unless it says itself that none is to be called.
func TestToolsUnheard(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"no tools"}],"max_tokens":1,"tools":[{"type":"function","function":{"name":"f"}}]`
	public := newBench(t, nil).api.Public()
	w := do(public, "POST", "/v1/chat/completions", body+`}`)
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"tools"`) || !strings.Contains(w.Body.String(), `"code":"unsupported_parameter"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := do(public, "POST", "/v1/chat/completions", body+`,"tool_choice":"none"}`); w.Code != 200 {
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
