package api

import (
	"crypto/rand"

	"whorl/api/calls"
)

// Part is a piece of an answer: of a thought, of what it says, or of a call.
type Part struct {
	Thought, Text string
	Call          *CallPart // nil for none
}

// CallPart is a piece of a call. The first one of a call has its id and its name.
type CallPart struct {
	Index     int // of the call in the answer
	ID, Name  string
	Arguments string // a piece of them: JSON, as the model wrote it
}

// Said is a whole answer.
type Said struct {
	Thought, Text string
	Calls         []CallPart
}

// Reader takes an answer apart: its thought, its calls, and the text that is neither. However
// the text comes in pieces, the parts come to the same. Not for concurrent use.
type Reader struct {
	split  Splitter
	parser *calls.Parser // nil where there are no tools
	short  bool          // ids of calls have nine letters
}

// Push adds text and returns what is known of it, in order.
func (r *Reader) Push(text string) []Part {
	return r.parts(r.split.Push(text))
}

// Flush ends the answer.
func (r *Reader) Flush() []Part {
	out := r.parts(r.split.Flush())
	if r.parser != nil {
		out = r.called(out, r.parser.Flush())
	}
	return out
}

// Calls is how many calls the answer has so far.
func (r *Reader) Calls() int {
	if r.parser == nil {
		return 0
	}
	return r.parser.Calls()
}

// Whole reads an answer that came at once.
func (r *Reader) Whole(text string) (out Said) {
	for _, p := range append(r.Push(text), r.Flush()...) {
		switch {
		case p.Call == nil:
			out.Thought += p.Thought
			out.Text += p.Text
		case p.Call.Name != "":
			out.Calls = append(out.Calls, *p.Call)
		default:
			out.Calls[p.Call.Index].Arguments += p.Call.Arguments
		}
	}
	return out
}

func (r *Reader) parts(thought, said string) (out []Part) {
	if thought != "" {
		out = append(out, Part{Thought: thought})
	}
	if r.parser != nil {
		return r.called(out, r.parser.Push(said))
	}
	if said != "" {
		out = append(out, Part{Text: said})
	}
	return out
}

func (r *Reader) called(out []Part, more []calls.Part) []Part {
	for _, p := range more {
		if p.Call == nil {
			out = append(out, Part{Text: p.Text})
			continue
		}
		c := CallPart{Index: p.Call.Index, Name: p.Call.Name, Arguments: p.Call.Arguments}
		if c.Name != "" {
			c.ID = callID(r.short)
		}
		out = append(out, Part{Call: &c})
	}
	return out
}

// callID names a call. Some templates want names of nine letters or digits.
func callID(short bool) string {
	if !short {
		return "call_" + RandomHex(12)
	}
	return rand.Text()[:9]
}
