package routes

import (
	"fmt"
	"testing"

	"whorl/api"
)

// Limits of users change while the node answers.
func TestCaps(t *testing.T) {
	b := newBench(t, nil)
	ask := func(n int) int {
		return do(b.api.Public(), "POST", "/v1/completions", fmt.Sprintf(`{"prompt":"x","max_tokens":1,"n":%d,"temperature":1}`, n)).Code
	}
	if code := ask(3); code != 200 {
		t.Errorf("3 answers: status %d", code)
	}
	b.api.Cap(func(c *api.Caps) { c.Answers = 2 })
	if code := ask(3); code != 400 {
		t.Errorf("3 answers where 2 are allowed: status %d", code)
	}
	if code := ask(2); code != 200 {
		t.Errorf("2 answers: status %d", code)
	}
}
