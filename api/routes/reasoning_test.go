package routes

import (
	"encoding/json"
	"strings"
	"testing"

	"whorl/api/gen"
)

// What a model thinks is told apart from what it says, streamed or not, and counted.
func TestReasoning(t *testing.T) {
	for _, c := range []struct {
		thinks           bool
		says, more       string
		thought, content string
		tokens           int // of thoughts
	}{
		{true, "<think>\nhm\n</think>\n\nYes.", "", "hm", "Yes.", 19},
		{true, "Yes.", "", "", "Yes.", 0},
		{true, "<think>hm, and on", "", "hm, and on", "", 18},                                      // the end token too
		{true, "hm</think>Yes", `,"chat_template_kwargs":{"x":"<think>"}`, "", "hm</think>Yes", 0}, // not the last of the prompt
		{false, "<think>hm</think>Yes.", "", "", "<think>hm</think>Yes.", 0},
	} {
		body := `{"messages":[{"role":"user","content":"a"}],"max_tokens":60,"logprobs":true` + c.more
		b := newBench(t, nil)
		b.engine.thinks, b.engine.says = c.thinks, c.says
		var plain gen.ChatCompletion
		w := do(b.api.Public(), "POST", "/v1/chat/completions", body+`}`)
		if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil || w.Code != 200 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		conforms(t, b.doc, "POST", "/v1/chat/completions", w)
		m, thought, tokens := plain.Choices[0].Message, "", 0
		if m.ReasoningContent != nil {
			thought = *m.ReasoningContent
		}
		if d := plain.Usage.CompletionTokensDetails; d != nil {
			tokens = d.ReasoningTokens
		}
		if thought != c.thought || *m.Content != c.content || tokens != c.tokens {
			t.Errorf("%q: thought %q, content %q, %d tokens", c.says, thought, *m.Content, tokens)
		}
		thought, content, ids := "", "", 0
		w = do(b.api.Public(), "POST", "/v1/chat/completions", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		for _, line := range strings.Split(w.Body.String(), "\n") {
			var k gen.ChatChunk
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok || json.Unmarshal([]byte("{"+data), &k) != nil {
				continue
			}
			if k.Usage != nil && k.Usage.CompletionTokensDetails != nil && k.Usage.CompletionTokensDetails.ReasoningTokens != c.tokens {
				t.Errorf("%q: %+v", c.says, k.Usage)
			}
			for _, x := range k.Choices {
				if x.Delta.ReasoningContent != nil {
					if thought += *x.Delta.ReasoningContent; content != "" {
						t.Errorf("%q: a thought after what was said", c.says)
					}
				}
				if x.Delta.Content != nil {
					content += *x.Delta.Content
				}
				if x.Logprobs != nil {
					ids += len(x.Logprobs.Content)
				}
			}
		}
		if thought != c.thought || content != c.content || ids != plain.Usage.CompletionTokens {
			t.Errorf("%q streamed: thought %q, content %q, %d log-probabilities", c.says, thought, content, ids)
		}
	}
}
