package swarmtest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"whorl/client"
	"whorl/client/grammar"
	"whorl/client/sample"
	"whorl/internal/schematest"
	"whorl/model/tokenizer"
	"whorl/swarm"
)

// formed starts a swarm of TOY whose client has its tokenizer.
func (r *real) formed(n, copies int) (*World, *client.Engine) {
	r.t.Helper()
	tok, err := tokenizer.OpenFolder(toy)
	if err != nil {
		r.t.Fatal(err)
	}
	w, head := r.world(n, copies, 1), r.head(1)
	return w, w.Engine(head, head.Vocab(), func(c *client.Config) { c.MaxLength, c.Tokenizer = r.ck.Config.LongestSession(), tok })
}

// ask has an answer of a form drawn.
func ask(t *testing.T, e *client.Engine, r client.Request, emit func(*client.Session) func(client.Delta) error) client.Result {
	t.Helper()
	var err error
	if r.Prompt, err = e.Encode("An answer: ", true); err != nil {
		t.Fatal(err)
	}
	s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: len(r.Prompt) + r.MaxNewTokens})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var hear func(client.Delta) error
	if emit != nil {
		hear = emit(s)
	}
	res, err := s.Generate(t.Context(), r, hear)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A model of noise gives only valid answers to schemas, whatever the seed; what must come is taken
// without asking the chain.
func TestFormsOfToy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := openModel(t, toy).formed(2, 1)
		for _, schema := range []string{
			`{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150},"kind":{"enum":["person","company"]}},"required":["name","age","kind"],"additionalProperties":false}`,
			`{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"},"on":{"type":"boolean"}},"required":["x"]},"minItems":1,"maxItems":3}`,
			`{"type":"string","format":"date-time"}`,
			`{"anyOf":[{"type":"null"},{"type":"string","pattern":"^[a-z]{2,5}é$"}]}`,
		} {
			g, err := e.Grammar(grammar.Spec{Schema: json.RawMessage(schema)})
			if err != nil {
				t.Fatal(err)
			}
			judge, err := schematest.NewJudge([]byte(schema), true)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(6) {
				r := client.Request{MaxNewTokens: 160, Grammar: g, TopLogprobs: -1, Sampling: sample.Params{Temperature: 1.5, Seed: seed, MinNewTokens: 1}}
				res := ask(t, e, r, nil)
				if res.Finish == client.FinishLength {
					continue // numbers may be long
				}
				err := judge.Check(res.Text)
				if err != nil || res.Finish != client.FinishEOS {
					t.Errorf("%s: %q, %s: %v", schema, res.Text, res.Finish, err)
				}
				// Asking for log-probabilities asks the chain for every id: the text is still of the form.
				r.TopLogprobs = 0
				if slow := ask(t, e, r, nil); len(slow.Logprobs) != len(slow.IDs) {
					t.Errorf("%d log-probabilities of %d ids", len(slow.Logprobs), len(slow.IDs))
				}
			}
		}
	})
}

// Every schema of the public suite that is not refused by a keyword of it: what TOY says to it is
// valid by another validator, whatever the seed.
func TestSuiteOfToy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := openModel(t, toy).formed(1, 1)
		taken, answers := 0, 0
		for _, c := range schematest.Groups(t) {
			g, err := e.Grammar(grammar.Spec{Schema: c.Schema})
			if err != nil {
				var r *grammar.Refusal
				if !errors.As(err, &r) || r.Keyword != "schema" && !strings.Contains(string(c.Schema), `"`+r.Keyword+`"`) {
					t.Errorf("%s: refused, but not for a keyword that it has: %v", c.String(), err)
				}
				continue
			}
			taken++
			judge, err := schematest.NewJudge(c.Schema, false)
			if err != nil {
				continue
			}
			for seed := range uint64(3) {
				res := ask(t, e, client.Request{MaxNewTokens: 80, Grammar: g, TopLogprobs: -1, Sampling: sample.Params{Temperature: 1.5, Seed: seed, MinNewTokens: 1}}, nil)
				if res.Finish == client.FinishLength {
					continue
				}
				answers++
				if err := judge.Check(res.Text); err != nil {
					t.Errorf("%s: seed %d: %s: %v", c.String(), seed, c.Schema, err)
				}
			}
		}
		t.Logf("%d schemas taken, %d answers", taken, answers)
		if taken < 140 || answers < taken {
			t.Errorf("%d schemas are taken, and %d answers came to their end", taken, answers)
		}
	})
}

// Servers that die in an answer of a form change none of its ids.
func TestFormsAreReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := openModel(t, toy).formed(3, 2)
		g, err := e.Grammar(grammar.Spec{Schema: json.RawMessage(`{"type":"object","properties":{"temperature":{"type":"string","minLength":6,"maxLength":9},"description":{"type":"string","minLength":6,"maxLength":9}},"required":["temperature","description"]}`)})
		if err != nil {
			t.Fatal(err)
		}
		r := client.Request{MaxNewTokens: 120, Grammar: g, TopLogprobs: -1, Sampling: sample.Params{Temperature: 1, Seed: 3}}
		want := ask(t, e, r, nil)
		steps, killed := 0, 0 // killed counts spans: of each one holder dies and one is left
		got := ask(t, e, r, func(s *client.Session) func(client.Delta) error {
			return func(client.Delta) error {
				steps++
				route := s.Route() // without stages that are being replaced
				if steps >= 3+5*killed && killed < 3 && len(route) == 3 {
					w.Server(route[killed].Peer).Node.Kill()
					killed++
				}
				return nil
			}
		})
		if got.Reroutes < 2 || !slices.Equal(got.IDs, want.IDs) || got.Text != want.Text {
			t.Errorf("after %d re-routes, of at least 2: %q, want %q", got.Reroutes, got.Text, want.Text)
		}
	})
}

// What cannot go with a form is refused.
func TestFormsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := openModel(t, toy).formed(1, 1)
		g, err := e.Grammar(grammar.Spec{Object: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.Open(t.Context(), client.SessionOptions{MaxLength: 64, Beams: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for field, r := range map[string]client.Request{"num_beams": {Beams: sample.BeamParams{Beams: 2, Return: 1}}, "ignore_eos": {IgnoreEOS: true}} {
			r.Prompt, r.MaxNewTokens, r.Grammar, r.TopLogprobs = []int32{5}, 4, g, -1
			if _, err := s.Generate(t.Context(), r, nil); swarm.CodeOf(err) != swarm.CodeBadRequest || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

// The mean of hidden states is the same bits whoever holds the blocks, that of one token is the
// norm's output, and a text of more than one chunk has one too.
func TestMeans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openModel(t, toy)
		var want [][]float32
		for _, servers := range []int{1, 3} {
			_, e := r.formed(servers, 1)
			for i, ids := range [][]int32{{5}, prompt(60, 4), prompt(200, 6)} {
				got, err := e.Mean(t.Context(), ids)
				if err != nil {
					t.Fatal(err)
				}
				var length float64
				for _, x := range got {
					length += float64(x) * float64(x)
				}
				if servers == 1 {
					want = append(want, got)
				}
				if !slices.Equal(got, want[i]) || length < 1e-3 {
					t.Errorf("%d servers, %d ids: length %v, or other bits than with one server", servers, len(ids), length)
				}
			}
		}
	})
}
