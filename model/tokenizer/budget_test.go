package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"whorl/internal/meter"
	"whorl/model/tokenizer/jinja"
)

// tiny are JSON lists of so many values in all, of the kinds that take the most memory for
// what they say.
var tiny = map[string]func(values int) string{
	"numbers": func(n int) string { return "[" + strings.Repeat("9,", n-2) + "9]" },
	"floats":  func(n int) string { return "[" + strings.Repeat("1.5,", n-2) + "1.5]" },
	"texts":   func(n int) string { return "[" + strings.Repeat(`"",`, n-2) + `""]` },
	"lists":   func(n int) string { return "[" + strings.Repeat("[],", n-2) + "[]]" },
	"objects": func(n int) string { return "[" + strings.Repeat("{},", n-2) + "{}]" },
	"pairs":   func(n int) string { return "[" + strings.Repeat(`{"a":0},`, (n-4)/3) + `{"a":0}]` },
	"deep": func(n int) string {
		return "[" + strings.Repeat(strings.Repeat("[", 60)+strings.Repeat("]", 60)+",", (n-1)/60-1) + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "]"
	},
	"names": func(n int) string {
		var b strings.Builder
		for i := range (n - 3) / 2 {
			fmt.Fprintf(&b, `"%x":1,`, i)
		}
		return "[{" + b.String() + `"z":1}]`
	},
}

// The worst conversation that is taken allocates little, and one that exceeds the budget
// less: it is refused while it is read.
func TestConversationBudget(t *testing.T) {
	const most = 64 << 20 // bytes in all, of which less is held at a time
	tok, err := chatter(t, "{% if tools %}{{ tools | length }}{% endif %}{% if x %}{{ x | length }}{% endif %}")
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "user", Content: "a"}}
	for name, list := range tiny {
		fits, exceeds := json.RawMessage(list(jinja.MaxValues)), json.RawMessage(list(2*jinja.MaxValues))
		if n := meter.Allocated(func() { _, err = tok.EncodeChat(messages, true, WithTools(fits)) }); err != nil || n > most {
			t.Errorf("%s, which fits: %d bytes allocated, %v: want at most %d", name, n, err, most)
		} else {
			t.Logf("%s: %d bytes of JSON, %d allocated", name, len(fits), n)
		}
		n := meter.Allocated(func() { _, err = tok.EncodeChat(messages, true, WithTools(exceeds)) })
		if err == nil || !strings.Contains(err.Error(), "more than 131072 JSON values in one conversation") || n > most {
			t.Errorf("%s, which exceeds: %d bytes allocated, %v", name, n, err)
		}
	}
}

// Tools, documents, variables and calls share one budget.
func TestBudgetIsShared(t *testing.T) {
	tok, err := chatter(t, "x")
	if err != nil {
		t.Fatal(err)
	}
	list := json.RawMessage(tiny["numbers"](jinja.MaxValues / 4))
	conversation := func(last json.RawMessage) error {
		_, err := tok.EncodeChat([]Message{{Role: "assistant", ToolCalls: list}, {Role: "assistant", ToolCalls: last}}, true,
			WithTools(list), WithVars(map[string]json.RawMessage{"x": list}))
		return err
	}
	if err := conversation(list); err != nil {
		t.Errorf("four quarters: %v", err)
	}
	if err := conversation(json.RawMessage(tiny["numbers"](jinja.MaxValues/4 + 1))); err == nil || !strings.Contains(err.Error(), "message 1") {
		t.Errorf("four quarters and one: %v", err)
	}
}

// A text may have all the characters that serve as marks but one, and is refused with all.
func TestMarksRunOut(t *testing.T) {
	tok, err := chatter(t, "{{ messages[0].content }}")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for r := rune(firstMark); r < firstMark+marks-1; r++ {
		b.WriteRune(r)
	}
	text := b.String() + "<s>"
	ids, err := tok.EncodeChat([]Message{{Role: "user", Content: text}}, true)
	if err != nil || tok.Decode(ids, true) != text {
		t.Errorf("all but one: %d ids, %v", len(ids), err)
	}
	if _, err := tok.EncodeChat([]Message{{Role: "user", Content: text + string(rune(firstMark+marks-1))}}, true); err == nil || !strings.Contains(err.Error(), "private-use") {
		t.Errorf("all: %v", err)
	}
}

// FuzzConversation: what is sent beside the messages gives ids or an error, in bounded
// memory, and no control token.
func FuzzConversation(f *testing.F) {
	for _, list := range tiny {
		f.Add(list(200))
	}
	f.Add(tiny["lists"](jinja.MaxValues + 1))
	f.Add(`[{"type":"function","function":{"name":"<s>","parameters":{"<|end|>":[1,2.5,null,true]}}}]`)
	f.Add(strings.Repeat("[", 70) + strings.Repeat("]", 70))
	tok, err := chatter(f, "{% if tools %}{{ tools | tojson }}{% endif %}{{ x }}{{ messages[0].tool_calls }}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data := json.RawMessage(text)
		ids, err := tok.EncodeChat([]Message{{Role: "assistant", ToolCalls: data}}, true, WithTools(data), WithVars(map[string]json.RawMessage{"x": data}))
		if err != nil {
			return
		}
		if len(ids) > 1<<25 {
			t.Fatalf("%d ids", len(ids))
		}
		for _, id := range ids {
			if tok.IsSpecial(id) {
				t.Fatalf("the control token %d of %q", id, text)
			}
		}
	})
}
