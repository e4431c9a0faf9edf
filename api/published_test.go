package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"whorl/api/calls"
	"whorl/api/gen"
	"whorl/client"
	"whorl/model/tokenizer"
)

// published are templates of models as their makers wrote them. scripts/test-deps.sh fetches them: they are not ours
// to pass on.
const published = "../.tools/templates"

// templated is an engine of a tokenizer alone.
type templated struct {
	Engine
	tok *tokenizer.Tokenizer
}

func (e templated) EncodeChat(messages []client.Message, x client.ChatExtras) ([]int32, error) {
	return e.tok.EncodeChat(messages, true, tokenizer.WithTools(x.Tools), tokenizer.WithVars(x.Vars))
}
func (e templated) Decode(ids []int32) string { return e.tok.Decode(ids, false) }
func (e templated) Template() string          { return e.tok.Template() }
func (e templated) Model() client.Model       { return client.Model{Name: "published"} }

// ofTemplate is an engine whose tokens are bytes, with a chat template.
func ofTemplate(t *testing.T, source string) templated {
	t.Helper()
	v := tokenizer.GGUFVocab{Model: "gpt2", Pre: "gpt-2", BOS: 0, EOS: 1, UNK: -1, PAD: -1, EOT: -1, EOM: -1, ChatTemplate: source}
	const normal, control = 1, 3
	v.Tokens, v.Types = []string{"<s>", "</s>"}, []int32{control, control}
	next := rune(256)
	for b := range rune(256) { // as GPT-2 writes bytes
		r := b
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		v.Tokens, v.Types = append(v.Tokens, string(r)), append(v.Types, normal)
	}
	tok, err := tokenizer.FromGGUF(v, tokenizer.WithNow(func() time.Time { return time.Date(2026, 3, 7, 9, 5, 0, 0, time.UTC) }))
	if err != nil {
		t.Fatal(err)
	}
	return templated{tok: tok}
}

// readCalls has a parser read what a model of a format wrote.
func readCalls(f calls.Format, wrote string) (name, arguments string, n int) {
	p := calls.NewParser(f, []string{"get_weather"}, false)
	for _, part := range append(p.Push(wrote), p.Flush()...) {
		if part.Call != nil {
			name += part.Call.Name
			arguments += part.Call.Arguments
		}
	}
	return name, arguments, p.Calls()
}

// conversationWithCall has a tool, a call of it, its answer, and what it all is about.
func conversationWithCall() ([]gen.ChatMessage, client.ChatExtras, string) {
	const arguments = `{"city":"Orléans \"<b>\"","days":2}`
	question, result, id := gen.Content("Shall I take an umbrella?"), gen.Content(`{"sky": "rain"}`), "call00001"
	spelled, _ := json.Marshal(arguments)
	call := gen.ToolCall{Id: &id, Function: gen.FunctionCall{Name: "get_weather", Arguments: spelled}}
	tools := `[{"type":"function","function":{"name":"get_weather","description":"Tells the sky","parameters":{"type":"object","properties":{"city":{"type":"string","description":"Where"},"days":{"type":"integer","description":"How many"}},"required":["city"]}}}]`
	return []gen.ChatMessage{
		{Role: gen.ChatMessageRoleUser, Content: &question}, {Role: gen.ChatMessageRoleAssistant, ToolCalls: []gen.ToolCall{call}},
		{Role: gen.ChatMessageRoleTool, ToolCallId: &id, Content: &result},
	}, client.ChatExtras{Tools: json.RawMessage(tools)}, arguments
}

// checkCalls has a conversation with a call go through a template. The model sees the tool, the call and its answer;
// and what it sees as its own call, which is how it will write others, is read as that call.
func checkCalls(t *testing.T, source, format string) {
	t.Helper()
	e := ofTemplate(t, source)
	f := calls.Of(e.Template())
	if f.Name != format {
		t.Errorf("it is taken for %s, want %s", f.Name, format)
	}
	messages, x, arguments := conversationWithCall()
	ids, err := EncodeMessages(e, messages, x)
	if err != nil {
		t.Fatal(err)
	}
	text := e.Decode(ids)
	_, wrote, ok := strings.Cut(text, "umbrella?")
	if !ok || !strings.Contains(text, "Tells the sky") || !strings.Contains(wrote, "rain") {
		t.Fatalf("not all of the conversation is in %q", text)
	}
	if format == "llama3" { // its calls have no mark: they are the answer
		_, wrote, _ = strings.Cut(wrote, "<|start_header_id|>assistant<|end_header_id|>")
	}
	name, got, n := readCalls(f, wrote)
	var value, want any
	if err := json.Unmarshal([]byte(arguments), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &value); err != nil || n != 1 || name != "get_weather" || !reflect.DeepEqual(value, want) {
		t.Errorf("%d calls: %s(%s), %v, read from %q", n, name, got, err, wrote)
	}
}

// Each published template of a family that is served.
func TestPublishedTemplates(t *testing.T) {
	if _, err := os.Stat(published); err != nil {
		t.Skip("not proven: that calls are read as the published templates of their families write them: run scripts/test-deps.sh")
	}
	for name, format := range map[string]string{
		"Qwen-Qwen2.5-7B-Instruct": "hermes", "Qwen-Qwen3-0.6B": "hermes", "Qwen-QwQ-32B": "hermes",
		"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
		"meta-llama-Llama-3.1-8B-Instruct": "llama3", "meta-llama-Llama-3.2-3B-Instruct": "llama3", "meta-llama-Llama-3.3-70B-Instruct": "llama3",
		"mistralai-Mistral-Nemo-Instruct-2407": "mistral", "Mistral-Small-3.2-24B-Instruct-2506": "mistral", "unsloth-mistral-Devstral-Small-2507": "mistral",
		"mistralai-Ministral-3-14B-Reasoning-2512": "mistral", "ibm-granite-granite-3.3-2B-Instruct": "granite", "ibm-granite-granite-4.0": "hermes",
		"CohereForAI-c4ai-command-r-plus-tool_use": "command-r", "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r7b",
		"HuggingFaceTB-SmolLM3-3B": "hermes", "microsoft-Phi-3.5-mini-instruct": "hermes", // these know no tools
	} {
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(published, name+".jinja"))
			if err != nil {
				t.Fatal(err)
			}
			checkCalls(t, string(source), format)
		})
	}
}

// What was found with them, restated: a template that shows tools and leaves calls out, one that breaks the line
// behind "Action:", SmolLM3's, which takes its tools by another name, and Phi 4's, which looks for them in the system's
// message and leaves calls out.
func TestTemplatesThatHideCalls(t *testing.T) {
	const turns = "{% for m in messages %}<|role|>{{ m.role }}<|text|>{{ m.content }}{% endfor %}"
	for name, c := range map[string]struct{ template, format string }{
		"granite 3":  {"{% if tools %}<|role|>available_tools<|text|>{{ tools | tojson }} answer with <|tool_call|>{% endif %}" + turns, "granite"},
		"no tools":   {turns, "hermes"},
		"phi 4":      {"{% for m in messages %}{% if m['role'] == 'system' and 'tools' in m and m['tools'] is not none %}<|system|>{{ m['content'] + '<|tool|>' + m['tools'] + '<|/tool|><|end|>' }}{% else %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}", "phi"},
		"smollm3":    {"{% if xml_tools is defined %}{{ xml_tools }}<tool_call>{% endif %}" + turns, "hermes"},
		"command-r+": {"{{ tools }}{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{{ '\\nAction:\\n```json\\n[' }}{% for c in m.tool_calls %}{\"tool_name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments | tojson }}}{% endfor %}{{ ']```\\n' }}{% endif %}{% endfor %}", "command-r"},
	} {
		t.Run(name, func(t *testing.T) { checkCalls(t, c.template, c.format) })
	}
}
