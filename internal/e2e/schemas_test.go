//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"whorl/internal/schematest"
)

// schemasOfSuite asks a model for answers by schemas of the public suite, as a client does. What is
// taken gives only valid answers; what is refused is refused by a keyword that it has. `make test`
// asks for a drawn part; WHORL_SUITE_SEEDS=n asks for all, n times each.
func schemasOfSuite(t *testing.T, s *swarm) {
	groups := schematest.Groups(t)
	seeds, _ := strconv.Atoi(os.Getenv("WHORL_SUITE_SEEDS"))
	if seeds < 1 {
		rng := rand.New(rand.NewPCG(18, 1))
		rng.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		groups, seeds = groups[:24], 1
	}
	var mu sync.Mutex
	taken, refused, answers := 0, 0, 0
	places := make(chan struct{}, 4)
	var group sync.WaitGroup
	for _, g := range groups {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			judge, _ := schematest.NewJudge(g.Schema, false)
			for seed := range seeds {
				text, finish, refusal := s.formed(t, &g, seed)
				mu.Lock()
				switch {
				case refusal != "":
					refused++
					if !refusedByKeyword(refusal, string(g.Schema)) {
						t.Errorf("%s: %s: refused, but by no keyword that it has: %s", g.String(), g.Schema, refusal)
					}
				case finish == "stop" && judge != nil:
					answers++
					if err := judge.Check(text); err != nil {
						t.Errorf("%s: seed %d: %s: %v", g.String(), seed, g.Schema, err)
					}
				}
				if refusal == "" && seed == 0 {
					taken++
				}
				mu.Unlock()
				if refusal != "" {
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("of %d schemas %d are taken and %d refused by a keyword; %d answers are valid", len(groups), taken, refused, answers)
	if answers < taken/2 || taken == 0 || refused == 0 {
		t.Errorf("only %d answers came to their end", answers)
	}
}

// formed is an answer by a schema, and how it ended; or why it was refused.
func (s *swarm) formed(t *testing.T, g *schematest.Group, seed int) (text, finish, refusal string) {
	body, err := json.Marshal(map[string]any{
		"messages":        []any{map[string]any{"role": "user", "content": "Give me a short JSON value: " + g.Description}},
		"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "value", "strict": true, "schema": g.Schema}},
		"max_tokens":      64, "seed": seed, "temperature": 1,
	})
	if err != nil {
		t.Error(err)
		return "", "", ""
	}
	resp, err := http.Post(s.gateway.HTTP+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return "", "", ""
	}
	defer resp.Body.Close()
	var out struct {
		Error   struct{ Message, Param string }
		Choices []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Errorf("%s: status %d: %v", g.String(), resp.StatusCode, err)
		return "", "", ""
	}
	switch {
	case resp.StatusCode == http.StatusBadRequest && out.Error.Param == "response_format":
		return "", "", out.Error.Message
	case resp.StatusCode != http.StatusOK || len(out.Choices) != 1:
		t.Errorf("%s: status %d: %s", g.String(), resp.StatusCode, fmt.Sprint(out))
		return "", "", ""
	}
	return out.Choices[0].Message.Content, out.Choices[0].FinishReason, ""
}

// refusedByKeyword tells whether a refusal names a keyword of the schema, or says that no value is
// valid.
func refusedByKeyword(refusal, schema string) bool {
	if strings.Contains(refusal, "no value is valid") {
		return true
	}
	for word := range strings.FieldsFuncSeq(refusal, func(r rune) bool {
		return !strings.ContainsRune("$abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	}) {
		if len(word) > 1 && word != "schema" && strings.Contains(schema, `"`+word+`"`) {
			return true
		}
	}
	return false
}
