package routes

import (
	"fmt"
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
		{"tokenize", `{"prompt":"</s>","add_special_tokens":false}`, `{"count":1,"max_model_len":256,"tokens":[0]}`},
		{"tokenize", `{"prompt":"</s>","add_special_tokens":true}`, `"tokens":[1,60,47,115,62]`},
		{"tokenize", `{"prompt":"a</s>","add_special_tokens":false}`, `"tokens":[97,60,47,115,62]`},
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

// What an evaluation harness asks of a tokenizer that it does not have.
func TestTokenizerInfo(t *testing.T) {
	b := newBench(t, nil)
	const want = `{"bos_token":"\u003cs\u003e","chat_template":%s,"eos_token":"\u003c/s\u003e","model":"org/toy","model_max_length":256,"pad_token":null,"tokenizer_class":"BPE","unk_token":null,"vocab_size":256}`
	for template, written := range map[string]string{"": "null", "{{ x }}": `"{{ x }}"`} {
		b.engine.template = template
		if w := do(b.api.Public(), "GET", "/tokenizer_info", ""); strings.TrimSpace(w.Body.String()) != fmt.Sprintf(want, written) {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	}
}
