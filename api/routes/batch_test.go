package routes

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"whorl/client"
	"whorl/swarm"
)

func (s *fakeSession) Keep(ids []int32) error {
	if len(s.ids)+len(ids) > s.limit {
		return swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "too long to keep")
	}
	s.ids = append(s.ids, ids...)
	return nil
}

// branches answers each branch in turn.
func (s *fakeSession) branches(ctx context.Context, r client.Request, emit func(client.Delta) error) (client.Result, error) {
	text := append(s.IDs(), r.Prompt...)
	var out client.Result
	for i, b := range r.Branches {
		one := r
		one.Branches, one.Prompt = nil, b.Prompt
		at := &fakeSession{e: s.e, limit: s.limit, ids: slices.Clone(text)}
		res, err := at.answer(ctx, one, func(d client.Delta) error {
			d.Branch = i
			return emit(d)
		})
		if err != nil {
			return out, err
		}
		if i == 0 {
			out = res
			out.IDs = nil
		}
		out.IDs = append(out.IDs, res.IDs...)
		out.Answers = append(out.Answers, client.Answer{IDs: res.IDs, Text: res.Text, Finish: res.Finish, StopMatch: res.StopMatch})
	}
	s.ids = text
	out.PromptTokens, out.Position = len(r.Prompt), len(text)
	return out, nil
}

// Several answers go on from a session's text, or from texts of their own behind it; the session
// goes on from what they have in common, or from the one that is kept.
func TestSocketBatch(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":60,"num_beams":4}`)
	p.want(`{"ok":true}`)
	p.send(`{"type":"generate","inputs":["ab","ax","a"],"max_new_tokens":2,"do_sample":1,"seed":7,"return_token_ids":1}`)
	m := p.want(`{"ok":true,"outputs":"","stop":true,"token_count":0,"position":2,"stop_reason":"length","usage":{"prompt_tokens":4,"completion_tokens":6},
		"answers":[{"outputs":"cd","token_count":2,"token_ids":[99,100],"stop_reason":"length"},{"outputs":"yz","token_count":2,"token_ids":[121,122],"stop_reason":"length"},
		{"outputs":"bc","token_count":2,"token_ids":[98,99],"stop_reason":"length"}]}`)
	if m["index"] != nil {
		t.Errorf("%v", m)
	}
	r := b.engine.requests()[0]
	if fmt.Sprint(r.Prompt, r.Branches) != "[1 97] [{[98] 7} {[120] 7} {[] 7}]" {
		t.Errorf("asked %v %v", r.Prompt, r.Branches)
	}
	p.send(`{"type":"keep","index":1}`)
	p.want(`{"ok":true,"type":"keep","position":5}`)
	p.send(`{"type":"keep","index":1}`)
	if m := p.want(`{"ok":false}`); m["error"].(map[string]any)["param"] != "index" {
		t.Errorf("%v", m)
	}
	p.send(`{"type":"truncate","position":3}`)
	p.want(`{"ok":true,"position":3}`)
	p.send(`{"type":"generate","n":2,"max_new_tokens":2,"do_sample":1,"seed":7,"stream":1}`)
	for _, want := range []string{`{"index":0,"outputs":"y"}`, `{"index":0,"outputs":"z"}`, `{"index":1,"outputs":"y"}`, `{"index":1,"outputs":"z"}`} {
		p.want(want)
	}
	p.want(`{"ok":true,"stop":true,"position":3,"answers":[{"outputs":"yz","token_count":2,"stop_reason":"length"},{"outputs":"yz","token_count":2,"stop_reason":"length"}]}`)
	if r := b.engine.requests()[1]; fmt.Sprint(r.Prompt, r.Branches) != "[] [{[] 7} {[] 8}]" {
		t.Errorf("asked %v %v", r.Prompt, r.Branches)
	}
	p.send(`{"type":"generate","messages":[{"role":"user","content":"a"}],"n":2,"stop_sequence":"d","max_new_tokens":9}`)
	p.want(`{"ok":true,"stop":true,"answers":[{"outputs":"abc","token_count":4,"stop_reason":"stop","stop_match":"d"},{"outputs":"abc","token_count":4,"stop_reason":"stop","stop_match":"d"}]}`)
	if len(b.engine.opened) != 1 {
		t.Errorf("%d sessions were opened", len(b.engine.opened))
	}
}

// What is wrong with a batch is told, and leaves session and socket as they were.
func TestSocketBatchRefuses(t *testing.T) {
	b := newBench(t, nil)
	p := dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":30,"num_beams":2}`)
	p.want(`{"ok":true}`)
	for _, c := range [][2]string{
		{`"inputs":[],"max_new_tokens":1`, "inputs"},
		{`"inputs":["a",1],"max_new_tokens":1`, "inputs"},
		{`"inputs":["a","b","c"],"max_new_tokens":1`, "n"},
		{`"inputs":["a","b"],"n":17,"max_new_tokens":1`, "inputs"},
		{`"inputs":"a","n":0,"max_new_tokens":1`, "n"},
		{`"inputs":"a","n":2,"num_beams":2,"max_new_tokens":1`, "num_beams"},
		{`"inputs":"a","n":2,"guidance_scale":2,"max_new_tokens":1`, "guidance_scale"},
		{`"inputs":"a","n":2`, "max_new_tokens"},
		{`"inputs":["a"],"messages":[{"role":"user","content":"a"}],"max_new_tokens":1`, "messages"},
	} {
		p.send(`{"type":"generate",` + c[0] + `}`)
		if m := p.want(`{"ok":false}`); m["error"].(map[string]any)["param"] != c[1] {
			t.Errorf("%s: %v", c[0], m)
		}
	}
	p.send(`{"type":"generate","inputs":["a","b"],"max_new_tokens":40}`)
	if m := p.want(`{"ok":false}`); m["error"].(map[string]any)["code"] != "max_length" {
		t.Errorf("%v", m)
	}
	p.send(`{"type":"keep"}`)
	p.want(`{"ok":false}`)
	if len(b.engine.requests()) != 0 {
		t.Errorf("asked %v", b.engine.requests())
	}
}

// Texts that have no token in common are answered in sessions of their own.
func TestSocketBatchApart(t *testing.T) {
	b := newBench(t, nil)
	b.engine.bare = true
	p := dial(t, b, nil)
	p.send(`{"type":"open_inference_session","max_length":60,"num_beams":2}`)
	p.want(`{"ok":true}`)
	p.send(`{"type":"generate","inputs":["ab","lm"],"max_new_tokens":2}`)
	p.want(`{"ok":true,"stop":true,"position":0,"usage":{"prompt_tokens":4,"completion_tokens":4},"answers":[{"outputs":"cd","token_count":2,"stop_reason":"length"},{"outputs":"no","token_count":2,"stop_reason":"length"}]}`)
	if len(b.engine.opened) != 3 || b.engine.closedSessions() != 2 {
		t.Errorf("%d sessions were opened, %d closed", len(b.engine.opened), b.engine.closedSessions())
	}
	p.send(`{"type":"keep","index":1}`)
	p.want(`{"ok":true,"type":"keep","position":4}`)
	p.send(`{"type":"generate","max_new_tokens":1,"stream":1}`)
	p.want(`{"ok":true,"outputs":"p"}`)
}
