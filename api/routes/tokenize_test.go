package routes

import (
	"strings"
	"testing"
)

// Texts and conversations to ids, and back.
func TestTokenize(t *testing.T) {
	public := newBench(t, nil).api.Public()
	for _, c := range []struct{ path, body, want string }{
		{"tokenize", `{"prompt":"ab"}`, `{"count":3,"max_model_len":256,"tokens":[1,97,98]}`},
		{"tokenize", `{"prompt":"ab","add_special_tokens":false,"return_token_strs":true}`, `{"count":2,"max_model_len":256,"token_strs":["a","b"],"tokens":[97,98]}`},
		{"tokenize", `{"prompt":"","model":"org/toy"}`, `{"count":0,"max_model_len":256,"tokens":[]}`},
		{"tokenize", `{"messages":[{"role":"user","content":"x"}]}`, `{"count":9,"max_model_len":256,"tokens":[1,60,117,62,120,10,60,97,62]}`},
		{"tokenize", `{"prompt":"é","add_special_tokens":false,"return_token_strs":true}`, `"token_strs":["bytes:\\xc3","bytes:\\xa9"]`},
		{"tokenize", `{}`, "give either prompt or messages"},
		{"tokenize", `{"prompt":"a","messages":[{"role":"user"}]}`, "give either prompt or messages"},
		{"tokenize", `{"prompt":"a","model":"none"}`, "model_not_found"},
		{"tokenize", `{"messages":[{"role":"user"}],"add_generation_prompt":false}`, "add_generation_prompt is not supported"},
		{"detokenize", `{"tokens":[1,97,98.0]}`, `{"prompt":"\u003cs\u003eab"}`},
		{"detokenize", `{"tokens":[]}`, `{"prompt":""}`},
		{"detokenize", `{"tokens":[256]}`, "outside the vocabulary of 256"},
		{"detokenize", `{"prompt":"a"}`, "tokens is missing"},
	} {
		if w := do(public, "POST", "/"+c.path, c.body); !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: status %d, %s", c.path, c.body, w.Code, w.Body)
		}
	}
}
