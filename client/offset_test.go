package client

import (
	"strings"
	"testing"
	"unicode/utf8"

	"whorl/client/sample"
	"whorl/model/tokenizer"
)

// Offsets of ids lie in the text and rise; the bytes of the ids are the text; and what is told
// in parts is what the whole has, whatever stop text takes an end away.
func TestOffsets(t *testing.T) {
	for _, name := range []string{"gpt2", "llama2", "llama3"} {
		tok := readTokenizer(t, name)
		for _, text := range []string{"a \U0001F600 b\U0001F468\u200D\U0001F469 c", "plain words the end", "é\U0001F600the\U0001F600", "th th the"} {
			ids, err := tok.Encode(text, tokenizer.EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, stops := range [][]string{nil, {"the"}, {"\U0001F600"}, {"he end"}, {" b"}} {
				checkOffsets(t, textTurn(tok, Request{Stop: stops, MaxNewTokens: len(ids)}), ids)
			}
		}
	}
}

func checkOffsets(t *testing.T, q *turn, ids []int32) {
	t.Helper()
	tok := q.s.e.cfg.Tokenizer
	q.text = newTexter(tok, nil, q.r)
	told, shown := 0, ""
	q.emit = func(d Delta) error {
		if shown += d.Text; len(d.Logprobs) != len(d.IDs) {
			t.Errorf("%d logprobs of %d ids", len(d.Logprobs), len(d.IDs))
		}
		for _, lp := range d.Logprobs {
			if told++; lp.Offset > utf8.RuneCountInString(shown) {
				t.Errorf("offset %d in %q", lp.Offset, shown)
			}
		}
		return nil
	}
	for _, id := range ids {
		q.measured(sample.Logprob{ID: id})
		if done, err := q.accept(id); err != nil {
			t.Fatal(err)
		} else if done {
			break
		}
	}
	res := q.res
	if res.Text != shown || told != len(res.IDs) || len(res.Logprobs) != told {
		t.Errorf("%q of %q, %d of %d ids told", shown, res.Text, told, len(res.IDs))
	}
	runes, last := []rune(res.Text), 0
	var joined []byte
	for i, lp := range res.Logprobs {
		if lp.ID != res.IDs[i] || lp.Offset < last || lp.Offset > len(runes) {
			t.Fatalf("id %d at %d after %d of %d characters", lp.ID, lp.Offset, last, len(runes))
		}
		last = lp.Offset
		b := tok.TokenBytes(lp.ID, i == 0)
		if joined = append(joined, b...); utf8.Valid(b) && lp.Offset < len(runes) {
			rest := string(runes[lp.Offset:])
			if !strings.HasPrefix(rest, string(b)) && !strings.HasPrefix(string(b), rest) {
				t.Errorf("%q of %q does not begin at %d", b, res.Text, lp.Offset)
			}
		}
	}
	if want := res.Text + res.StopMatch; !strings.HasPrefix(string(joined), want) {
		t.Errorf("ids of %q are put together as %q", want, joined)
	}
}
