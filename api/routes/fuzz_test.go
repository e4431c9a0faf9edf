package routes

import (
	"strings"
	"testing"
)

// FuzzRequest: whatever comes as a body is a request that the sampler takes, or an error
// of the caller's.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"a","max_tokens":3,"temperature":0.5,"stop":["x"],"seed":-1}`, `{"prompt":[[1,2],[3]],"n":2}`, `{"prompt":null}`, `{"prompt":[1,"a"]}`,
		`{"prompt":"a","num_beams":3,"n":2,"early_stopping":"never","logit_bias":{"5":1},"bad_words":["x"]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[],"top_p":0}`, `{"messages":[null]}`, `[]`, `{"seed":1e300,"prompt":"a"}`, `{"max_tokens":1e2,"prompt":"a"}`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"a":[` + strings.Repeat(`[],{"a":0},`, 500) + `1]}],"chat_template_kwargs":{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":[` + strings.Repeat("0,", 500) + `0]}"}}]}]}`,
		`{"prompt":[` + strings.Repeat("[1],", 500) + `[1]]}`,
	} {
		f.Add([]byte(s))
	}
	b := newBench(f, nil)
	public := b.api.Public()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
			b.engine.turns, b.engine.opened = nil, nil
			switch w := do(public, "POST", path, string(body)); {
			case w.Code == 200, w.Code == 504: // by a timeout that it asks for
				for _, r := range b.engine.requests() {
					if err := r.Validate(fakeVocab); err != nil || len(r.Prompt)+r.MaxNewTokens > fakeLimit {
						t.Errorf("accepted %+v: %v", r, err)
					}
				}
			case w.Code < 400 || w.Code > 499:
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		}
	})
}
