package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"whorl/api"
	"whorl/client"
	"whorl/client/sample"
)

// bytesEngine has the bytes as tokens; 0 is the end token.
type bytesEngine struct{ api.Engine }

func (bytesEngine) TokenText(id int32) string {
	if id == 0 {
		return "</s>"
	}
	return string(rune(id))
}

func (bytesEngine) TokenBytes(id int32, _ bool) []byte {
	if id == 0 {
		return nil
	}
	return []byte{byte(id)}
}

// Tokens of one position have names that differ, a piece of a character too; joined, the
// bytes of an answer are its text.
func TestNamesOfTokens(t *testing.T) {
	e := bytesEngine{}
	lp := func(chosen int32, ids ...int32) client.Logprob {
		out := client.Logprob{ID: chosen, Logprob: -1}
		for _, id := range ids {
			out.Top = append(out.Top, sample.Alternative{ID: id, Logprob: -2})
		}
		return out
	}
	lps := []client.Logprob{lp(0xf0, 0xf0, 0xe2, 0xf1), lp(0x9f, 0x9f, 'a'), lp(0x98), lp(0x80), lp(0)}
	text := completionLogprobs{e: e}
	text.add(lps, 0, false)
	want := []string{`bytes:\xf0`, `bytes:\x9f`, `bytes:\x98`, `bytes:\x80`, "</s>"}
	if !slices.Equal(text.Tokens, want) || len(*text.TopLogprobs[0]) != 3 || (*text.TopLogprobs[0])[`bytes:\xe2`] != -2 {
		t.Errorf("%q, %v", text.Tokens, text.TopLogprobs)
	}
	chat, joined := chatLogprobs(e, lps, true), []byte{}
	for i, x := range chat.Content {
		for _, b := range x.Bytes {
			joined = append(joined, byte(b))
		}
		if x.Token != want[i] || x.TopLogprobs == nil {
			t.Errorf("%+v", x)
		}
	}
	if string(joined) != "\U0001F600" || chat.Content[4].Bytes != nil {
		t.Errorf("the bytes are %q", joined)
	}
	b, _ := json.Marshal(chatLogprobs(e, lps[:1], true).Content[0])
	if !strings.Contains(string(b), `"bytes":[240]`) {
		t.Errorf("%s", b)
	}
	if b, _ = json.Marshal(chatLogprobs(e, []client.Logprob{lp('a')}, true)); !strings.Contains(string(b), `"top_logprobs":[]`) {
		t.Errorf("%s", b)
	}
	twins := tokenNames{twinEngine{e}, map[string]int32{}}
	if got := []string{twins.of(5), twins.of(6), twins.of(7), twins.of(6)}; !slices.Equal(got, []string{"x", `bytes:\x78`, "token_id:7", `bytes:\x78`}) {
		t.Errorf("twins are named %q", got)
	}
}

// twinEngine has the same bytes for every token.
type twinEngine struct{ api.Engine }

func (twinEngine) TokenBytes(int32, bool) []byte { return []byte("x") }
