package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"whorl/model/tokenizer/jinja"
)

// chatTemplate is a template of a model's, compiled.
type chatTemplate struct {
	*jinja.Template
	// silent is the content of a message that only calls tools, as this template takes it:
	// an empty text or nil. Found when it is first asked for.
	silent func() jinja.Value
}

// compileTemplate compiles the chat templates that the files bring.
func (t *Tokenizer) compileTemplate() (err error) {
	if t.template, err = t.compile(t.templateSource); err != nil {
		return fmt.Errorf("chat template: %w", err)
	}
	if t.toolTemplate, err = t.compile(t.toolSource); err != nil {
		return fmt.Errorf("chat template tool_use: %w", err)
	}
	return nil
}

// compile returns nil for no source.
func (t *Tokenizer) compile(source string) (*chatTemplate, error) {
	if source == "" {
		return nil, nil
	}
	compiled, err := jinja.Compile(source)
	if err != nil {
		return nil, err
	}
	c := &chatTemplate{Template: compiled}
	c.silent = sync.OnceValue(func() jinja.Value { return t.silentContent(c) })
	return c, nil
}

// Thinks tells whether the template of the model knows the marks of thoughts, <think> and
// </think>.
func (t *Tokenizer) Thinks() bool { return strings.Contains(t.templateSource, "</think>") }

// Template is the source of the template that conversations with tools go through, "" for none.
func (t *Tokenizer) Template() string {
	if t.toolSource != "" {
		return t.toolSource
	}
	return t.templateSource
}

// templateFor is the template that a conversation goes through.
func (t *Tokenizer) templateFor(c *chatVariables) *chatTemplate {
	if c.tools && t.toolTemplate != nil {
		return t.toolTemplate
	}
	return t.template
}

// silentContent finds what a template takes for the content of a message that only calls
// tools. Nearly all take an empty text, and many fail on none or print it. Some show calls
// only where content is none, and would leave them out of a message with a text: which is
// seen by rendering a call.
func (t *Tokenizer) silentContent(template *chatTemplate) jinja.Value {
	const name = "whorl_probe"
	call := Message{
		Role: "assistant", NoContent: true,
		ToolCalls: json.RawMessage(`[{"id":"call00001","type":"function","function":{"name":"` + name + `","arguments":{"a":1}}}]`),
	}
	shows := func(content jinja.Value) bool {
		c := &chatVariables{foreign: map[string]jinja.Value{"tools": nil, "documents": nil}, own: t.ownVariables(true)}
		silent := func() jinja.Value { return content }
		if c.addMessages([]Message{{Role: "user", Content: "a"}, call, {Role: "tool", Content: "b", ToolCallID: "call00001"}}, silent) != nil {
			return false
		}
		text, err := t.renderWith(template, c)
		return err == nil && strings.Contains(text, name)
	}
	if !shows("") && shows(nil) {
		return nil
	}
	return ""
}
