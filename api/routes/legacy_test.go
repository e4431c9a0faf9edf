package routes

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"reflect"
	"slices"
	"strings"
	"testing"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client/sample"
	"whorl/swarm"
)

func generate(t *testing.T, b *bench, path, body string, headers ...string) gen.GenerateResult {
	t.Helper()
	w := do(b.api.Public(), "POST", path, body, headers...)
	conforms(t, b.doc, "POST", "/api/v1/generate", w)
	var out gen.GenerateResult
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	return out
}

// Form, query and JSON say the same.
// limitsTold is a sentence that clients know.
const limitsTold = "You should set `max_length` or `max_new_tokens` (but not both)"

func TestGenerateEncodings(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	var multi bytes.Buffer
	mw := multipart.NewWriter(&multi)
	mw.WriteField("inputs", "a")
	mw.WriteField("max_new_tokens", "3")
	mw.Close()
	for name, c := range map[string][3]string{
		"form":              {"", "inputs=a&max_new_tokens=3&do_sample=0&temperature=", form},
		"query":             {"?inputs=a&max_new_tokens=3", "", ""},
		"query and form":    {"?inputs=zzz&max_new_tokens=3", "inputs=a", form},
		"json":              {"", `{"inputs":"a","max_new_tokens":3,"model":"org/toy"}`, "application/json"},
		"json as text":      {"", `{"inputs":"a","max_new_tokens":"3","do_sample":"false"}`, "application/json; charset=utf-8"},
		"json sent as form": {"", `{"inputs":"a","max_new_tokens":3}`, form},
		"multipart":         {"", multi.String(), mw.FormDataContentType()},
		"total length":      {"", "inputs=a&max_length=5", form},
	} {
		t.Run(name, func(t *testing.T) {
			out := generate(t, newBench(t, nil), "/api/v1/generate"+c[0], c[1], "Content-Type: "+c[2])
			if !out.Ok || *out.Outputs != "bcd" || *out.StopReason != "length" || out.Usage.CompletionTokens != 3 || out.Route[0].Blocks != "0:8" || len(out.Warnings) > 0 {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestGenerateFailures(t *testing.T) {
	for _, c := range []struct {
		name, body  string
		code, param string
		phrase      string
	}{
		{"neither length", `{"inputs":"a"}`, "invalid_value", "max_new_tokens", limitsTold},
		{"both lengths", `{"inputs":"a","max_length":9,"max_new_tokens":3}`, "invalid_value", "max_new_tokens", limitsTold},
		{"temperature", `{"inputs":"a","max_new_tokens":3,"temperature":-1}`, "invalid_value", "temperature", "temperature"},
		{"top_p", `{"inputs":"a","max_new_tokens":3,"top_p":"1.5"}`, "invalid_value", "top_p", "1.5"},
		{"top_k", `{"inputs":"a","max_new_tokens":3,"top_k":"x"}`, "invalid_value", "top_k", "top_k"},
		{"repetition_penalty", `{"inputs":"a","max_new_tokens":3,"repetition_penalty":0}`, "invalid_value", "repetition_penalty", ""},
		{"a tiny penalty", `{"inputs":"a","max_new_tokens":3,"repetition_penalty":1e-300}`, "invalid_value", "repetition_penalty", "0.01 to 100"},
		{"an endless penalty", `{"inputs":"a","max_new_tokens":3,"repetition_penalty":"Inf"}`, "invalid_value", "repetition_penalty", "0.01 to 100"},
		{"not a number", `{"inputs":"a","max_new_tokens":"NaN"}`, "invalid_value", "max_new_tokens", ""},
		{"half a token", `{"inputs":"a","max_new_tokens":1.5}`, "invalid_value", "max_new_tokens", "whole"},
		{"seed", `{"inputs":"a","max_new_tokens":1,"seed":"x"}`, "invalid_value", "seed", ""},
		{"inputs", `{"inputs":{"a":1},"max_new_tokens":3}`, "invalid_value", "inputs", "an object"},
		{"empty", `{"inputs":"","max_new_tokens":3}`, "invalid_value", "inputs", "empty"},
		{"model", `{"inputs":"a","max_new_tokens":3,"model":"../x"}`, "model_not_found", "model", "org/toy"},
		{"over the context", `{"inputs":"abc","max_new_tokens":300}`, "max_length", "", "Maximum length exceeded: prefix 0 + prompt 4 + new 300 exceeds pre-allocated maximum 256"},
		{"max_length below the prompt", `{"inputs":"abc","max_length":4}`, "max_length", "", "Maximum length exceeded"},
		{"not JSON", `{"inputs":`, "invalid_value", "", "JSON"},
		{"many stops", `{"inputs":"a","max_new_tokens":3,"extra_stop_sequences":["` + strings.Repeat(`a","`, 20) + `"]}`, "invalid_value", "extra_stop_sequences", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			out := generate(t, b, "/api/v1/generate", c.body)
			if out.Ok || out.Error.Code != c.code || api.Value(out.Error.Param, "") != c.param || !strings.Contains(*out.Traceback, c.phrase) {
				t.Errorf("%+v %+v", out, out.Error)
			}
			if len(b.engine.opened) > 0 {
				t.Error("a session was opened")
			}
		})
	}
}

func TestGenerateSampling(t *testing.T) {
	for body, want := range map[string][5]float64{ // temperature, top-k, top-p, min-p, penalty
		`{}`:                                    {0, 0, 0, 0, 1},
		`{"temperature":0.7,"top_k":5}`:         {0, 0, 0, 0, 1}, // greedy without do_sample, with a warning
		`{"do_sample":1}`:                       {1, 0, 1, 0, 1},
		`{"do_sample":"1","temperature":"0.7"}`: {0.7, 0, 1, 0, 1},
		`{"do_sample":true,"top_k":-1,"top_p":0.9,"min_p":"0.1","repetition_penalty":1.2}`: {1, 0, 0.9, 0.1, 1.2},
		`{"do_sample":true,"top_p":0}`: {1, 1, 1, 0, 1},
	} {
		var m map[string]any
		json.Unmarshal([]byte(body), &m)
		m["inputs"], m["max_new_tokens"], m["seed"], m["what"] = "a", 1, json.Number("18446744073709551615"), 1
		whole, _ := json.Marshal(m)
		b := newBench(t, nil)
		out := generate(t, b, "/api/v1/generate", string(whole))
		s := b.engine.requests()[0].Sampling
		if got := [5]float64{s.Temperature, float64(s.TopK), s.TopP, s.MinP, s.RepetitionPenalty}; got != want || s.Seed != 1<<64-1 {
			t.Errorf("%s: got %+v", body, s)
		}
		if told := slices.Contains(out.Warnings, "temperature has no effect without do_sample"); told != (m["do_sample"] == nil && m["temperature"] != nil) {
			t.Errorf("%s: warnings %q", body, out.Warnings)
		}
		if !slices.Contains(out.Warnings, `the unknown field "what" was ignored`) {
			t.Errorf("%s: warnings %q", body, out.Warnings)
		}
	}
}

func TestGenerateSearch(t *testing.T) {
	b := newBench(t, nil)
	out := generate(t, b, "/api/v1/generate", `{"inputs":"a","max_new_tokens":4,"typical_p":0.5,"presence_penalty":"1","frequency_penalty":-1,
		"no_repeat_ngram_size":3,"min_new_tokens":2,"bad_words":"x","num_beams":"3","length_penalty":0.5,"early_stopping":"never"}`)
	r := b.engine.requests()[0]
	want := sample.Params{TypicalP: 0, PresencePenalty: 1, FrequencyPenalty: -1, NoRepeatNGram: 3, MinNewTokens: 2, BadWords: [][]int32{{'x'}},
		RepetitionPenalty: 1, Seed: r.Sampling.Seed}
	if !reflect.DeepEqual(r.Sampling, want) || r.Beams != (sample.BeamParams{Beams: 3, LengthPenalty: 0.5, Early: sample.EarlyNever, Return: 1}) {
		t.Errorf("%+v with %+v", r.Sampling, r.Beams)
	}
	if !out.Ok || api.Value(out.Outputs, "") != "bcde" || len(out.Warnings) > 0 || b.engine.opened[0].Beams != 3 {
		t.Errorf("%+v, opened %+v", out, b.engine.opened)
	}
	for body, param := range map[string]string{
		`"num_beams":33`: "num_beams", `"num_beams":2,"guidance_scale":2`: "guidance_scale", `"negative_prompt":"x"`: "guidance_scale", `"num_beams":2,"early_stopping":"soon"`: "early_stopping",
		`"num_beams":2,"early_stopping":7`: "early_stopping", `"presence_penalty":3`: "presence_penalty",
	} {
		out := generate(t, b, "/api/v1/generate", `{"inputs":"a","max_new_tokens":4,`+body+`}`)
		if out.Ok || api.Value(out.Error.Param, "") != param {
			t.Errorf("%s: %+v, %+v", body, out, out.Error)
		}
	}
}

// Stop texts are part of the answer, and so is an end token that is listed as one.
func TestGenerateStops(t *testing.T) {
	for _, c := range []struct {
		name, rest    string
		eosAfter      int
		text, reason  string
		match         string
		shownTokenIDs int
	}{
		{"stop_sequence", `"stop_sequence":"d"`, 0, "bcd", "stop", "d", 3},
		{"extra as string", `"extra_stop_sequences":"c"`, 0, "bc", "stop", "c", 2},
		{"extra as list", `"stop_sequence":"x","extra_stop_sequences":["c","d"]`, 0, "bc", "stop", "c", 2},
		{"end token listed", `"stop_sequence":"x","extra_stop_sequences":["</s>"]`, 2, "bc</s>", "stop", "</s>", 3},
		{"end token not listed", `"stop_sequence":"x"`, 2, "bc", "eos", "", 3},
		{"no stops: exactly the tokens asked for", `"what":0`, 2, "bcabc", "length", "", 6},
		{"unless it is wanted", `"ignore_eos":0`, 2, "bc", "eos", "", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.engine.eosAfter = c.eosAfter
			out := generate(t, b, "/api/v1/generate", `{"inputs":"a","max_new_tokens":6,"return_token_ids":1,`+c.rest+`}`)
			if *out.Outputs != c.text || string(*out.StopReason) != c.reason || api.Value(out.StopMatch, "") != c.match || len(out.TokenIds) != c.shownTokenIDs {
				t.Errorf("%q, %s, %q, ids %v", *out.Outputs, *out.StopReason, api.Value(out.StopMatch, ""), out.TokenIds)
			}
		})
	}
}

func TestState(t *testing.T) {
	b := newBench(t, nil)
	b.node.views = []swarm.View{fakeView(fakeRecord("12D3KooWshort", 0, 4, swarm.Online), fakeRecord("12D3KooWb", 0, 8, swarm.Draining))}
	wide := fakeManifest
	wide.Name, wide.Blocks = "org/wide", 12
	r := fakeRecord("12D3KooWwide", 0, 12, swarm.Online)
	r.Manifest = wide
	b.node.views = append(b.node.views, swarm.NewView(wide, b.node.views[0].At, []swarm.Record{r}))
	w := do(b.api.Public(), "GET", "/api/v1/state", "")
	conforms(t, b.doc, "GET", "/api/v1/state", w)
	var s gen.LegacyState
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.ModelReports[0].State != "broken" || s.ModelReports[1].State != "healthy" || s.ModelReports[1].ShortName != "wide" {
		t.Errorf("%+v", s.ModelReports)
	}
	if s.TopContributors["name of 12D3KooWwide"] != 12 || len(s.TopContributors) != 1 {
		t.Errorf("contributors %v", s.TopContributors)
	}
	if strings.Contains(w.Body.String(), "name of 12D3KooWshort") {
		t.Error("a name that is not shown is in the payload")
	}
	if row := s.ModelReports[0].ServerRows[0]; row.State != "offline" || row.ShortPeerId != "...3KooWb" || row.PingsToMe["12D3KooWshort"] != 0.002 {
		t.Errorf("%+v", row)
	}
}

func TestReady(t *testing.T) {
	b := newBench(t, nil)
	b.node.ready = map[string]error{"blocks": swarm.Errorf(swarm.CodeNotLoaded, swarm.Again, "3 of 8 blocks\nare loaded"), "swarm": nil}
	for path, status := range map[string]int{"/readyz": 503, "/readyz?exclude=blocks": 200, "/livez": 200} {
		w := do(b.api.Public(), "GET", path, "")
		if w.Code != status {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
		pattern, _, _ := strings.Cut(path, "?")
		conforms(t, b.doc, "GET", pattern, w)
	}
}
