package calls

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"whorl/client/grammar"
)

// joined is what parts come to: text, and calls as name(arguments).
func joined(parts []Part) string {
	var text strings.Builder
	var calls []string
	for _, p := range parts {
		switch {
		case p.Call == nil:
			text.WriteString(p.Text)
		case p.Call.Name != "":
			calls = append(calls, p.Call.Name+":"+p.Call.Arguments)
		default:
			calls[p.Call.Index] += p.Call.Arguments
		}
	}
	return strings.Join(append([]string{text.String()}, calls...), "|")
}

// parse has a text come in pieces of so many bytes.
func parse(format, text string, size int) string {
	f, err := Named(format)
	if err != nil {
		panic(err)
	}
	p := NewParser(f, []string{"f", "get_weather"}, false)
	var parts []Part
	for len(text) > size {
		parts = append(parts, p.Push(text[:size])...)
		text = text[size:]
	}
	parts = append(parts, p.Push(text)...)
	return joined(append(parts, p.Flush()...))
}

// What each family writes, whole and in any pieces.
func TestParse(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}<\\\"\"}}\n</tool_call>", `|f:{"a": "}<\""}`},
		{"hermes", "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>{\"arguments\": {\"x\": [1, {}]}, \"name\": \"get_weather\"}</tool_call>\n", `Let me see.|f:{}|get_weather:{"x": [1, {}]}`},
		{"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", `|f:{}`},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call> done", ` done|f:{"a": 1}`},
		{"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}", `|f:{}`},
		{"hermes", "<tool_call>\n{\"id\": 3, \"name\": \"f\", \"arguments\": {\"a\": 1}", `|f:{"a": 1}`}, // cut off
		{"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1,", `|f:{"a": [1,`},
		{"hermes", "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"b\":2}}]</tool_call>", `|f:{}|f:{"b":2}`},
		// Text that only looks like a call.
		{"hermes", "  Write <tool_call> first.\n", "  Write <tool_call> first.\n"},
		{"hermes", "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"},
		{"hermes", "<tool_call>{\"name\": 5}", "<tool_call>{\"name\": 5}"},
		{"hermes", "<tool_call>\n{\"na", "<tool_call>\n{\"na"},
		{"hermes", "<tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}", "<tool_call>|f:{}"},
		{"hermes", "a < b, <tool", "a < b, <tool"},
		{"hermes", "\n\n", "\n\n"},
		{"hermes", "{\"name\": \"f\", \"arguments\": {}}", "{\"name\": \"f\", \"arguments\": {}}"},
		{"mistral", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, {\"name\": \"get_weather\", \"arguments\": {}}]", `|f:{"a": 1}|get_weather:{}`},
		{"mistral", "[TOOL_CALLS]get_weather[ARGS]{\"a\": 1}[TOOL_CALLS]f[CALL_ID]abc[ARGS]{}", `|get_weather:{"a": 1}|f:{}`},
		{"mistral", "[TOOL_CALLS]f{\"a\": 1}f{}", `|f:{"a": 1}|f:{}`},
		{"mistral", "[TOOL_CALLS]nothing[ARGS]{}", "[TOOL_CALLS]nothing[ARGS]{}"},
		{"llama3", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", `|f:{"a": 1}`},
		{"llama3", " <|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"get_weather\", \"parameters\": {\"b\": null}}", `|f:{}|get_weather:{"b": null}`},
		{"llama3", "{\"name\": \"Ada\", \"age\": 7}", "{\"name\": \"Ada\", \"age\": 7}"},
		{"llama3", "So {\"name\": \"f\", \"parameters\": {}}", "So {\"name\": \"f\", \"parameters\": {}}"},
		{"granite", "<|tool_call|>[{\"arguments\": {\"a\": 1}, \"name\": \"f\"}]", `|f:{"a": 1}`},
		{"command-r", "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\"a\": 1}\n    }\n]\n```", `|f:{"a": 1}`},
		{"command-r", "Action: run.", "Action: run."},
		{"command-r7b", "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {}}\n]<|END_ACTION|>", `|f:{}`},
		{"phi", "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", `|f:{"a": 1}`},
		{"phi", "import functools\nx = [1]", "import functools\nx = [1]"},
		{"phi", "<|tool_call|>[{\"name\": \"f\", \"parameters\": {}}]<|/tool_call|>", `|f:{}`},
	} {
		for _, size := range []int{1, 2, 3, 7, 1000} {
			if got := parse(c.format, c.text, size); got != c.want {
				t.Errorf("%s, %d bytes at a time: %q\n got %q\nwant %q", c.format, size, c.text, got, c.want)
			}
		}
	}
}

// A call whose beginning was given to the model needs no mark.
func TestParseOpen(t *testing.T) {
	f, _ := Named("hermes")
	p := NewParser(f, []string{"f"}, true)
	if got := joined(append(p.Push(`{"name": "f", "arguments": {"a":1}}`+"\n</tool_call>"), p.Flush()...)); got != `|f:{"a":1}` {
		t.Errorf("got %q", got)
	}
}

// What has to be a call is one by the grammar, and is read as one.
func TestSpec(t *testing.T) {
	tools := []Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)}, {Name: "get_weather", Parameters: json.RawMessage(`{"type":"object"}`)}}
	v := grammar.NewVocabulary(257, func(id int32, _ bool) []byte { return []byte{byte(id)} }, []int32{256})
	for _, name := range Names() {
		f, _ := Named(name)
		one := fmt.Sprintf(`{"%s": "f", "%s": {"a": 12}}`, f.name, f.arguments)
		two := fmt.Sprintf(`{"%s": "get_weather", "%s": {"x": [null]}}`, f.name, f.arguments)
		join := func(calls ...string) string {
			if f.list {
				return "[" + strings.Join(calls, ", ") + "]" + f.end
			}
			return strings.Join(calls, f.between) + f.end
		}
		for _, c := range []struct {
			several bool
			text    string
			ok      bool
		}{
			{false, join(one), true}, {true, join(one), true}, {true, join(two, one), !f.single}, {false, join(one, two), false},
			{false, join(strings.Replace(one, "12", `""`, 1)), false}, {false, "", false}, {true, join(strings.Replace(one, `"f"`, `"g"`, 1)), false},
		} {
			g, err := grammar.Compile(f.Spec(tools, c.several), v)
			if err != nil {
				t.Fatal(err)
			}
			m, err := g.Start()
			if err != nil {
				t.Fatal(err)
			}
			ok := true
			for i := 0; i < len(c.text) && ok; i++ {
				ok = m.Accept(int32(c.text[i])) == nil
			}
			ends, _ := m.Ended()
			if ok && ends != c.ok {
				t.Errorf("%s, several %v: %q is of the form: %v", name, c.several, c.text, ok && ends)
			}
			if c.ok {
				p := NewParser(f, []string{"f", "get_weather"}, f.Begin() != "")
				if got := joined(append(p.Push(c.text), p.Flush()...)); !strings.HasPrefix(got, "|") || p.Calls() != strings.Count(c.text, `": {`) {
					t.Errorf("%s: %q is read as %q", name, c.text, got)
				}
			}
		}
	}
}

func TestOf(t *testing.T) {
	for template, want := range map[string]string{
		"{{ '<tool_call>\\n' }}": "hermes", "{{ '[TOOL_CALLS] [' }}": "mistral", "'<|tool_call|>' ~ x": "granite", "<|tool|>' + tools + '<|/tool|>": "phi",
		"<|start_header_id|>ipython": "llama3", "Action: ```json": "command-r", "": "hermes", "<|START_ACTION|>": "command-r7b",
	} {
		if got := Of(template); got.Name != want {
			t.Errorf("%q: %s, want %s", template, got.Name, want)
		}
	}
	if _, err := Named("x"); err == nil || !strings.Contains(err.Error(), "hermes") {
		t.Error(err)
	}
}

// FuzzParse: however an answer comes in pieces, it is the same; without a call it is the text
// that it was.
func FuzzParse(f *testing.F) {
	f.Add(uint8(0), "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", uint8(3))
	f.Add(uint8(1), "[TOOL_CALLS]get_weather[ARGS]{\"a\": 1}[TOOL_CALLS]f[CALL_ID]abc[ARGS]{}", uint8(2))
	f.Add(uint8(6), "{\"name\": \"f\", \"parameters\": {}}; {", uint8(1))
	f.Add(uint8(3), "Action: ```json\n[{\"tool_name\": \"f\", \"parameters\": null}]\n``` x", uint8(5))
	f.Fuzz(func(t *testing.T, format uint8, text string, size uint8) {
		name := Names()[int(format)%len(formats)]
		whole := parse(name, text, len(text)+1)
		if got := parse(name, text, int(size)%9+1); got != whole {
			t.Fatalf("%s: %q in pieces of %d\n got %q\nwant %q", name, text, int(size)%9+1, got, whole)
		}
		if !strings.Contains(text, "{") && whole != text {
			t.Fatalf("%s: %q became %q", name, text, whole)
		}
	})
}
