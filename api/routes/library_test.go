package routes

import (
	"fmt"
	"strings"
	"testing"

	"whorl/client/sample"
)

// The settings of transformers that are done here arrive at the sampler by every route that has
// them, and those that would change an answer are refused by name.
func TestLibrarySettings(t *testing.T) {
	const done = `"top_h":0.5,"epsilon_cutoff":0.01,"eta_cutoff":0.02,"exponential_decay_length_penalty":[3,1.5],"suppress_tokens":[98],"begin_suppress_tokens":[99],` +
		`"forced_eos_token_id":100,"sequence_bias":[[[97,98],-2.5]],"max_time":7.5`
	const want = "0.5 0.01 0.02 3,1.5 98 99 100 [{[97 98] -2.5}] 7.5"
	routes := map[string]string{
		"/v1/completions":      `{"prompt":"x","max_tokens":2,%s}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"x"}],"max_tokens":2,%s}`,
		"/api/v1/generate":     `{"inputs":"x","max_new_tokens":2,"do_sample":true,%s}`,
	}
	for path, body := range routes {
		b := newBench(t, nil)
		w := do(b.api.Public(), "POST", path, fmt.Sprintf(body, done))
		if w.Code != 200 || len(b.engine.turns) != 1 {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
			continue
		}
		p := b.engine.turns[0].Sampling
		if got := fmt.Sprint(p.TopH, p.Epsilon, p.Eta, &p.Decay, &p.Suppress, &p.BeginSuppress, &p.ForcedEOS, p.Runs, p.MaxTime); strings.ReplaceAll(got, "100[", "100 [") != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		w = do(b.api.Public(), "POST", path, fmt.Sprintf(body, `"guidance_scale":1.5,"negative_prompt":"yz"`))
		if turn := b.engine.turns[len(b.engine.turns)-1]; w.Code != 200 || turn.Guidance == nil || turn.Guidance.Scale != 1.5 || fmt.Sprint(turn.Guidance.Other) != "[1 121 122]" {
			t.Errorf("%s with guidance: status %d: %+v: %s", path, w.Code, turn.Guidance, w.Body)
		}
		w = do(b.api.Public(), "POST", path, fmt.Sprintf(body, `"num_beams":2,"do_sample":true,"temperature":0.5`))
		if turn := b.engine.turns[len(b.engine.turns)-1]; turn.Beams.Beams != 2 || turn.Sampling.Temperature != 0.5 {
			t.Errorf("%s with drawn beams: status %d: %+v: %s", path, w.Code, turn, w.Body)
		}
		w = do(b.api.Public(), "POST", path, fmt.Sprintf(body, `"num_beams":4,"num_beam_groups":2,"diversity_penalty":0.5,"do_sample":false`))
		if turn := b.engine.turns[len(b.engine.turns)-1]; turn.Beams.Groups != 2 || turn.Beams.Diversity != 0.5 {
			t.Errorf("%s with groups of beams: status %d: %+v: %s", path, w.Code, turn, w.Body)
		}
		for _, f := range sample.LibraryFields {
			for value, asks := range map[string]bool{"null": false, "2.5": true, `[[1]]`: true} {
				w := do(b.api.Public(), "POST", path, fmt.Sprintf(body, fmt.Sprintf("%q:%s", f.Name, value)))
				refused := strings.Contains(w.Body.String(), f.Name+" is not supported")
				if refused != (asks && f.Does == sample.Refused) {
					t.Errorf("%s with %s %s: %s", path, f.Name, value, w.Body)
				}
			}
		}
	}
	b := newBench(t, nil)
	form := do(b.api.Public(), "POST", "/api/v1/generate", "inputs=x&max_new_tokens=2&suppress_tokens=[98,99]&guidance_scale=1&eos_token_id=", "Content-Type: application/x-www-form-urlencoded")
	if form.Code != 200 || len(b.engine.turns) != 1 || len(b.engine.turns[0].Sampling.Suppress) != 2 {
		t.Errorf("a form: status %d: %s", form.Code, form.Body)
	}
	for _, bad := range []string{`"suppress_tokens":"x"`, `"suppress_tokens":{}`, `"sequence_bias":[1]`, `"exponential_decay_length_penalty":[1]`, `"top_h":2`, `"epsilon_cutoff":1`, `"suppress_tokens":[5000]`} {
		for path, body := range routes {
			if w := do(b.api.Public(), "POST", path, fmt.Sprintf(body, bad)); w.Code < 400 && !strings.Contains(w.Body.String(), `"ok":false`) {
				t.Errorf("%s with %s: status %d: %s", path, bad, w.Code, w.Body)
			}
		}
	}
}
