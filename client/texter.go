package client

import (
	"encoding/json"
	"errors"
	"slices"

	"whorl/model/tokenizer"
)

// texter turns the ids of a turn into text that may be shown: whole characters only, no
// control tokens unless asked for, no part of a stop text.
type texter struct {
	tok    *tokenizer.Tokenizer // nil: ids have no text
	stream *tokenizer.Stream
	stop   stopper
	end    []int32 // ids that end the turn
}

func newTexter(tok *tokenizer.Tokenizer, eos []int32, r Request) *texter {
	x := &texter{tok: tok, stop: stopper{stops: r.Stop}}
	if tok != nil {
		x.stream = tok.NewStream(!r.Special)
		x.stream.Show(r.Show)
		eos = slices.Concat(eos, tok.EOGs())
	}
	if !r.IgnoreEOS {
		x.end = slices.Clone(eos)
		slices.Sort(x.end)
		x.end = slices.Compact(x.end)
	}
	return x
}

// clone is a texter that goes on from here on its own.
func (x *texter) clone() *texter {
	c := *x
	if x.stream != nil {
		c.stream = x.stream.Clone()
	}
	return &c
}

// ends lists the ids that end the turn.
func (x *texter) ends() []int32 { return x.end }

// isEnd tells whether an id ends the turn.
func (x *texter) isEnd(id int32) bool { return slices.Contains(x.end, id) }

// push adds an id; see stopper.push.
func (x *texter) push(id int32) (show, match string) {
	if x.tok == nil {
		return "", ""
	}
	return x.stop.push(x.stream.Push(id))
}

// start is where in the text an id begins if it is the next, in characters.
func (x *texter) start(id int32) int {
	if x.tok == nil {
		return 0
	}
	return x.stream.Start(id)
}

// waiting tells whether ids that showed nothing should be kept for the next delta: text
// is held back for them.
func (x *texter) waiting() bool { return x.tok != nil }

// flush ends the text: incomplete characters become replacement marks.
func (x *texter) flush() (show, match string) {
	if x.tok == nil {
		return "", ""
	}
	if show, match = x.stop.push(x.stream.Flush()); match != "" {
		return show, match
	}
	return show + x.stop.flush(), ""
}

// ErrNoTokenizer says that a model folder has no tokenizer, so that only ids can be used.
var ErrNoTokenizer = errors.New("the model has no tokenizer: give token ids instead of text")

// ErrTooLong says that a text is longer than the model reads, by far.
var ErrTooLong = tokenizer.ErrTooLong

// ErrNoTemplate says that the model has no chat template.
var ErrNoTemplate = tokenizer.ErrNoTemplate

// Message is one turn of a conversation.
type Message = tokenizer.Message

// Encode turns text into ids. special adds what the model puts around a text, such as a
// begin token. Text that looks like a control token stays text. Text of more than twice the
// positions that the model has fails with ErrTooLong, before all of it is encoded.
func (e *Engine) Encode(text string, special bool) ([]int32, error) {
	if e.cfg.Tokenizer == nil {
		return nil, ErrNoTokenizer
	}
	return e.cfg.Tokenizer.Encode(text, tokenizer.EncodeOptions{Special: special, Limit: e.encodeLimit()})
}

// EncodeMarks is Encode of a text that this program wrote: what looks like a control token is
// one.
func (e *Engine) EncodeMarks(text string) ([]int32, error) {
	if e.cfg.Tokenizer == nil {
		return nil, ErrNoTokenizer
	}
	return e.cfg.Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true, Limit: e.encodeLimit()})
}

// Template is the source of the template that conversations with tools go through, "" for none.
func (e *Engine) Template() string {
	if e.cfg.Tokenizer == nil {
		return ""
	}
	return e.cfg.Tokenizer.Template()
}

// Specials are the texts of the model's control tokens, by the names that templates have for them;
// see tokenizer.Tokenizer.
func (e *Engine) Specials() map[string]string {
	if e.cfg.Tokenizer == nil {
		return nil
	}
	return e.cfg.Tokenizer.Specials()
}

// encodeLimit leaves room to say by how much a text that is a little too long exceeds.
func (e *Engine) encodeLimit() int { return 2 * e.cfg.MaxLength }

// ChatExtras is what a template is given beside the messages. The zero value is nothing.
type ChatExtras struct {
	Tools json.RawMessage            // a list, see tokenizer.WithTools
	Vars  map[string]json.RawMessage // more variables of the template, such as enable_thinking
}

// EncodeChat turns a conversation into ids through the model's template, ready for the
// assistant's answer.
func (e *Engine) EncodeChat(messages []Message, x ChatExtras) ([]int32, error) {
	if e.cfg.Tokenizer == nil {
		return nil, ErrNoTokenizer
	}
	return e.cfg.Tokenizer.EncodeChat(messages, true, tokenizer.WithTools(x.Tools), tokenizer.WithVars(x.Vars), tokenizer.WithLimit(e.encodeLimit()))
}

// BadWords gives the ids of texts for sample.Params.BadWords, each as it is at the start
// of a text and, where that is something else, after a space.
func (e *Engine) BadWords(texts []string) ([][]int32, error) {
	var out [][]int32
	for _, text := range texts {
		for _, form := range []string{text, " " + text} {
			ids, err := e.Encode(form, false)
			if err != nil {
				return nil, err
			}
			if len(ids) > 0 && !slices.ContainsFunc(out, func(w []int32) bool { return slices.Equal(w, ids) }) {
				out = append(out, ids)
			}
		}
	}
	return out, nil
}

// TokenBytes are the bytes that an id adds to a text, which need not be whole characters; nil
// for a control token. first is for the first token of a text, of which some vocabularies
// strip a space.
func (e *Engine) TokenBytes(id int32, first bool) []byte {
	if e.cfg.Tokenizer == nil {
		return nil
	}
	return e.cfg.Tokenizer.TokenBytes(id, first)
}

// Thinks tells whether the model's chat template knows of thoughts (<think>), which come before
// an answer.
func (e *Engine) Thinks() bool { return e.cfg.Tokenizer != nil && e.cfg.Tokenizer.Thinks() }

// Decode is the text of ids, control tokens included; "" without a tokenizer.
func (e *Engine) Decode(ids []int32) string {
	if e.cfg.Tokenizer == nil {
		return ""
	}
	return e.cfg.Tokenizer.Decode(ids, false)
}

// TokenText is the text of one id on its own, control tokens included.
func (e *Engine) TokenText(id int32) string {
	return e.Decode([]int32{id})
}
