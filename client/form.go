package client

import (
	"sync"
	"unicode/utf8"

	"whorl/client/grammar"
	"whorl/model/tokenizer"
	"whorl/swarm"
)

// forms makes grammars for the vocabulary of an engine, once somebody asks for one.
type forms struct {
	once     sync.Once
	compiler *grammar.Compiler
}

// Grammar makes a grammar for Request.Grammar; it is kept for who asks for the same. What of a
// schema cannot be kept is a *grammar.Refusal.
func (e *Engine) Grammar(s grammar.Spec) (*grammar.Grammar, error) {
	tok := e.cfg.Tokenizer
	if tok == nil {
		return nil, ErrNoTokenizer
	}
	e.forms.once.Do(func() {
		ends := newTexter(tok, e.cfg.EOS, Request{}).ends()
		e.forms.compiler = grammar.NewCompiler(grammar.NewVocabulary(e.cfg.Vocab, tok.TokenBytes, ends))
	})
	return e.forms.compiler.Compile(s)
}

// Form says at each step of one answer which ids may come next; a grammar's matcher is one.
type Form interface {
	// Mask has a bit for each id that may come, and is nil for all. The caller must not change it.
	Mask() ([]uint64, error)
	// Accept takes the next id.
	Accept(id int32) error
	// Forced is the text that has to come next, whatever the answer is to be; last says that
	// nothing may come behind it.
	Forced() (text string, last bool, err error)
	// Ended tells whether the answer may end here, and whether it has to.
	Ended() (may, must bool)
}

// startForm begins the form of an answer; nil without one.
func (r *Request) startForm() (Form, error) {
	switch {
	case r.Form != nil:
		return r.Form()
	case r.Grammar == nil:
		return nil, nil
	}
	m, err := r.Grammar.Start()
	if err != nil {
		return nil, formError(err)
	}
	return m, nil
}

// formError makes what a grammar says the caller's concern.
func formError(err error) error {
	return swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "the form that the answer must have: %w", err)
}

// ahead is a mask that is found while the chain computes.
type ahead struct {
	done chan struct{} // closed once the others are there
	mask []uint64
	err  error
}

// prepare begins to find what may come next. The first answers of a form take a while to find what
// later ones know.
func (t *turn) prepare() {
	if t.form == nil {
		return
	}
	a, form := &ahead{done: make(chan struct{})}, t.form
	t.ahead = a
	go func() {
		defer close(a.done)
		a.mask, a.err = form.Mask()
	}()
}

// settle waits for what prepare began.
func (t *turn) settle() {
	if t.ahead != nil {
		<-t.ahead.done
	}
}

// mask are the ids that may come next, nil for all.
func (t *turn) mask() ([]uint64, error) {
	if t.form == nil {
		return nil, nil
	}
	if t.ahead == nil {
		t.prepare()
	}
	t.settle()
	mask, err := t.ahead.mask, t.ahead.err
	t.ahead = nil
	if err != nil {
		return nil, formError(err)
	}
	return mask, nil
}

// formed takes an id into the grammar; over says that nothing may follow it.
func (t *turn) formed(id int32) (over bool, err error) {
	if t.form == nil {
		return false, nil
	}
	if err := t.form.Accept(id); err != nil {
		return false, formError(err)
	}
	_, over = t.form.Ended()
	return over, nil
}

// jump accepts the ids that must come next, without asking the chain for them.
func (t *turn) jump() (done bool, err error) {
	if t.form == nil || t.r.TopLogprobs >= 0 || t.hash != nil {
		return false, nil
	}
	text, whole, err := t.form.Forced()
	if err != nil {
		return false, formError(err)
	}
	if text == "" {
		return false, nil
	}
	last := t.res.IDs[len(t.res.IDs)-1]
	for _, id := range forcedIDs(t.s.e.cfg.Tokenizer, last, text, whole) {
		if done, err = t.accept(id); err != nil || done {
			return done, err
		}
	}
	return false, nil
}

// probes are what may stand behind a forced text. The ids that no probe changes are certain: the
// others may go on in a token that is not there yet.
var probes = []string{"", "a", "s", "A", "0", " ", "\"", ".", "\n", "{", "é"}

// forcedIDs are the ids of a text that stands behind an id, as the tokenizer cuts it whatever
// follows, if not nothing does; none where that is not certain.
func forcedIDs(tok *tokenizer.Tokenizer, last int32, text string, whole bool) []int32 {
	probes := probes
	if whole {
		probes = probes[:1]
	}
	before := string(tok.TokenBytes(last, false))
	if !utf8.ValidString(before) || !utf8.ValidString(text) {
		return nil
	}
	for _, anchor := range []string{before, "\n"} {
		var common []int32
		for i, probe := range probes {
			ids := behind(tok, anchor, text+probe)
			if i == 0 {
				common = ids
			}
			n := 0
			for n < len(common) && n < len(ids) && common[n] == ids[n] {
				n++
			}
			common = common[:n]
		}
		if len(common) > 0 {
			return common
		}
	}
	return nil
}

// behind are the ids of a text that stands behind another, nil where no cut is between them.
func behind(tok *tokenizer.Tokenizer, anchor, text string) []int32 {
	ids, err := tok.Encode(anchor+text, tokenizer.EncodeOptions{})
	if err != nil {
		return nil
	}
	size, from := 0, -1
	whole := ""
	for i, id := range ids {
		if size == len(anchor) && from < 0 {
			from = i
		}
		b := tok.TokenBytes(id, i == 0)
		size += len(b)
		whole += string(b)
	}
	if from < 0 || whole != anchor+text {
		return nil
	}
	return ids[from:]
}
