package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"whorl/model/tokenizer/jinja"
)

// ErrNoTemplate says that the model brings no chat template.
var ErrNoTemplate = errors.New("the model has no chat template: send plain text, or choose a model made for chat")

// Message is one turn of a conversation.
type Message struct {
	// Role is who speaks, as the template names it: system, user, assistant,
	// tool. It is a word of letters, digits, - and _. Templates may write it
	// between the marks of a control token, so a caller that serves users
	// has to choose which roles they may take.
	Role string
	// Content is what is said: plain text.
	Content string

	// NoContent says that the message has no content at all, as one that
	// only calls tools. A template gets for it what it takes: an empty text,
	// or none if it shows the calls of such messages alone.
	NoContent bool
	// Reasoning is what an assistant thought before it spoke
	// (reasoning_content to templates), empty for nothing.
	Reasoning string
	// ToolCalls are the tools that an assistant called, as a JSON list that
	// the template gets as it is: usually of {"type": "function", "function":
	// {"name": ..., "arguments": {...}}}. Most templates want arguments to be
	// an object, not a text that spells one. Empty for none.
	ToolCalls json.RawMessage
	// ToolCallID and Name are, in what a tool answers, the call it answers
	// and the tool, both empty if not told.
	ToolCallID, Name string
	// Tools are, in a system message, the tools that are offered, as a text: for
	// templates that look for them there (Phi 4) and not in WithTools.
	Tools string
}

// ChatOption is something more for a chat template to render.
type ChatOption func(*chatData)

type chatData struct {
	tools, documents json.RawMessage
	vars             map[string]json.RawMessage
	limit            int
}

// WithTools offers tools to the model: a JSON list, usually of {"type":
// "function", "function": {"name": ..., "description": ..., "parameters": a
// JSON schema}}. null is no tools. A model with a template of its own for
// tools (tool_use) uses that. A template that knows no tools ignores them.
func WithTools(list json.RawMessage) ChatOption { return func(c *chatData) { c.tools = list } }

// WithDocuments gives the model documents to answer from: a JSON list of
// objects, usually with title and text.
func WithDocuments(list json.RawMessage) ChatOption {
	return func(c *chatData) { c.documents = list }
}

// WithVars sets more variables of the template, like enable_thinking; the
// values are JSON. They go before bos_token and the like, but cannot replace
// the conversation itself.
func WithVars(vars map[string]json.RawMessage) ChatOption {
	return func(c *chatData) { c.vars = vars }
}

// WithLimit is [EncodeOptions].Limit for a conversation.
func WithLimit(ids int) ChatOption { return func(c *chatData) { c.limit = ids } }

const (
	maxRole     = 64       // bytes of the name of a role
	maxChatText = 16 << 20 // bytes of all texts of a conversation
)

// Chat renders a conversation with the chat template of the model, up to the
// point where the model has the word if addGenerationPrompt is set. It is for
// showing; to feed a model use [Tokenizer.EncodeChat]: in the text alone what
// the template wrote cannot be told from what a user wrote.
//
// It fails with [ErrNoTemplate], and if the template refuses the conversation
// (raise_exception, [jinja.ErrRefused]) or exceeds its limits.
func (t *Tokenizer) Chat(messages []Message, addGenerationPrompt bool, opts ...ChatOption) (string, error) {
	data, err := t.chatVariables(messages, addGenerationPrompt, opts)
	if err != nil {
		return "", err
	}
	return t.render(data)
}

// EncodeChat returns the ids of a conversation. The control tokens that the
// template writes become control tokens; text in a message, a tool, a document
// or a variable that looks like one stays text, also where it would only
// become one together with what the template or the next message puts behind
// it. Otherwise the ids are those of Encode(Chat(...)) with ParseSpecial; begin
// and end tokens are the template's business, none are added. A template that
// searches a message for the text of a special token will not find it.
func (t *Tokenizer) EncodeChat(messages []Message, addGenerationPrompt bool, opts ...ChatOption) ([]int32, error) {
	data, err := t.chatVariables(messages, addGenerationPrompt, opts)
	if err != nil {
		return nil, err
	}
	var used markSet
	used.add(t.templateSource)
	used.add(t.toolSource)
	data.each(used.add)
	mark, err := used.unused()
	if err != nil {
		return nil, fmt.Errorf("encoding a chat: %w", err)
	}
	data.change(func(s string) string { return withMarks(s, t.specials.starts(s), mark) })
	marked, err := t.render(data)
	if err != nil {
		return nil, err
	}
	text, barred := withoutMarks(marked, mark)
	return t.appendText(nil, text, barred, true, limitOf(data.limit))
}

// chatVariables are what a template is rendered with: what came from users,
// by name, and the rest.
type chatVariables struct {
	foreign map[string]jinja.Value
	own     map[string]jinja.Value
	roles   []string // of the messages: checked, and left as they are
	tools   bool
	limit   int          // of ids, 0 for none
	json    jinja.Reader // of all of the conversation: it has one budget
}

// each visits every string that came from users.
func (c *chatVariables) each(visit func(string)) {
	for _, v := range c.foreign {
		jinja.EachString(v, visit)
	}
}

// change replaces every string that came from users.
func (c *chatVariables) change(to func(string) string) {
	for name, v := range c.foreign {
		c.foreign[name] = jinja.MapStrings(v, to)
	}
	list, _ := c.foreign["messages"].(*jinja.List)
	for i, role := range c.roles {
		if m, ok := list.Items[i].(*jinja.Dict); ok {
			m.Set("role", role)
		}
	}
}

func (t *Tokenizer) chatVariables(messages []Message, addGenerationPrompt bool, opts []ChatOption) (*chatVariables, error) {
	if t.template == nil {
		return nil, ErrNoTemplate
	}
	var extra chatData
	for _, o := range opts {
		o(&extra)
	}
	c := &chatVariables{foreign: map[string]jinja.Value{}, own: t.ownVariables(addGenerationPrompt)}
	for _, name := range slices.Sorted(maps.Keys(extra.vars)) {
		if _, taken := map[string]bool{"messages": true, "tools": true, "documents": true, "add_generation_prompt": true}[name]; taken {
			return nil, fmt.Errorf("rendering a chat: the variable %q cannot be set", name)
		}
		if err := c.read(name, extra.vars[name]); err != nil {
			return nil, err
		}
		delete(c.own, name)
	}
	for _, part := range []struct {
		name string
		list json.RawMessage
	}{{"tools", extra.tools}, {"documents", extra.documents}} {
		if err := c.read(part.name, part.list); err != nil {
			return nil, err
		}
		switch c.foreign[part.name].(type) {
		case nil, *jinja.List:
		default:
			return nil, fmt.Errorf("rendering a chat: %s is no list", part.name)
		}
	}
	c.tools, c.limit = c.foreign["tools"] != nil, extra.limit
	return c, c.addMessages(messages, t.templateFor(c).silent)
}

// ownVariables are what a template is told of the model.
func (t *Tokenizer) ownVariables(addGenerationPrompt bool) map[string]jinja.Value {
	own := map[string]jinja.Value{"add_generation_prompt": addGenerationPrompt}
	for name, token := range t.Specials() {
		own[name] = token
	}
	return own
}

// Specials are the texts of the control tokens that templates call bos_token, eos_token, unk_token
// and pad_token, by those names; what the model has none of is missing.
func (t *Tokenizer) Specials() map[string]string {
	out := map[string]string{}
	for name, id := range map[string]int32{"bos_token": t.bos, "eos_token": t.eos, "unk_token": t.unk, "pad_token": t.pad} {
		if token, ok := t.IDToToken(id); ok {
			out[name] = token
		}
	}
	return out
}

// read reads a variable from JSON; nothing is null.
func (c *chatVariables) read(name string, data json.RawMessage) error {
	c.foreign[name] = nil
	if len(data) == 0 {
		return nil
	}
	v, err := c.json.Read(data)
	if err != nil {
		return fmt.Errorf("rendering a chat: reading %s: %w", name, err)
	}
	c.foreign[name] = v
	return nil
}

// addMessages reads the conversation. silent is the content of messages without one.
func (c *chatVariables) addMessages(messages []Message, silent func() jinja.Value) error {
	list := jinja.NewList()
	for i, m := range messages {
		if !validRole(m.Role) {
			return fmt.Errorf("rendering a chat: message %d: the role %.80q is not a word of letters, digits, - and _", i, m.Role)
		}
		v := jinja.NewDict()
		set := func(key, text string) {
			if text != "" {
				v.Set(key, validText(text))
			}
		}
		set("thinking", m.Reasoning)
		v.Set("role", m.Role)
		c.roles = append(c.roles, m.Role)
		if m.NoContent {
			v.Set("content", silent())
		} else {
			v.Set("content", validText(m.Content))
		}
		if len(m.ToolCalls) > 0 {
			calls, err := c.json.Read(m.ToolCalls)
			if err != nil {
				return fmt.Errorf("rendering a chat: message %d: reading the tool calls: %w", i, err)
			}
			if calls != nil {
				v.Set("tool_calls", calls)
			}
		}
		set("tool_call_id", m.ToolCallID)
		set("name", m.Name)
		set("tools", m.Tools)
		set("reasoning_content", m.Reasoning)
		list.Items = append(list.Items, v)
	}
	c.foreign["messages"] = list
	return nil
}

// render runs the template that is for these variables.
func (t *Tokenizer) render(c *chatVariables) (string, error) {
	return t.renderWith(t.templateFor(c), c)
}

func (t *Tokenizer) renderWith(template *chatTemplate, c *chatVariables) (string, error) {
	size := 0
	c.each(func(s string) { size += len(s) })
	if size > maxChatText {
		return "", fmt.Errorf("rendering a chat: its text exceeds %d bytes", maxChatText)
	}
	data := maps.Clone(c.own)
	maps.Copy(data, c.foreign)
	text, err := template.Render(data, t.now, size)
	if err != nil {
		return "", fmt.Errorf("rendering a chat: %w", err)
	}
	return text, nil
}

func validRole(role string) bool {
	for _, r := range role {
		if !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return role != "" && len(role) <= maxRole
}

// specialMatcher finds where in a text of a user a special token might start.
type specialMatcher struct{ *matcher }

func newSpecialMatcher(added []addedToken) specialMatcher {
	var tokens []addedToken
	var patterns []string
	for _, a := range added {
		if a.special {
			tokens = append(tokens, a)
			patterns = append(patterns, a.content)
		}
	}
	return specialMatcher{newMatcher(tokens, patterns)}
}

// starts returns the offsets in s at which a special token stands, or at
// which one begins that text put behind s would complete. Templates may trim
// s, so white space at its end counts as the end.
func (m specialMatcher) starts(s string) []int {
	var offsets []int
	trimmed := len(strings.TrimRightFunc(s, jinja.IsSpace))
	for i := 0; i < len(s); i++ {
		at := m.root[s[i]]
		for j := i + 1; at != 0; j++ {
			if m.nodes[at].token >= 0 || j >= trimmed {
				offsets = append(offsets, i)
				break
			}
			at = m.child(at, s[j])
		}
	}
	return offsets
}
