package api

import (
	"encoding/json"
	"errors"
	"strings"

	"whorl/api/calls"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/grammar"
)

// AnswerForm is what an answer has to be, and the field that says so. nil is anything.
type AnswerForm struct {
	Param string
	Spec  grammar.Spec
}

// Tools are what an answer may call.
type Tools struct {
	Param   string          // their field
	List    json.RawMessage // as templates get them: a list in OpenAI's form
	Offered []calls.Tool
	Must    bool   // the answer is a call,
	Only    string // of this tool if it is not empty
	Several bool   // and may be more than one
}

// Talk is a conversation as a model gets it, and what becomes of the answer.
type Talk struct {
	Prompt  []int32
	grammar *grammar.Grammar
	form    func() (client.Form, error) // in place of it
	show    []int32                     // control tokens that are marks of calls
	reader  func() *Reader
}

// Put makes a request for answers of it.
func (t *Talk) Put(q *Ask) {
	q.Prompts = [][]int32{t.Prompt}
	q.Request.Grammar, q.Request.Form, q.Request.Show = t.grammar, t.form, t.show
}

// Reader reads one answer.
func (t *Talk) Reader() *Reader { return t.reader() }

// Converse puts a conversation through the model's template, with the tools that its answer may
// call, if any, and the form that it has to have.
func (a *API) Converse(e Engine, messages []gen.ChatMessage, x client.ChatExtras, tools *Tools, form *AnswerForm) (*Talk, error) {
	if tools != nil {
		x.Tools = tools.List
	}
	ids, err := EncodeMessages(e, messages, x)
	if err != nil {
		return nil, err
	}
	t := &Talk{Prompt: ids}
	if tools == nil {
		t.reader = func() *Reader { return &Reader{split: NewSplitter(e, ids)} }
		if form != nil {
			t.grammar, err = behindThought(e, ids, form)
		}
		return t, err
	}
	f := a.formatOf(e)
	var names []string
	for _, tool := range tools.Offered {
		names = append(names, tool.Name)
	}
	open := false
	if tools.Must {
		open, err = t.must(e, f, tools)
	} else {
		err = t.may(e, f, tools, form)
	}
	if err != nil {
		return nil, err
	}
	if t.show, err = marks(e, f); err != nil {
		return nil, err
	}
	if t.grammar == nil {
		if t.form, err = a.guarded(e, f, tools, ids, t.show); err != nil {
			return nil, err
		}
	}
	t.reader = func() *Reader {
		split := NewSplitter(e, ids)
		if open {
			split = Splitter{at: answering}
		}
		return &Reader{split: split, parser: calls.NewParser(f, names, open), short: f.ShortIDs()}
	}
	return t, nil
}

// Raw is a prompt that is no conversation, whose answer has a form.
func Raw(e Engine, prompt []int32, form *AnswerForm) (*Talk, error) {
	g, err := Compile(e, form)
	return &Talk{Prompt: prompt, grammar: g, reader: func() *Reader { return &Reader{split: NewSplitter(e, prompt)} }}, err
}

// formatOf is how a model calls tools: as the operator says, or else as its template does.
func (a *API) formatOf(e Engine) calls.Format {
	if f, err := calls.Named(a.ToolFormat); err == nil {
		return f
	}
	return calls.Of(e.Template())
}

// must has the answer be a call. open says that its beginning is in the prompt: so it is where no
// thought comes before it, and where it is written in control tokens.
func (t *Talk) must(e Engine, f calls.Format, tools *Tools) (open bool, err error) {
	offered := tools.Offered
	if tools.Only != "" {
		offered = nil
		for _, tool := range tools.Offered {
			if tool.Name == tools.Only {
				offered = append(offered, tool)
			}
		}
	}
	spec := f.Spec(offered, tools.Several && tools.Only == "")
	begin, err := e.EncodeMarks(f.Begin())
	if err != nil {
		return false, EncodeError(e, tools.Param, err)
	}
	form := &AnswerForm{tools.Param, spec}
	may, thinks := thought(e, t.Prompt)
	if may && !controls(e, begin) {
		form.Spec = grammar.Spec{All: []grammar.Spec{{Text: f.Begin()}, spec}}
		t.grammar, err = behindThought(e, t.Prompt, form)
		return false, err
	}
	if thinks { // no more
		if begin, err = e.EncodeMarks(thoughtCloses + "\n\n" + f.Begin()); err != nil {
			return false, EncodeError(e, tools.Param, err)
		}
	}
	t.Prompt = append(t.Prompt[:len(t.Prompt):len(t.Prompt)], begin...)
	t.grammar, err = compile(e, form)
	return f.Begin() != "", err
}

// may leaves it to the model whether the answer is a call; where it is none, it has a form.
func (t *Talk) may(e Engine, f calls.Format, tools *Tools, form *AnswerForm) error {
	if form == nil {
		return nil
	}
	begin, err := e.EncodeMarks(f.Begin())
	if err != nil {
		return EncodeError(e, tools.Param, err)
	}
	if controls(e, begin) {
		return Unsupported(form.Param, "%s beside tools is not supported for %s: it calls tools by control tokens, which have no place in a form", form.Param, e.Model().Name)
	}
	call := grammar.Spec{All: []grammar.Spec{{Text: f.Begin()}, f.Spec(tools.Offered, tools.Several)}}
	t.grammar, err = behindThought(e, t.Prompt, &AnswerForm{form.Param, grammar.Spec{Any: []grammar.Spec{form.Spec, call}}})
	return err
}

// marks are the control tokens of a model that are marks of a format.
func marks(e Engine, f calls.Format) ([]int32, error) {
	var out []int32
	for _, m := range f.Marks() {
		ids, err := e.EncodeMarks(m)
		if err != nil {
			return nil, err
		}
		if len(ids) == 1 && e.TokenBytes(ids[0], false) == nil {
			out = append(out, ids[0])
		}
	}
	return out, nil
}

// controls tells whether some ids are control tokens.
func controls(e Engine, ids []int32) bool {
	for _, id := range ids {
		if e.TokenBytes(id, false) == nil {
			return true
		}
	}
	return false
}

// thought tells whether an answer to a prompt may think first, and whether the prompt begins the
// thought itself.
func thought(e Engine, prompt []int32) (may, open bool) {
	if !e.Thinks() {
		return false, false
	}
	s := NewSplitter(e, prompt)
	const tail = 8
	closed := strings.HasSuffix(strings.TrimSpace(e.Decode(prompt[max(0, len(prompt)-tail):])), thoughtCloses)
	return !closed, s.at == thinking
}

// behindThought compiles a form that has to begin once the model has thought.
func behindThought(e Engine, prompt []int32, form *AnswerForm) (*grammar.Grammar, error) {
	may, open := thought(e, prompt)
	if !may {
		return compile(e, form)
	}
	lines := grammar.Spec{Repeat: &grammar.Spec{Text: "\n"}, Max: 2}
	spec := grammar.Spec{All: []grammar.Spec{{Until: thoughtCloses}, lines, form.Spec}}
	if !open {
		spec = grammar.Spec{Any: []grammar.Spec{form.Spec, {All: []grammar.Spec{{Text: thoughtOpens}, spec}}}}
	}
	return compile(e, &AnswerForm{form.Param, spec})
}

// Compile makes a form's grammar for a model; nil for none. What cannot be kept is said of its
// field.
func Compile(e Engine, form *AnswerForm) (*grammar.Grammar, error) {
	if form == nil {
		return nil, nil
	}
	return compile(e, form)
}

func compile(e Engine, form *AnswerForm) (*grammar.Grammar, error) {
	g, err := e.Grammar(form.Spec)
	switch {
	case err == nil:
		return g, nil
	case errors.Is(err, client.ErrNoTokenizer), errors.As(err, new(*grammar.Refusal)):
		return nil, Unsupported(form.Param, "%s: %w", form.Param, err)
	}
	return nil, Invalid(form.Param, "%s: %w", form.Param, err)
}
