package routes

import (
	"strings"
	"testing"
)

// FuzzRequest: whatever comes as a body is a request that the sampler takes, or an error
// of the caller's.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"a","max_tokens":3,"temperature":0.5,"stop":["x"],"seed":-1}`, `{"prompt":[[1,2],[3]],"n":2}`, `{"prompt":null}`, `{"prompt":[1,"a"]}`,
		`{"prompt":"a","num_beams":3,"n":2,"early_stopping":"never","logit_bias":{"5":1},"bad_words":["x"]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[],"top_p":0}`, `{"messages":[null]}`, `[]`, `{"seed":1e300,"prompt":"a"}`, `{"max_tokens":1e2,"prompt":"a"}`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"a":[` + strings.Repeat(`[],{"a":0},`, 500) + `1]}],"chat_template_kwargs":{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":[` + strings.Repeat("0,", 500) + `0]}"}}]}]}`,
		`{"prompt":[` + strings.Repeat("[1],", 500) + `[1]]}`,
	} {
		f.Add([]byte(s))
	}
	fuzzBodies(f, "/v1/completions", "/v1/chat/completions")
}

// FuzzMessages: the same, in Anthropic's form.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"max_tokens":3,"messages":[{"role":"user","content":"a"}],"temperature":0.5,"top_k":-1,"top_p":0,"stop_sequences":["x"]}`,
		`{"max_tokens":3,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"user","content":null},{"role":"assistant","content":""},{"role":"user","content":"b"}],"stream":true}`,
		`{"max_tokens":1e2,"messages":[{"role":"assistant","content":"a"}],"thinking":{"type":"enabled"}}`, `{"messages":[null]}`, `{"messages":{},"tools":[1]}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	fuzzBodies(f, "/v1/messages", "/v1/messages/count_tokens")
}

// FuzzOllama: the same, in Ollama's form.
func FuzzOllama(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"a"}],"options":{"temperature":0.5,"top_k":-1,"top_p":0,"min_p":0.1,"repeat_penalty":1.1,"seed":-1,"stop":"x","num_predict":3.0}}`,
		`{"prompt":"a","raw":true,"stream":false,"options":{"num_predict":-2,"mirostat":0}}`, `{"prompt":"a","system":"s","think":true}`, `{"messages":[null],"options":[]}`,
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"7"}],"think":"high"}`, `{}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	fuzzBodies(f, "/api/chat", "/api/generate", "/api/show")
}

// FuzzResponses: the same, in the form of the Responses API.
func FuzzResponses(f *testing.F) {
	for _, s := range []string{
		`{"input":"a","max_output_tokens":2,"temperature":0.5,"top_p":0,"store":false,"stream":true}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"7"}],"instructions":"s"}`,
		`{"input":"a","previous_response_id":"resp_x"}`, `{"input":"a","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}}`,
		`{"input":"a","tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{}}}],"tool_choice":"required"}`,
		`{"input":[null],"include":[1],"reasoning":{"effort":"x"}}`, `{"input":[{"type":"item_reference","id":"x"}],"truncation":"auto","background":true}`, `{"input":{}}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	fuzzBodies(f, "/v1/responses")
}

// FuzzTexts: the same, of what is asked about texts without an answer.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{
		`{"input":"a"}`, `{"input":[[1,2],[3]],"encoding_format":"base64","normalize":true}`, `{"input":["a",""]}`, `{"prompt":"a","add_special_tokens":false}`,
		`{"messages":[{"role":"user","content":"a"}],"return_token_strs":true}`, `{"tokens":[1,-1,99999999999]}`, `{"text_1":"a","text_2":["b",null]}`, `{"tokens":{}}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	fuzzBodies(f, "/v1/embeddings", "/tokenize", "/detokenize", "/v1/score")
}

// fuzzBodies sends bodies to paths.
func fuzzBodies(f *testing.F, paths ...string) {
	b := newBench(f, nil)
	public := b.api.Public()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range paths {
			b.engine.turns, b.engine.opened = nil, nil
			switch w := do(public, "POST", path, string(body)); {
			case w.Code == 200, w.Code == 504: // by a timeout that it asks for
				for _, r := range b.engine.requests() {
					if err := r.Validate(fakeVocab); err != nil || len(r.Prompt)+r.MaxNewTokens > fakeLimit {
						t.Errorf("accepted %+v: %v", r, err)
					}
				}
			case w.Code < 400 || w.Code > 499:
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		}
	})
}
