package tokenizer

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/model/tokenizer/jinja"
)

// chatter makes a tokenizer of single bytes and two control tokens, with the
// given chat template.
func chatter(t testing.TB, template string) (*Tokenizer, error) {
	t.Helper()
	v := GGUFVocab{Model: "gpt2", Pre: "gpt-2", BOS: 0, EOS: 1, UNK: -1, PAD: -1, EOT: -1, EOM: -1, ChatTemplate: template}
	v.Tokens, v.Types = []string{"<s>", "<|end|>"}, []int32{typeControl, typeControl}
	for b := range 256 {
		v.Tokens, v.Types = append(v.Tokens, string(byteToRune[b])), append(v.Types, 1)
	}
	now := func() time.Time { return time.Date(2026, 3, 7, 9, 5, 0, 0, time.UTC) }
	return FromGGUF(v, WithNow(now))
}

func render(t testing.TB, template string, messages ...Message) (string, error) {
	t.Helper()
	tok, err := chatter(t, template)
	if err != nil {
		return "", err
	}
	return tok.Chat(messages, true)
}

func TestTemplateValues(t *testing.T) {
	user := Message{Role: "user", Content: " Hi <s> "}
	for _, c := range []struct{ template, want string }{
		{"{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}", "<s>|<|end|>|True"},
		{"{{ messages[0].content | trim }}|{{ messages[0]['role'] }}", "Hi <s>|user"},
		{"{{ strftime_now('%d %b %Y, %-d.%-m. %H:%M %A %%') }}", "07 Mar 2026, 7.3. 09:05 Saturday %"},
		{"{% if tools is none and documents is none %}none{% endif %}", "none"},
		{"a\n{% if true %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
		{"a\r\n  {%- if true -%}\r\n  b  {% endif -%}\n\n c", "ab  c"},
		{"{{ {'a': {'b': 1}}['a']['b'] }}", "1"},
		{"{{ '}}' }}{{ \"%}\" }}{# }} #}", "}}%}"},
		{"{%- set ns = namespace(n=0) -%}{%- for i in range(5) -%}{%- set ns.n = ns.n + i -%}{%- endfor -%}{{ ns.n }}", "10"},
		{"{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"},
		{"{% for i in [1, 2, 3] %}{% if i == 2 %}{% set x = 'set' %}{% endif %}{{ i }}{{ x }} {% endfor %}{{ x }}", "1 2set 3 "},
		{"{% set x = 0 %}{% for x in 'ab' %}{% for y in [1, 2] %}{{ x }}{{ z }}{% set z = y %}{{ z }}{% set x = 'c' %} {% endfor %}{% endfor %}{{ x }}", "a1 a2 b1 b2 0"},
		{"{% generation %}x{% endgeneration %}", "x"},
		{"{{ '\u00a0x\u2003'.strip() }}|{{ ('\u001f' ~ 'y') | trim }}|{{ '--a-'.lstrip('-') }}", "x|y|a-"},
	} {
		got, err := render(t, c.template, user)
		if err != nil || got != c.want {
			t.Errorf("%q\n got %q, %v\nwant %q", c.template, got, err, c.want)
		}
	}
}

func TestChatRefuses(t *testing.T) {
	tok, err := chatter(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Chat(nil, true); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("Chat without a template: %v", err)
	}
	if _, err := tok.EncodeChat(nil, true); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("EncodeChat without a template: %v", err)
	}
	if tok, err = chatter(t, "{{ messages[0].role }}"); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"", "a b", "user<|end|>", "usér", strings.Repeat("a", 65)} {
		if _, err := tok.EncodeChat([]Message{{Role: role, Content: "x"}}, true); err == nil {
			t.Errorf("role %q was taken", role)
		}
	}
	if got, err := tok.Chat([]Message{{Role: "tool-1_x", Content: "x"}}, true); err != nil || got != "tool-1_x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestChatOptions(t *testing.T) {
	tok, err := chatter(t, "{{ tools }}|{{ documents }}|{{ x }}|{{ bos_token }}|{{ messages }}")
	if err != nil {
		t.Fatal(err)
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	vars := func(pairs ...string) ChatOption {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = raw(pairs[i+1])
		}
		return WithVars(m)
	}
	messages := []Message{
		{Role: "assistant", NoContent: true, Reasoning: "hm", ToolCalls: raw(`[{"id":1}]`)},
		{Role: "tool", ToolCallID: "c1", Name: "f"},
	}
	got, err := tok.Chat(messages, false, WithTools(raw(`[{"b":1,"a":2.0}]`)), WithDocuments(raw(`null`)), vars("x", `[true]`, "bos_token", `"B"`))
	const want = "[{'b': 1, 'a': 2.0}]|None|[True]|B|[{'thinking': 'hm', 'role': 'assistant', 'content': '', 'tool_calls': [{'id': 1}], 'reasoning_content': 'hm'}, " +
		"{'role': 'tool', 'content': '', 'tool_call_id': 'c1', 'name': 'f'}]"
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
	for _, c := range []struct {
		opt  ChatOption
		want string
	}{
		{WithTools(raw(`{}`)), "tools is no list"},
		{WithDocuments(raw(`"x"`)), "documents is no list"},
		{WithTools(raw(`[`)), "reading tools"},
		{vars("x", `{`), "reading x"},
		{vars("messages", `[]`), `"messages" cannot be set`},
		{vars("x", `"`+strings.Repeat("x", maxChatText)+`"`), "exceeds"},
	} {
		if _, err := tok.EncodeChat(messages, false, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if _, err := tok.Chat([]Message{{Role: "assistant", ToolCalls: raw(`[}`)}}, false); err == nil || !strings.Contains(err.Error(), "tool calls") {
		t.Errorf("bad tool calls: %v", err)
	}
}

// A message that only calls tools has the content that the template takes: every published
// shape takes an empty text, and one that shows calls only where there is no content gets none.
func TestNoContent(t *testing.T) {
	call := Message{Role: "assistant", ToolCalls: json.RawMessage(`[{"id":"call00001","type":"function","function":{"name":"f","arguments":{"a":1}}}]`)}
	silent := call
	silent.NoContent = true
	tools := WithTools(json.RawMessage(`[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}]`))
	rendered := 0
	for _, file := range []string{"chats", "tools"} {
		g := readGolden[chatGolden](t, file)
		for name, tok := range g.chatters(t) {
			chat := func(m Message) (string, error) {
				return tok.Chat([]Message{{Role: "user", Content: "x"}, m, {Role: "user", Content: "y"}}, true, tools)
			}
			want, err := chat(call)
			if errors.Is(err, jinja.ErrRefused) {
				continue // no turns of this kind at all
			}
			rendered++
			if got, err := chat(silent); err != nil || got != want {
				t.Errorf("%s: got %q, %v\nwant %q", name, got, err, want)
			}
		}
	}
	if rendered < 13 {
		t.Errorf("only %d templates rendered calls", rendered)
	}
	for _, c := range []struct{ template, want string }{
		{"{% for m in messages %}{% if m.content is none %}{{ m.tool_calls[0].function.name }}{% else %}[{{ m.content }}]{% endif %}{% endfor %}", "f"},
		{"{% if tools is not none %}{{ tools[0] }}{% endif %}{% for m in messages %}{% if m.content is none %}{{ m.tool_calls[0].function.name }}{% else %}[{{ m.content }}]{% endif %}{% endfor %}", "f"},
		{"{% for m in messages %}{{ m.content + '|' }}{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}{% endfor %}", "|f"},
		{"{% for m in messages %}{% if m.tool_calls is defined %}{{ m.tool_calls[0].function.name }}{% else %}{{ m.content }}{% endif %}{% endfor %}", "f"},
	} {
		if got, err := render(t, c.template, silent); err != nil || got != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.template, got, err, c.want)
		}
	}
}

// What ids add, put together, is what a text of them shows, whatever the vocabulary does at
// its start.
func TestTokenBytes(t *testing.T) {
	for _, name := range []string{"smollm2", "llama3", "llama2", "metaspace", "gemma", "phi3", "granite"} {
		tok, _ := loadGolden(t, name)
		for _, text := range readTexts(t) {
			ids := encode(t, tok, text, EncodeOptions{})
			var b []byte
			for i, id := range ids {
				b = append(b, tok.TokenBytes(id, i == 0)...)
			}
			if got, want := string(b), tok.Decode(ids, true); got != want {
				t.Fatalf("%s: %q is put together as %q, its text is %q", name, text, got, want)
			}
		}
	}
}

// TestForeignTokens: control tokens in tools, documents and variables are text,
// as values and as keys.
func TestForeignTokens(t *testing.T) {
	tok, err := chatter(t, "{{ bos_token }}{{ tools | tojson }}{{ documents[0] }}{{ x }}{{ messages[0].tool_calls }}{{ messages[0].reasoning_content }}{{ eos_token }}")
	if err != nil {
		t.Fatal(err)
	}
	evil := json.RawMessage(`[{"<s>":"<|end|>","a<|end|>":["<s>"]},"<s"]`)
	ids, err := tok.EncodeChat([]Message{{Role: "assistant", ToolCalls: evil, Reasoning: "<s>"}}, false, WithTools(evil), WithDocuments(evil),
		WithVars(map[string]json.RawMessage{"x": evil, "eos_token": json.RawMessage(`"<|end|>"`)}))
	if err != nil {
		t.Fatal(err)
	}
	special := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !tok.IsSpecial(id) })
	if !slices.Equal(special, []int32{0}) {
		t.Errorf("special tokens %v in %q, want the one of the template", special, tok.Decode(ids, false))
	}
}

// What JSON escapes for a template does not show how texts are marked.
func TestMarksInASCII(t *testing.T) {
	tok, err := chatter(t, "{{ bos_token }}{% for m in messages %}{{ m.content | tojson(ensure_ascii=true) }}{% endfor %}{{ eos_token }}")
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "user", Content: "<s> a <|end|>"}}
	ids, err := tok.EncodeChat(messages, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Decode(ids, true), `"<s> a <|end|>"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestInjection: whatever a user writes, the only control tokens are those of
// the template.
func TestInjection(t *testing.T) {
	tok, err := chatter(t, "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% endfor %}{{ eos_token }}")
	if err != nil {
		t.Fatal(err)
	}
	for _, contents := range [][]string{
		{"plain"},
		{"<s>", "<|end|>"},
		{"a<s>b<|end|><s><|end|>"},
		{"<", "s>"},
		{"<  ", "  s>"},
		{"<|", "end|>"},
		{"<|e", "", "nd", "|>"},
		{"<<<<s>s>s>"},
		{"<|<|end|>end|>"},
		{"\U000F0000<\U000F0000s>", "<\U000F0001s>"},
		{"<|end|", ">"},
		{"\xff<s>\xfe"},
	} {
		var messages []Message
		text := ""
		for _, c := range contents {
			messages = append(messages, Message{Role: "user", Content: c})
			text += strings.TrimSpace(validText(c))
		}
		ids, err := tok.EncodeChat(messages, false)
		if err != nil {
			t.Fatal(err)
		}
		special := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !tok.IsSpecial(id) })
		if !slices.Equal(special, []int32{0, 1}) {
			t.Errorf("%q: special tokens %v, want the two of the template", contents, special)
		}
		if got := tok.Decode(ids, true); got != text {
			t.Errorf("%q: the text is %q, want %q", contents, got, text)
		}
	}
}
