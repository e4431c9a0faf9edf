package api

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"whorl/api/calls"
	"whorl/client"
	"whorl/client/grammar"
)

// tokens is an Engine of some tokens; id 0 ends an answer and has no text.
type tokens struct {
	Engine
	list []string
}

func (e tokens) Model() client.Model       { return client.Model{UID: "tokens", Vocab: len(e.list)} }
func (e tokens) Thinks() bool              { return false }
func (e tokens) TokenText(id int32) string { return e.list[id] }
func (e tokens) TokenBytes(id int32, _ bool) []byte {
	if id == 0 {
		return nil
	}
	return []byte(e.list[id])
}
func (e tokens) Grammar(s grammar.Spec) (*grammar.Grammar, error) {
	return grammar.Compile(s, grammar.NewVocabulary(len(e.list), e.TokenBytes, []int32{0}))
}

func asciiTokens() tokens {
	e := tokens{list: []string{""}}
	for b := byte(1); b < 127; b++ {
		e.list = append(e.list, string(b))
	}
	e.list = append(e.list, `{"`, `"}`, `}}`, `"}}`, `}}]`, `}]`, `{}`, `{}}`, `": {`, `": {"`, `, "`, `": `, `"name"`, `"arguments"`, `"parameters": {`, `arguments": {"`, `"a"`, ` {`, `:{"`,
		`<tool_call>`, `</tool_call>`, `[TOOL_CALLS]`, `[ARGS]{`, `get`, `f", "arguments": {"a`, `12`, `"x"`, `}, "`, "\n}\n", `{"name": "get", "arguments": {"`, `Well. {`)
	return e
}

// valid tells whether the calls that a text makes are valid so far, found without the guard.
func valid(t *testing.T, f calls.Format, args map[string]*grammar.Grammar, names []string, text string) (ok, inside bool) {
	t.Helper()
	p := calls.NewParser(f, names, false)
	var made []calls.Delta
	for _, part := range p.Push(text) {
		switch {
		case part.Call == nil:
		case part.Call.Name != "":
			made = append(made, *part.Call)
		default:
			made[part.Call.Index].Arguments += part.Call.Arguments
		}
	}
	for i, c := range made {
		g := args[c.Name]
		if g == nil {
			continue
		}
		m, err := g.Start()
		if err != nil {
			t.Fatal(err)
		}
		if alive, err := m.Take(c.Arguments); err != nil || !alive {
			return false, false
		}
		if i == len(made)-1 && p.Arguing() {
			inside = true
		} else if whole, _ := m.Ended(); !whole {
			return false, false
		}
	}
	return true, inside
}

// A guard forbids exactly the tokens after which a call to a strict tool is not valid any more,
// in every format, wherever a token cuts; all else is free, and calls to other tools are too.
func TestStrictEqualsSlow(t *testing.T) {
	e := asciiTokens()
	tools := &Tools{Param: "tools", Offered: []calls.Tool{
		{Name: "get", Strict: true, Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","}"]}},"required":["a"]}`)},
		{Name: "f", Strict: true},
		{Name: "loose"},
	}}
	args := map[string]*grammar.Grammar{}
	var names []string
	for _, tool := range tools.Offered {
		names = append(names, tool.Name)
		if spec := (grammar.Spec{Text: "{}"}); tool.Strict {
			if tool.Parameters != nil {
				spec = grammar.Spec{Schema: tool.Parameters}
			}
			var err error
			if args[tool.Name], err = e.Grammar(spec); err != nil {
				t.Fatal(err)
			}
		}
	}
	scripts := []string{
		`Well. {"a": 1} <tool_call>` + "\n" + `{"name": "get", "arguments": {"a": 12, "b": "}"}}` + "\n</tool_call>", `{"name": "get", "parameters": {"a": 1}}`, `{"name": "f", "parameters": {}}`,
		`<tool_call>{"arguments": {"a": 1}, "name": "get"}</tool_call>`, `<tool_call>{"name": "get"}`, `<tool_call>{"name": "loose", "arguments": {"q": {}}}</tool_call> bye`,
		`[TOOL_CALLS][{"name": "get", "arguments": {"a": 3}}, {"name": "f", "arguments": {}}]`, `[TOOL_CALLS]get[ARGS]{"a": 1}`, `Action: ` + "```json\n" + `[{"tool_name": "get", "parameters": {"b": "x"}}]` + "\n```",
		`<tool_call>{"name": "get", "arguments": "{\"b\": 1}"}`, `<tool_call>{"name": "f", "arguments": null}`,
	}
	a, forbidden := &API{}, 0
	for _, name := range calls.Names() {
		f, _ := calls.Named(name)
		start, err := a.guarded(e, f, tools, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, script := range scripts {
			for seed := range uint64(1 + (i+len(name))%2) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				form, err := start()
				if err != nil {
					t.Fatal(err)
				}
				text := ""
				for range 60 {
					mask, err := form.Mask()
					if err != nil {
						t.Fatal(err)
					}
					if _, inside := valid(t, f, args, names, text); mask != nil && grammar.Admits(mask, 0) == inside {
						t.Fatalf("%s %q: the end is admitted: %v", name, text, !inside)
					}
					var may, any []int32
					for id := int32(1); int(id) < len(e.list); id++ {
						want, _ := valid(t, f, args, names, text+e.list[id])
						if got := mask == nil || grammar.Admits(mask, id); got != want {
							t.Fatalf("%s %q: token %q is admitted: %v", name, text, e.list[id], got)
						}
						if want {
							any = append(any, id)
						}
						switch {
						case !want:
							forbidden++
						case strings.HasPrefix(strings.TrimPrefix(script, text), e.list[id]) && strings.HasPrefix(script, text):
							may = append(may, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id)
						case strings.ContainsAny(e.list[id], "{}\"") || rng.IntN(8) == 0:
							may = append(may, id)
						}
					}
					if len(may) == 0 {
						may = any
					}
					id := may[rng.IntN(len(may))]
					if seed == 0 { // the script as far as it may
						for _, k := range may {
							if strings.HasPrefix(script, text+e.list[k]) {
								id = k
							}
						}
					}
					if err := form.Accept(id); err != nil {
						t.Fatalf("%s %q: %q: %v", name, text, e.list[id], err)
					}
					text += e.list[id]
				}
			}
		}
	}
	if forbidden < 1000 {
		t.Errorf("only %d tokens were forbidden", forbidden)
	}
}
