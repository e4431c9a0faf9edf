package openai

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// tokenNames gives tokens names, in which no two of one position are alike.
type tokenNames struct {
	e     api.Engine
	taken map[string]int32 // of the position
}

// of is a token's text; the bytes of one that is no text, or looks like another one; else its
// id.
func (n *tokenNames) of(id int32) string {
	raw := n.e.TokenBytes(id, false)
	names := []string{n.e.TokenText(id), fmt.Sprintf("token_id:%d", id)}
	if raw != nil {
		names = slices.Insert(names, 1, spelled(raw))
		if names[0] = string(raw); !utf8.Valid(raw) {
			names = names[1:]
		}
	}
	for _, name := range names {
		if other, twice := n.taken[name]; !twice || other == id {
			n.taken[name] = id
			return name
		}
	}
	return names[len(names)-1]
}

// spelled writes bytes as the API that these routes follow does.
func spelled(b []byte) string {
	var sb strings.Builder
	sb.WriteString("bytes:")
	for _, c := range b {
		fmt.Fprintf(&sb, `\x%02x`, c)
	}
	return sb.String()
}

// chatLogprobs is the chat form of log-probabilities, nil if there are none. first says that
// they begin an answer.
func chatLogprobs(e api.Engine, lps []client.Logprob, first bool) *gen.ChatLogprobs {
	if lps == nil {
		return nil
	}
	out := &gen.ChatLogprobs{Content: []gen.ContentLogprob{}}
	for i, lp := range lps {
		names := tokenNames{e, map[string]int32{}}
		token := func(id int32, logprob float64) gen.TokenLogprob {
			return gen.TokenLogprob{Token: names.of(id), Logprob: logprob, Bytes: tokenBytes(e, id, first && i == 0)}
		}
		chosen := token(lp.ID, lp.Logprob)
		t := gen.ContentLogprob{Token: chosen.Token, Logprob: chosen.Logprob, Bytes: chosen.Bytes, TopLogprobs: []gen.TokenLogprob{}}
		for _, alt := range lp.Top {
			t.TopLogprobs = append(t.TopLogprobs, token(alt.ID, alt.Logprob))
		}
		out.Content = append(out.Content, t)
	}
	return out
}

// tokenBytes are the bytes that a token adds to the text, nil for one that is not shown.
func tokenBytes(e api.Engine, id int32, first bool) []int {
	raw := e.TokenBytes(id, first)
	if raw == nil {
		return nil
	}
	out := []int{}
	for _, b := range raw {
		out = append(out, int(b))
	}
	return out
}

// completionLogprobs is the form of completions. nil is none.
type completionLogprobs struct {
	*gen.CompletionLogprobs
	e api.Engine
}

// add appends tokens that stand behind so many characters of the text. unmeasured says that
// the first one is after nothing.
func (c *completionLogprobs) add(lps []client.Logprob, behind int, unmeasured bool) {
	if lps == nil {
		return
	}
	if c.CompletionLogprobs == nil {
		c.CompletionLogprobs = &gen.CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []*float64{}, TopLogprobs: []*map[string]float64{}, TextOffset: []int{}}
	}
	for i, lp := range lps {
		names, top := tokenNames{c.e, map[string]int32{}}, map[string]float64{}
		c.Tokens = append(c.Tokens, names.of(lp.ID))
		c.TextOffset = append(c.TextOffset, behind+lp.Offset)
		if i == 0 && unmeasured {
			c.TokenLogprobs, c.TopLogprobs = append(c.TokenLogprobs, nil), append(c.TopLogprobs, nil)
			continue
		}
		for _, alt := range lp.Top {
			top[names.of(alt.ID)] = alt.Logprob
		}
		c.TokenLogprobs, c.TopLogprobs = append(c.TokenLogprobs, &lp.Logprob), append(c.TopLogprobs, &top)
	}
}
