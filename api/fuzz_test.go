package api

import (
	"strings"
	"testing"

	"whorl/api/gen"
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
	f.Fuzz(func(t *testing.T, body []byte) {
		var text gen.CompletionRequest
		var o options
		_, err := b.api.decode(body, "CompletionRequest", &text, &o)
		if err == nil {
			var turns []turn
			if _, turns, err = b.api.completionTurns(t.Context(), &text, &o); err == nil {
				for _, x := range turns {
					if bad := x.req.Sampling.Validate(); bad != nil || len(x.req.Prompt)+x.req.MaxNewTokens > fakeLimit {
						t.Errorf("accepted %+v: %v", x.req, bad)
					}
				}
			}
		}
		if err != nil && (describe(err).status < 400 || describe(err).status > 499) {
			t.Errorf("status %d: %v", describe(err).status, err)
		}
		var chat gen.ChatRequest
		o = options{}
		if _, err = b.api.decode(body, "ChatRequest", &chat, &o); err == nil {
			_, _, err = b.api.chatTurns(t.Context(), &chat, &o)
		}
		if err != nil && (describe(err).status < 400 || describe(err).status > 499) {
			t.Errorf("status %d: %v", describe(err).status, err)
		}
	})
}
