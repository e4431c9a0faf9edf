package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// ErrNoTemplate says that the model brings no chat template.
var ErrNoTemplate = errors.New("the model has no chat template: send plain text, or choose a model made for chat")

// Message is one turn of a conversation.
type Message struct {
	// Role is who speaks, as the template names it: system, user, assistant.
	// It is a word of letters, digits, - and _. Templates may write it
	// between the marks of a control token, so a caller that serves users
	// has to choose which roles they may take.
	Role string
	// Content is what is said: plain text.
	Content string
}

// maxRole bounds the name of a role.
const maxRole = 64

// Chat renders a conversation with the chat template of the model, up to the
// point where the model has the word if addGenerationPrompt is set. It is for
// showing; to feed a model use [Tokenizer.EncodeChat]: in the text alone what
// the template wrote cannot be told from what a user wrote.
//
// It fails with [ErrNoTemplate], and if the template refuses the conversation
// (raise_exception) or exceeds its limits.
func (t *Tokenizer) Chat(messages []Message, addGenerationPrompt bool) (string, error) {
	return t.render(messages, addGenerationPrompt, func(s string) string { return s })
}

// EncodeChat returns the ids of a conversation. The control tokens that the
// template writes become control tokens; text in a message that looks like
// one stays text, also where it would only become one together with what the
// template or the next message puts behind it. Otherwise the ids are those of
// Encode(Chat(...)) with ParseSpecial; begin and end tokens are the template's
// business, none are added. A template that searches a message for the text of
// a special token will not find it.
func (t *Tokenizer) EncodeChat(messages []Message, addGenerationPrompt bool) ([]int32, error) {
	if t.template == nil {
		return nil, ErrNoTemplate
	}
	used := []string{t.templateSource}
	for _, m := range messages {
		used = append(used, m.Content)
	}
	mark := unusedRune(used...)
	marked, err := t.render(messages, addGenerationPrompt, func(s string) string {
		return withMarks(s, t.specials.starts(s), mark)
	})
	if err != nil {
		return nil, err
	}
	text, barred := withoutMarks(marked, mark)
	return t.appendText(nil, text, barred, true)
}

func (t *Tokenizer) render(messages []Message, addGenerationPrompt bool, content func(string) string) (string, error) {
	if t.template == nil {
		return "", ErrNoTemplate
	}
	size := 0
	list := make([]jinja.Value, len(messages))
	for i, m := range messages {
		if !validRole(m.Role) {
			return "", fmt.Errorf("rendering a chat: message %d: the role %.80q is not a word of letters, digits, - and _", i, m.Role)
		}
		if size += len(m.Content); size > maxChatText {
			return "", fmt.Errorf("rendering a chat: its text exceeds %d bytes", maxChatText)
		}
		v := jinja.NewDict()
		v.AsDict().Set("role", jinja.NewString(m.Role))
		v.AsDict().Set("content", jinja.NewString(content(validText(m.Content))))
		list[i] = v
	}
	data := map[string]jinja.Value{
		"messages":              jinja.NewList(list),
		"add_generation_prompt": jinja.NewBool(addGenerationPrompt),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
	}
	for name, id := range map[string]int32{"bos_token": t.bos, "eos_token": t.eos, "unk_token": t.unk, "pad_token": t.pad} {
		if token, ok := t.IDToToken(id); ok {
			data[name] = jinja.NewString(token)
		}
	}
	text, err := t.template.render(data, size, t.now)
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
	trimmed := len(strings.TrimRightFunc(s, pythonSpace))
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
