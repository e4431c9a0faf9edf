package calls

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"whorl/client/grammar"
)

// Format is how a family of models writes calls. The zero value is none.
type Format struct {
	Name string
	// marks begin calls. Where there is none an answer that is an object may be a call.
	marks []string
	ends  []string // marks that may follow calls
	bare  bool     // an answer may begin with a call without a mark

	// What a call looks like that has to be made: begin, calls with between, end.
	begin, between, end string
	list                bool   // calls stand in a list
	single              bool   // only one
	name, arguments     string // members of a call
	shortIDs            bool   // templates of the family want ids of nine letters
}

// formats are all, by name. Where a template has several marks the first format with one of them
// counts.
var formats = []Format{
	{Name: "hermes", marks: []string{"<tool_call>"}, ends: []string{"</tool_call>"},
		begin: "<tool_call>\n", between: "\n</tool_call>\n<tool_call>\n", end: "\n</tool_call>", name: "name", arguments: "arguments"},
	{Name: "mistral", marks: []string{"[TOOL_CALLS]"}, begin: "[TOOL_CALLS]", list: true, name: "name", arguments: "arguments", shortIDs: true},
	{Name: "command-r7b", marks: []string{"<|START_ACTION|>"}, ends: []string{"<|END_ACTION|>"}, begin: "<|START_ACTION|>", list: true, name: "tool_name", arguments: "parameters"},
	{Name: "command-r", marks: []string{"Action:"}, ends: []string{"```"}, begin: "Action: ```json\n", end: "\n```", list: true, name: "tool_name", arguments: "parameters"},
	{Name: "phi", marks: []string{"<|tool_call|>", "functools"}, ends: []string{"<|/tool_call|>"}, begin: "<|tool_call|>", list: true, name: "name", arguments: "arguments"},
	{Name: "granite", marks: []string{"<|tool_call|>", "<tool_call>"}, ends: []string{"</tool_call>"}, begin: "<|tool_call|>", list: true, name: "name", arguments: "arguments"},
	{Name: "llama3", marks: []string{"<|python_tag|>"}, bare: true, single: true, name: "name", arguments: "parameters"},
}

// Names are the names of all formats.
func Names() []string {
	var out []string
	for _, f := range formats {
		out = append(out, f.Name)
	}
	return out
}

// Named is the format of a name.
func Named(name string) (Format, error) {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, fmt.Errorf("there is no format %q of tool calls: want one of %s", name, strings.Join(Names(), ", "))
	}
	return formats[i], nil
}

// telling are texts by which a template is known to write a format, in the order in which they
// count.
var telling = []struct{ text, format string }{
	{"<tool_call>", "hermes"}, {"[TOOL_CALLS]", "mistral"}, {"<|START_ACTION|>", "command-r7b"}, {"Action: ```json", "command-r"}, {"Action:```json", "command-r"}, {"Action:\\n```json", "command-r"},
	{"<|/tool_call|>", "phi"}, {"<|/tool|>", "phi"}, {"functools", "phi"}, {"<|tool_call|>", "granite"}, {"<|python_tag|>", "llama3"}, {"ipython", "llama3"},
}

// Hermes is the format that Told asks for.
func Hermes() Format { return formats[0] }

// Of is the format of a chat template; that of Hermes where it does not tell.
func Of(template string) Format {
	for _, t := range telling {
		if strings.Contains(template, t.text) {
			f, _ := Named(t.format)
			return f
		}
	}
	return formats[0]
}

// Marks are the texts that may be control tokens of a model's, which have to be seen.
func (f Format) Marks() []string {
	return slices.Concat(f.marks, f.ends, []string{"[ARGS]", "[CALL_ID]"})
}

// Begin is what stands before the first call.
func (f Format) Begin() string { return f.begin }

// ShortIDs tells whether the ids of calls have to be nine letters or digits.
func (f Format) ShortIDs() bool { return f.shortIDs }

// Tool is one that may be called.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON Schema; nil for none
	Strict      bool            // its arguments are valid by them however it is called
}

// mostCalls is how many calls an answer may have that has to have some.
const mostCalls = 16

// Spec is the form of an answer that has to call tools, behind Begin: one of them, or with
// several more than once.
func (f Format) Spec(tools []Tool, several bool) grammar.Spec {
	var any []grammar.Spec
	for _, t := range tools {
		name, _ := json.Marshal(t.Name)
		of := grammar.Spec{Text: "{}"}
		if t.Parameters != nil {
			of = grammar.Spec{Schema: t.Parameters}
		}
		any = append(any, grammar.Spec{All: []grammar.Spec{{Text: fmt.Sprintf(`{"%s": %s, "%s": `, f.name, name, f.arguments)}, of, {Text: "}"}}})
	}
	call := grammar.Spec{Any: any}
	all := []grammar.Spec{call}
	between := f.between
	if f.list {
		all = []grammar.Spec{{Any: []grammar.Spec{{Text: "["}, {Text: " ["}}}, call}
		between = ", "
	}
	if several && !f.single {
		next := grammar.Spec{All: []grammar.Spec{{Text: between}, call}}
		all = append(all, grammar.Spec{Repeat: &next, Max: mostCalls - 1})
	}
	if f.list {
		all = append(all, grammar.Spec{Text: "]"})
	}
	if f.end != "" {
		all = append(all, grammar.Spec{Text: f.end})
	}
	return grammar.Spec{All: all}
}

// Told is what a model is told whose template knows no tools: tools is a JSON list. It answers in
// the format of Hermes.
func Told(tools json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(tools, &list) != nil {
		list = []json.RawMessage{tools}
	}
	var b strings.Builder
	b.WriteString("You may call functions to help the user. They are described inside <tools></tools>:\n<tools>\n")
	for _, t := range list {
		b.Write(t)
		b.WriteByte('\n')
	}
	b.WriteString("</tools>\nTo call one, answer with its name and its arguments as JSON inside <tool_call></tool_call>:\n" +
		"<tool_call>\n{\"name\": \"the function\", \"arguments\": {\"an argument\": \"its value\"}}\n</tool_call>")
	return b.String()
}

// Call is one that was made.
type Call struct {
	Name      string
	Arguments json.RawMessage
}

// Written are calls as a model of the format writes them.
func (f Format) Written(list []Call) string {
	var all []string
	for _, c := range list {
		name, _ := json.Marshal(c.Name)
		all = append(all, fmt.Sprintf(`{"%s": %s, "%s": %s}`, f.name, name, f.arguments, c.Arguments))
	}
	switch {
	case f.list:
		return f.begin + "[" + strings.Join(all, ", ") + "]" + f.end
	case f.between == "":
		return f.begin + strings.Join(all, "; ") + f.end
	}
	return f.begin + strings.Join(all, f.between) + f.end
}
