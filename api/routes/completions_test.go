package routes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"whorl/api"
	"whorl/api/gen"
)

// A prompt that is echoed stands before the answer, streamed or not, with the log-probabilities
// of its tokens; no answer at all gives its scores.
func TestEcho(t *testing.T) {
	const want = `abcd|<s> <nil> 0, a -2 0, b -2 1, c -0.5 2, d -0.5 3`
	shown := func(text string, l *gen.CompletionLogprobs) string {
		var out []string
		for i, name := range l.Tokens {
			lp := "<nil>"
			if l.TokenLogprobs[i] != nil {
				lp = fmt.Sprint(*l.TokenLogprobs[i])
			}
			if (l.TopLogprobs[i] == nil) != (l.TokenLogprobs[i] == nil) {
				t.Errorf("token %d has log-probability %s and alternatives %v", i, lp, l.TopLogprobs[i])
			}
			out = append(out, fmt.Sprint(name, " ", lp, " ", l.TextOffset[i]))
		}
		return text + "|" + strings.Join(out, ", ")
	}
	public := newBench(t, nil).api.Public()
	plain := func(body string) gen.Completion {
		var c gen.Completion
		w := do(public, "POST", "/v1/completions", body)
		if json.Unmarshal(w.Body.Bytes(), &c); w.Code != 200 {
			t.Fatalf("%s: status %d: %s", body, w.Code, w.Body)
		}
		return c
	}
	c := plain(`{"prompt":"ab","max_tokens":2,"echo":true,"logprobs":1}`).Choices[0]
	if got := shown(c.Text, c.Logprobs); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	whole, text := gen.CompletionLogprobs{}, ""
	w := do(public, "POST", "/v1/completions", `{"prompt":"ab","max_tokens":2,"echo":true,"logprobs":1,"stream":true}`)
	for _, line := range strings.Split(w.Body.String(), "\n") {
		var c gen.Completion
		if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &c) == nil {
			for _, x := range c.Choices {
				text += x.Text
				if l := x.Logprobs; l != nil {
					whole.Tokens, whole.TextOffset = append(whole.Tokens, l.Tokens...), append(whole.TextOffset, l.TextOffset...)
					whole.TokenLogprobs, whole.TopLogprobs = append(whole.TokenLogprobs, l.TokenLogprobs...), append(whole.TopLogprobs, l.TopLogprobs...)
				}
			}
		}
	}
	if got := shown(text, &whole); got != want {
		t.Errorf("streamed %s\nwant %s", got, want)
	}
	scores := plain(`{"prompt":["ab","c"],"max_tokens":0,"echo":true,"logprobs":1}`)
	if got := shown(scores.Choices[0].Text, scores.Choices[0].Logprobs); got != "ab|<s> <nil> 0, a -2 0, b -2 1" || scores.Usage.CompletionTokens != 0 || scores.Usage.PromptTokens != 5 {
		t.Errorf("scores %s, %+v", got, scores.Usage)
	}
	if c := plain(`{"prompt":"ab","max_tokens":1,"echo":true}`).Choices[0]; c.Text != "abc" || c.Logprobs != nil {
		t.Errorf("%+v", c)
	}
	long := plain(`{"prompt":[97,98],"max_tokens":2,"num_beams":2,"n":2,"echo":true}`)
	if long.Choices[0].Text != "abcd" || long.Choices[1].Text != "abc" {
		t.Errorf("of a search: %q, %q", long.Choices[0].Text, long.Choices[1].Text)
	}
}

// Any number of prompts is taken; a few run at a time, and the answers come in their order.
func TestManyPrompts(t *testing.T) {
	const prompts, n = 50, 5
	for _, stream := range []bool{false, true} {
		b := newBench(t, nil)
		var list []string
		for i := range prompts {
			list = append(list, fmt.Sprintf("%q", string(rune('a'+i%20))))
		}
		body := fmt.Sprintf(`{"prompt":[%s],"n":%d,"max_tokens":1,"stream":%v}`, strings.Join(list, ","), n, stream)
		w := do(b.api.Public(), "POST", "/v1/completions", body)
		got := make([]string, prompts*n)
		whole := w.Body.String()
		if !stream {
			whole = "data: " + whole
		}
		for _, line := range strings.Split(whole, "\n") {
			var c gen.Completion
			if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &c) == nil {
				for _, x := range c.Choices {
					got[x.Index] += x.Text
				}
			}
		}
		for i, text := range got {
			if want := string(rune('b' + i/n%20)); text != want {
				t.Fatalf("stream %v: answer %d is %q, want %q: %.300s", stream, i, text, want, w.Body)
			}
		}
		if most := b.engine.atOnce; most > api.DefaultLimits().Choices || most < 1 {
			t.Errorf("stream %v: %d ran at a time", stream, most)
		}
	}
	b := newBench(t, nil)
	w := do(b.api.Public(), "POST", "/v1/completions", `{"prompt":[`+strings.Repeat(`"a",`, 300)+`"a"],"n":16,"max_tokens":1}`)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "one request may have 4096") || len(b.engine.opened) > 0 {
		t.Errorf("status %d: %.300s", w.Code, w.Body)
	}
}
