package routes

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/answers"
	"whorl/internal/keys"
)

// brokenShelf cannot be reached.
type brokenShelf struct{ answers.None }

var errShelf = errors.New("database: dial tcp: connection refused")

func (brokenShelf) Put(context.Context, answers.Answer) (bool, error) { return false, errShelf }
func (brokenShelf) Get(context.Context, string, string, time.Time) ([]byte, error) {
	return nil, errShelf
}
func (brokenShelf) Drop(context.Context, string, string) error { return errShelf }

// What a key asked is read, gone on from and forgotten with that key and no other, without a key
// and with the operator's token neither; and after the gateway was started anew too, where its
// shelf is still there.
func TestResponsesOfKeys(t *testing.T) {
	shelf := answers.NewMemory(answers.MemoryLimits())
	secret := map[string]string{"operator": "the operator's own"}
	var ring *keys.Ring
	gateway := func() *bench {
		return newBench(t, func(c *api.Config) {
			if c.Kept = shelf; ring == nil {
				ring = c.Keys
				for _, name := range []string{"ann", "bob"} {
					secret[name] = addKey(t, ring, name, keys.Limits{}, time.Time{}, keys.Infer)
				}
			}
			c.Keys, c.Public = ring, api.Listener{Token: secret["operator"], Keys: true}
		})
	}
	b := gateway()
	ask := func(who, method, path, body string) (int, string) {
		w := do(b.api.Public(), method, path, body, "Authorization: Bearer "+secret[who])
		return w.Code, w.Body.String()
	}
	create := func(who, body string) (r gen.Response) {
		t.Helper()
		code, text := ask(who, "POST", "/v1/responses", body)
		if err := json.Unmarshal([]byte(text), &r); err != nil || code != 200 {
			t.Fatalf("%s: status %d: %s", who, code, text)
		}
		return r
	}
	b.engine.says = "Yes"
	one := create("ann", `{"input":"m"}`)
	for round := range 2 {
		for who, want := range map[string]int{"ann": 200, "bob": 404, "operator": 404} {
			for _, path := range []string{"/v1/responses/" + one.Id, "/v1/responses/" + one.Id + "/input_items"} {
				if code, text := ask(who, "GET", path, ""); code != want {
					t.Errorf("round %d: %s reads %s: status %d: %s", round, who, path, code, text)
				}
			}
			if who != "ann" {
				if code, text := ask(who, "DELETE", "/v1/responses/"+one.Id, ""); code != 404 {
					t.Errorf("round %d: %s forgets it: status %d: %s", round, who, code, text)
				}
			}
			code, text := ask(who, "POST", "/v1/responses", `{"input":"n","store":false,"previous_response_id":"`+one.Id+`"}`)
			if want == 404 && (code != 400 || !strings.Contains(text, "no such response")) || want == 200 && code != 200 {
				t.Errorf("round %d: %s goes on from it: status %d: %s", round, who, code, text)
			}
		}
		b = gateway() // started anew
		b.engine.says = "Yes"
	}
	two := create("ann", `{"input":"n","previous_response_id":"`+one.Id+`"}`)
	turns := b.engine.requests()
	if prompt := b.engine.Decode(turns[len(turns)-1].Prompt); !strings.HasSuffix(prompt, "<u>m\n<a>Yes\n<u>n\n<a>") || !two.Store {
		t.Errorf("after a start it goes on from %q", prompt)
	}
}

// Where nothing can be kept an answer is told nevertheless, and says that it is not kept.
func TestResponsesThatAreNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		shelf answers.Shelf
		code  int // of a look for one
	}{
		"nothing is": {answers.None{}, 404}, "the database is away": {brokenShelf{}, 503},
		"it is too large": {answers.NewMemory(answers.Limits{Age: time.Hour, Count: 8, Bytes: 2000, Share: 4}), 404},
	} {
		b := newBench(t, func(cfg *api.Config) { cfg.Kept = c.shelf })
		b.engine.says = "Yes"
		one, _ := response(t, b, b.api.Public(), `{"input":"m"}`)
		if one.Store || texts(one) != "message Yes" {
			t.Errorf("%s: %s", name, jsonOf(one))
		}
		w := do(b.api.Public(), "POST", "/v1/responses", `{"input":"m","stream":true}`)
		if last := w.Body.String(); !strings.Contains(last[strings.LastIndex(last, "event: "):], `"store":false`) {
			t.Errorf("%s: streamed, it says that it is kept: %s", name, last)
		}
		for _, path := range []string{"/v1/responses/" + one.Id, "/v1/responses/" + one.Id + "/input_items"} {
			pattern := strings.Replace(path, one.Id, "{id}", 1)
			w := do(b.api.Public(), "GET", path, "")
			conforms(t, b.doc, "GET", pattern, w)
			if w.Code != c.code || w.Code == 503 && (w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "resp_")) {
				t.Errorf("%s: GET %s: status %d: %s", name, path, w.Code, w.Body)
			}
		}
		if w := do(b.api.Public(), "DELETE", "/v1/responses/"+one.Id, ""); w.Code != c.code {
			t.Errorf("%s: DELETE: status %d: %s", name, w.Code, w.Body)
		}
		if w := do(b.api.Public(), "POST", "/v1/responses", `{"input":"m","previous_response_id":"`+one.Id+`"}`); w.Code != map[int]int{404: 400, 503: 503}[c.code] {
			t.Errorf("%s: previous_response_id: status %d: %s", name, w.Code, w.Body)
		}
	}
}

// A stored response is told whole: there is no stream of it to go on with.
func TestStoredResponseIsNoStream(t *testing.T) {
	b := newBench(t, nil)
	one, _ := response(t, b, b.api.Public(), `{"input":"m"}`)
	for query, want := range map[string]int{"?stream=true": 400, "?stream=true&starting_after=3": 400, "?starting_after=3": 400, "?stream=false&include=a&include_obfuscation=true": 200} {
		w := do(b.api.Public(), "GET", "/v1/responses/"+one.Id+query, "")
		conforms(t, b.doc, "GET", "/v1/responses/{id}", w)
		if w.Code != want || want == 400 && !strings.Contains(w.Body.String(), `"param":"stream"`) {
			t.Errorf("%s: status %d: %s", query, w.Code, w.Body)
		}
	}
}
