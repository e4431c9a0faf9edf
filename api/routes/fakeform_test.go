package routes

import (
	"context"

	"whorl/client"
	"whorl/client/grammar"
)

func (e *fakeEngine) Grammar(s grammar.Spec) (*grammar.Grammar, error) {
	return grammar.Compile(s, grammar.NewVocabulary(fakeVocab, e.TokenBytes, []int32{fakeEOS}))
}

// Mean of the fake is what it makes of the letters: how many, and their sum.
func (e *fakeEngine) Mean(_ context.Context, ids []int32) ([]float32, error) {
	out := []float32{float32(len(ids)), 0, 0, 0}
	for _, id := range ids {
		out[1+id%3] += float32(id)
	}
	return out, nil
}

// begunForm is the beginning of an answer's form, nil for none.
func begunForm(r client.Request) client.Form {
	if r.Form != nil {
		f, err := r.Form()
		if err != nil {
			panic(err)
		}
		return f
	}
	if r.Grammar == nil {
		return nil
	}
	m, err := r.Grammar.Start()
	if err != nil {
		panic(err)
	}
	return m
}

// closers end what is open.
const closers = "\"}]\x00"

// formed is an id if a form lets it come, else what ends something, else the first that may.
func formed(form client.Form, id int32) int32 {
	mask, err := form.Mask()
	if err != nil {
		panic(err)
	}
	for next := 0; mask != nil && !grammar.Admits(mask, id); next++ {
		if id = int32(next); next < len(closers) {
			id = int32(closers[next])
		}
	}
	if id != fakeEOS {
		if err := form.Accept(id); err != nil {
			panic(err)
		}
	}
	return id
}

func (e *fakeEngine) EncodeMarks(text string) ([]int32, error) {
	if text == "</s>" {
		return []int32{fakeEOS}, nil
	}
	return e.Encode(text, false)
}

func (e *fakeEngine) Specials() map[string]string {
	return map[string]string{"bos_token": "<s>", "eos_token": "</s>"}
}

func (e *fakeEngine) Template() string { return e.template }
