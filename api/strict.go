package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"whorl/api/calls"
	"whorl/client"
	"whorl/client/grammar"
	"whorl/swarm"
)

// strict keeps the arguments of calls valid by what their tools declare, where it is left to the
// model whether, when and how it calls: it forbids tokens from where the arguments of a call to a
// strict tool begin to where they end, and such as would begin or end them otherwise. All else is
// free. It follows an answer as its Reader does. It is a client.Form.
type strict struct {
	guard  *guard
	split  Splitter
	parser *calls.Parser
	call   *grammar.Matcher // in the arguments of a call to a strict tool; nil elsewhere
	begun  bool
}

// guard is what the answers of one request have in common.
type guard struct {
	e      Engine
	tools  map[string]*grammar.Grammar // arguments of strict tools, with anything behind them
	show   []int32
	braces []brace
	words  int // of a mask
}

// brace is a token that may begin or end arguments.
type brace struct {
	id   int32
	text string
}

// anything is the form of a text that has none.
var anything = grammar.Spec{Regex: `(?s:.*)`}

// guarded makes the form of answers whose calls to strict tools are valid; nil where no tool is.
func (a *API) guarded(e Engine, f calls.Format, tools *Tools, prompt, show []int32) (func() (client.Form, error), error) {
	g := &guard{e: e, show: show, tools: map[string]*grammar.Grammar{}, words: (e.Model().Vocab + 63) / 64}
	var names []string
	for i, t := range tools.Offered {
		names = append(names, t.Name)
		if !t.Strict {
			continue
		}
		spec := grammar.Spec{Text: "{}"}
		if t.Parameters != nil {
			spec = grammar.Spec{Schema: t.Parameters}
		}
		var err error
		param := fmt.Sprintf("%s.%d", tools.Param, i)
		if g.tools[t.Name], err = compile(e, &AnswerForm{param, grammar.Spec{All: []grammar.Spec{spec, anything}}}); err != nil {
			return nil, err
		}
	}
	if len(g.tools) == 0 {
		return nil, nil
	}
	g.braces = a.bracesOf(e)
	return func() (client.Form, error) {
		return &strict{guard: g, split: NewSplitter(e, prompt), parser: calls.NewParser(f, names, false)}, nil
	}, nil
}

// bracesOf are the tokens of a model that hold a brace, the longest first.
func (a *API) bracesOf(e Engine) []brace {
	m := e.Model()
	if known, ok := a.braces.Load(m.UID); ok {
		return known.([]brace)
	}
	var out []brace
	for id := range int32(m.Vocab) {
		if text := string(e.TokenBytes(id, false)); strings.ContainsAny(text, "{}") {
			out = append(out, brace{id, text})
		}
	}
	slices.SortStableFunc(out, func(x, y brace) int { return cmp.Compare(len(y.text), len(x.text)) })
	a.braces.Store(m.UID, out)
	return out
}

// clone is one that goes on from here on its own.
func (s *strict) clone() *strict {
	c := *s
	c.parser = s.parser.Clone()
	if s.call != nil {
		c.call = s.call.Clone()
	}
	return &c
}

// feed takes text; false if it makes a call that is not valid.
func (s *strict) feed(text string) (bool, error) {
	for i := range len(text) {
		_, said := s.split.Push(text[i : i+1])
		for k := range len(said) {
			if ok, err := s.take(said[k : k+1]); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// take takes a byte of what is said.
func (s *strict) take(b string) (ok bool, err error) {
	for _, p := range s.parser.Push(b) {
		if p.Call == nil {
			continue
		}
		if p.Call.Name != "" {
			s.call = nil
			if g := s.guard.tools[p.Call.Name]; g != nil {
				if s.call, err = g.Start(); err != nil {
					return false, err
				}
			}
		}
		if s.call == nil {
			continue
		}
		if ok, err := s.call.Take(p.Call.Arguments); !ok || err != nil {
			return false, err
		}
	}
	if s.call != nil && !s.parser.Arguing() {
		whole, _ := s.call.Ended()
		s.call = nil
		return whole, nil
	}
	return true, nil
}

// Mask are the ids that may come next, nil for all.
func (s *strict) Mask() ([]uint64, error) {
	if s.call != nil {
		return s.call.Mask()
	}
	var mask []uint64
	least, before := s.parser.Least(), s.parser.Calls()
	for _, b := range s.guard.braces {
		if len(b.text) < least {
			break
		}
		probe := s.clone()
		if _, said := probe.split.Push(b.text); said == "" {
			continue
		} else if probe.parser.Push(said); probe.parser.Calls() == before {
			continue
		}
		ok, err := s.clone().feed(b.text)
		if err != nil {
			return nil, err
		}
		if !ok {
			if mask == nil {
				mask = make([]uint64, s.guard.words)
				for i := range mask {
					mask[i] = ^uint64(0)
				}
			}
			mask[b.id>>6] &^= 1 << (b.id & 63)
		}
	}
	return mask, nil
}

// Accept takes the next id.
func (s *strict) Accept(id int32) error {
	text := string(s.guard.e.TokenBytes(id, !s.begun))
	if text == "" && slices.Contains(s.guard.show, id) {
		text = s.guard.e.TokenText(id)
	}
	s.begun = true
	ok, err := s.feed(text)
	if err == nil && !ok {
		err = swarm.Errorf(swarm.CodeInternal, swarm.Fatal, "the id %d makes a call that is not valid", id)
	}
	return err
}

// Forced is the text that has to come next.
func (s *strict) Forced() (text string, last bool, err error) {
	if s.call == nil {
		return "", false, nil
	}
	return s.call.Forced()
}

// Ended tells whether the answer may end here; it never has to.
func (s *strict) Ended() (may, must bool) { return s.call == nil, false }
