package client

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"whorl/internal/fixture"
	"whorl/model/tokenizer"
)

// readTokenizer is one of package tokenizer's fixtures.
func readTokenizer(t *testing.T, name string) *tokenizer.Tokenizer {
	t.Helper()
	type golden struct {
		Tokenizer json.RawMessage `json:"tokenizer"`
	}
	tok, err := tokenizer.LoadJSON(fixture.JSON[golden](t, "../model/tokenizer/testdata/"+name+".json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// textTurn is a turn that has nothing but what texts depend on.
func textTurn(tok *tokenizer.Tokenizer, r Request) *turn {
	return &turn{s: &Session{e: &Engine{cfg: Config{Tokenizer: tok, EOS: []int32{2}}}}, r: r}
}

// stopOf is the stop text that a whole answer ends with, found from its first id on.
func stopOf(t *turn, ids []int32) string {
	x := newTexter(t.s.e.cfg.Tokenizer, t.s.e.cfg.EOS, t.r)
	for _, id := range ids {
		if x.isEnd(id) && !t.r.Special {
			break
		}
		if _, match := x.push(id); match != "" {
			return match
		}
	}
	_, match := x.flush()
	return match
}

// Whatever the sequences of a search are, and however they part: what is known of a text at
// each step equals what all its ids give.
func TestAnswerTextEqualsWholeText(t *testing.T) {
	for _, name := range []string{"llama2", "gpt2"} { // byte fallback with a stripped start, byte level
		tok := readTokenizer(t, name)
		hits := 0
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 3))
			q := textTurn(tok, Request{Stop: []string{"e", " th", "\uFFFD\uFFFD", "é", "n the"}[:1+r.IntN(5)], Special: seed%2 == 0, IgnoreEOS: seed%3 == 0})
			if seed%4 > 0 {
				q.r.Stop = q.r.Stop[len(q.r.Stop)-1:]
			}
			const beams = 3
			texts, whole := []answerText{q.answerText()}, [][]int32{nil}
			for step := range 30 {
				for i := range whole {
					for range 8 {
						id := int32(r.IntN(min(300, tok.VocabSize())))
						want := stopOf(q, append(whole[i][:step:step], id)) != ""
						if got := texts[i].stopsWith(id); got != want {
							t.Fatalf("%s, stops %q: id %d after %v: a stop %v, want %v", name, q.r.Stop, id, whole[i], got, want)
						}
						if want {
							hits++
						}
					}
				}
				ids, parents, next := make([]int32, beams), make([]uint8, beams), make([][]int32, beams)
				for i := range beams {
					ids[i], parents[i] = int32(r.IntN(min(300, tok.VocabSize()))), uint8(r.IntN(len(whole)))
					next[i] = append(whole[parents[i]][:step:step], ids[i])
				}
				texts, whole = grow(texts, ids, parents), next
			}
			for _, ids := range whole {
				if _, _, match := q.render(ids); match != stopOf(q, ids) {
					t.Errorf("%s: %v ends with %q, want %q", name, ids, match, stopOf(q, ids))
				}
			}
		}
		if hits < 100 {
			t.Errorf("%s: %d stops were met: too few to prove anything", name, hits)
		}
	}
}

// A candidate costs the same after two thousand ids as after ten.
func TestAnswerTextCostsWhatTheIDCosts(t *testing.T) {
	tok := readTokenizer(t, "llama2")
	q := textTurn(tok, Request{Stop: []string{"never to be found"}})
	ids, err := tok.Encode("a word and another ", tokenizer.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var costs []float64
	for _, n := range []int{10, 2000} {
		texts := []answerText{q.answerText()}
		for i := range n {
			texts = grow(texts, ids[i%len(ids):][:1], []uint8{0})
		}
		costs = append(costs, testing.AllocsPerRun(20, func() { texts[0].stopsWith(ids[0]) }))
	}
	if costs[0] != costs[1] {
		t.Errorf("a candidate takes %v allocations after 10 ids and %v after 2000", costs[0], costs[1])
	}
}
