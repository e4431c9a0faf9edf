package train

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Task is what is learnt.
type Task string

// The tasks.
const (
	Causal   Task = "causal"   // to go on with texts
	Classify Task = "classify" // to tell labels of texts
)

// Tasks lists them.
func Tasks() []string { return []string{string(Causal), string(Classify)} }

// Line is one example as a file has it: a JSON object per line.
type Line struct {
	Text       *string `json:"text"`       // causal: all of it is learnt; classify: what the label is of
	Prompt     *string `json:"prompt"`     // causal: what is given
	Completion *string `json:"completion"` // causal: what is learnt
	Label      *Label  `json:"label"`      // classify
}

// Label is text; a number stands for its digits.
type Label string

// UnmarshalJSON takes a string, a whole number or a truth value.
func (l *Label) UnmarshalJSON(b []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*l = Label(v)
	case json.Number:
		*l = Label(v.String())
	case bool:
		*l = Label(strconv.FormatBool(v))
	default:
		return errors.New("a label is a text, a number, true or false")
	}
	return nil
}

// Limits of a file of examples.
const (
	MaxLine     = 1 << 20 // bytes
	MaxExamples = 1 << 22
	MaxLabels   = 1 << 10
)

// Read reads examples of a task; errors name the line.
func Read(r io.Reader, task Task) ([]Line, error) {
	var out []Line
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), MaxLine)
	for n := 1; s.Scan(); n++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var l Line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d is no JSON object of an example: %w", n, err)
		}
		if err := l.check(task); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if out = append(out, l); len(out) > MaxExamples {
			return nil, fmt.Errorf("more than %d examples", MaxExamples)
		}
	}
	if err := s.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("a line of more than %d bytes", MaxLine)
		}
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("there are no examples")
	}
	return out, nil
}

func (l *Line) check(task Task) error {
	switch {
	case task == Classify && (l.Text == nil || l.Label == nil):
		return errors.New(`want {"text": ..., "label": ...} to learn labels`)
	case task == Causal && (l.Completion == nil) == (l.Text == nil):
		return errors.New(`want {"text": ...}, or {"prompt": ..., "completion": ...}, to learn texts`)
	case task == Causal && l.Text != nil && l.Prompt != nil:
		return errors.New(`"prompt" goes with "completion", not with "text"`)
	}
	return nil
}

// Labels lists the labels of examples: by number if all are whole numbers, else by the alphabet.
func Labels(lines []Line) ([]string, error) {
	seen := map[string]bool{}
	for _, l := range lines {
		seen[string(*l.Label)] = true
	}
	var all []string
	numbers := true
	for l := range seen {
		all = append(all, l)
		_, err := strconv.ParseInt(l, 10, 64)
		numbers = numbers && err == nil
	}
	slices.SortFunc(all, func(a, b string) int {
		if numbers {
			x, _ := strconv.ParseInt(a, 10, 64)
			y, _ := strconv.ParseInt(b, 10, 64)
			if x != y {
				return cmp.Compare(x, y)
			}
		}
		return strings.Compare(a, b)
	})
	if len(all) < 2 || len(all) > MaxLabels {
		return nil, fmt.Errorf("%d different labels, want 2 to %d", len(all), MaxLabels)
	}
	return all, nil
}

// Example is one text in ids, and what is to be learnt of it.
type Example struct {
	IDs []int32
	// From is the first id that is learnt, of a causal example.
	From  int
	Label int // of a classified one
}
