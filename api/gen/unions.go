package gen

import (
	"encoding/json"
	"errors"
	"strings"
)

// Texts is one text or a list of them (schema Stop).
type Texts []string

// UnmarshalJSON takes a string, an array of strings or null.
func (t *Texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if *t = nil; string(b) != "null" {
			*t = Texts{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// RawJSON is a value that is passed on as it came, the order of keys included.
type RawJSON = json.RawMessage

// Variables are values by name, passed on as they came (schema ChatRequest).
type Variables map[string]json.RawMessage

// Text is the text of a message, its parts joined (schema Content).
type Text string

// UnmarshalJSON takes a string, an array of text parts or null.
func (t *Text) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = Text(one)
		return nil
	}
	var parts []ContentPart
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var sb strings.Builder
	for _, p := range parts {
		if p.Type != ContentPartTypeText {
			return errors.New("content parts other than text are not supported")
		}
		sb.WriteString(p.Text)
	}
	*t = Text(sb.String())
	return nil
}

// Blocks are what a turn of Anthropic's Messages holds (schema MessagesBlocks).
type Blocks []MessagesBlock

// UnmarshalJSON takes a string, an array of blocks or null.
func (l *Blocks) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = Blocks{{Type: MessagesBlockTypeText, Text: &one}}
		return nil
	}
	return json.Unmarshal(b, (*[]MessagesBlock)(l))
}

// Items are what a response answers (schema ResponseInput).
type Items []ResponseInputItem

// UnmarshalJSON takes a string, an array of items or null.
func (l *Items) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if *l = nil; string(b) != "null" {
			role, said := ResponseInputItemRoleUser, Said(one)
			*l = Items{{Role: &role, Content: &said}}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]ResponseInputItem)(l))
}

// Said is the text of an item, its parts joined (schema ResponseContent).
type Said string

// UnmarshalJSON takes a string, an array of parts or null.
func (s *Said) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*s = Said(one)
		return nil
	}
	var parts []struct{ Text, Refusal string }
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	*s = ""
	for _, p := range parts {
		*s += Said(p.Text + p.Refusal)
	}
	return nil
}

// IDs are token ids; JSON does not tell 2 from 2.0 (schema DetokenizeRequest).
type IDs []int32

// UnmarshalJSON takes a list of whole numbers.
func (l *IDs) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*[]int32)(l)) == nil {
		return nil
	}
	var numbers []float64
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	*l = make([]int32, len(numbers))
	for i, n := range numbers {
		if (*l)[i] = int32(n); float64((*l)[i]) != n {
			return errors.New("an id is no whole number of 32 bits")
		}
	}
	return nil
}

// Prompts are what a completion continues (schema Prompt): each entry of Texts or of IDs is
// a prompt of its own. One of the two is nil.
type Prompts struct {
	Texts []string
	IDs   [][]int32
}

// UnmarshalJSON takes the four forms.
func (p *Prompts) UnmarshalJSON(b []byte) error {
	*p = Prompts{}
	var text string
	if json.Unmarshal(b, &text) == nil && string(b) != "null" {
		p.Texts = []string{text}
		return nil
	}
	var texts []string
	if json.Unmarshal(b, &texts) == nil && len(texts) > 0 {
		p.Texts = texts
		return nil
	}
	var ids IDs
	if json.Unmarshal(b, &ids) == nil && len(ids) > 0 {
		p.IDs = [][]int32{ids}
		return nil
	}
	var lists []IDs
	if json.Unmarshal(b, &lists) == nil && len(lists) > 0 {
		for _, ids := range lists {
			p.IDs = append(p.IDs, ids)
		}
		return nil
	}
	return errors.New("prompt: want a text, a list of texts, a list of ids or a list of lists of ids")
}
