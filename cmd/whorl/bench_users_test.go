package main

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/bench"
)

// keysOf lists the keys of a JSON object.
func keysOf(t *testing.T, raw json.RawMessage) []string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return slices.Sorted(maps.Keys(object))
}

func TestBenchQualityJSON(t *testing.T) {
	var raw json.RawMessage
	whorl(t, "", nil, "bench", "quality", toy, "--json", "--tokens", "300", "--window", "64", "--threads", "2", "--format", "stored,q8_0,q4_0").last(t, &raw)
	if keys := keysOf(t, raw); !slices.Equal(keys, []string{"formats", "model", "skipped", "text", "tokens", "window"}) {
		t.Errorf("keys %v", keys)
	}
	var got qualityObject
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Model != "toy" || got.Text != "built in" || got.Tokens != 300 || got.Window != 64 {
		t.Errorf("%s: %d tokens of %s in windows of %d", got.Model, got.Tokens, got.Text, got.Window)
	}
	var rows struct{ Formats []json.RawMessage }
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	want := []string{"activations", "activations_delta", "activations_std_err", "delta", "delta_std_err", "format", "mean_logprob", "perplexity", "residual", "residual_delta", "residual_std_err", "stored"}
	if keys := keysOf(t, rows.Formats[0]); !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	var names []string
	for _, q := range got.Formats {
		names = append(names, q.Format+" "+q.Activations)
		if (q.ActivationsDelta != nil) != (q.Activations == "auto" && q.Format != "f32") {
			t.Errorf("%s %s: activations %+v", q.Format, q.Activations, q.ActivationsDelta)
		}
		if d := q.MeanLogprob - got.Formats[0].MeanLogprob - q.Delta; math.Abs(d) > 1e-9 || q.MeanLogprob > -1 {
			t.Errorf("%+v is off by %v", q, d)
		}
	}
	if want := []string{"f32 auto", "f32 auto", "q8_0 auto", "q8_0 f32", "q4_0 auto", "q4_0 f32"}; !slices.Equal(names, want) {
		t.Fatalf("%v, want %v", names, want)
	}
	if q := got.Formats[1]; q.Delta != 0 || q.DeltaStdErr != 0 || !q.Stored {
		t.Errorf("a file of f32 is not itself: %+v", q)
	}
	if q8, q4 := got.Formats[2].DeltaStdErr, got.Formats[4].DeltaStdErr; q8 == 0 || q8 > q4 {
		t.Errorf("8 bits are spread by %v around f32, 4 bits by %v", q8, q4)
	}
}

// The text may be another one, and a format that does not fit is a note, not an end.
func TestBenchQualityTable(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("A cat sat on the mat. ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	out := whorl(t, "", nil, "bench", "quality", toy, "--text", text, "--format", "q4_0,q6_k", "--activations", "auto").ok(t).stdout
	for _, part := range []string{"toy, ", "windows of 256", "less f32", "\nf32 ", "\nq4_0 ", "±", "note: no q6_k: "} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	if strings.Count(out, "\nq4_0 ") != 1 {
		t.Errorf("f32 activations were not asked for:\n%s", out)
	}
}

var smallLoad = []string{"--concurrency", "1,3", "--requests", "2", "--prompt-tokens", "5", "--new-tokens", "7"}

// checkLoad checks what smallLoad must give.
func checkLoad(t *testing.T, target string, counted bool, args ...string) {
	t.Helper()
	var raw json.RawMessage
	whorl(t, "", nil, append(append([]string{"bench", "serving", "--json"}, smallLoad...), args...)...).last(t, &raw)
	if keys := keysOf(t, raw); !slices.Equal(keys, []string{"levels", "model", "new_tokens", "prompt_tokens", "target"}) {
		t.Errorf("keys %v", keys)
	}
	var got servingObject
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Target != target || got.Model != "toy" || got.Prompt != 5 || got.Tokens != 7 || len(got.Levels) != 2 {
		t.Fatalf("%s", raw)
	}
	for i, n := range []int{1, 3} {
		l := got.Levels[i]
		if l.Concurrency != n || l.Requests != 2*n || l.Done != 2*n || l.Failed != 0 || l.Tokens != 14*n || l.Error != "" {
			t.Errorf("%d clients: %+v", n, l)
		}
		if l.Seconds <= 0 || l.TokS <= 0 || l.FirstMS == nil || l.FirstMS.Median <= 0 || l.FirstMS.P95 < l.FirstMS.Median || l.BetweenMS == nil {
			t.Errorf("%d clients: %+v", n, l)
		}
		if counted != (l.Batch != nil && l.WaitMS != nil) || counted && (*l.Batch < 1 || *l.Batch > float64(n)) {
			t.Errorf("%d clients: batch %v, wait %v", n, l.Batch, l.WaitMS)
		}
	}
}

// The same load in this process, through a swarm and through a gateway.
func TestBenchServing(t *testing.T) {
	checkLoad(t, "local", true, toy, "--local")
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100")
	checkLoad(t, "swarm", false, toy, "--initial-peers", n.Addrs[0])
	checkLoad(t, "swarm", true, toy, "--initial-peers", n.Addrs[0], "--metrics", n.HTTP)
	checkLoad(t, n.HTTP, true, "--url", n.HTTP, "--model-name", "toy")
}

func TestBenchServingTable(t *testing.T) {
	out := whorl(t, "", nil, append([]string{"bench", "serving", toy, "--local"}, smallLoad...)...).ok(t).stdout
	for _, part := range []string{"local toy: prompts of 5, answers of 7 tokens", "clients", "tok/s", "batch", "\n1  ", "\n3  "} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	var b strings.Builder
	printLevel(&b, bench.Level{Concurrency: 4, Requests: 9, Done: 5, Failed: 1, Error: "out of luck"})
	for _, part := range []string{"out of luck", "cut 3 requests", "-"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
}

// A gateway that refuses, or that breaks in mid-answer, is a failure at work that says why.
func TestBenchServingBrokenGateway(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{401, `{"error":{"message":"no token"}}`, "no token"},
		{200, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "[DONE]"},
		{200, "data: {\"error\":{\"message\":\"cache full\"}}\n\n", "cache full"},
		{200, "data: {\n\n", "event stream"},
		{200, "data: " + strings.Repeat("x", maxEvent+1), "token too long"},
		{200, "data: [DONE]\n\n", "no tokens"},
	} {
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			w.WriteHeader(c.status)
			w.Write([]byte(c.body))
		}))
		r := whorl(t, "", []string{"WHORL_HTTP_TOKEN=secret"}, "bench", "serving", "--url", gateway.URL+"/", "--concurrency", "1", "--json")
		gateway.Close()
		if r.code != exitFailed || r.stdout != "" || !strings.Contains(r.err, c.want) || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%d %.60q: exit code %d, stdout %q, %s", c.status, c.body, r.code, r.stdout, r.err)
		}
	}
}

func TestEventTokens(t *testing.T) {
	for _, c := range []struct {
		data string
		want int
	}{
		{`{"choices":[{"text":"","token_ids":[1,2]}]}`, 2},
		{`{"choices":[{"text":"ab","token_ids":[]}]}`, 0},
		{`{"choices":[{"text":"ab"}],"error":null}`, 1}, // a server that gives no ids
		{`{"choices":[{"text":"","finish_reason":"length"}]}`, 0},
		{`{"choices":[],"usage":{"completion_tokens":2}}`, 0},
	} {
		if n, err := eventTokens([]byte(c.data)); err != nil || n != c.want {
			t.Errorf("%s: %d, %v; want %d", c.data, n, err, c.want)
		}
	}
}

func TestAddIterations(t *testing.T) {
	for _, c := range []struct {
		text string
		want bench.Iterations
		bad  bool
	}{
		{"# HELP whorl_server_steps_total x\nwhorl_server_steps_total 20\nwhorl_server_step_sessions_total 50\nwhorl_server_step_wait_seconds_total 0.5\nother 3\n",
			bench.Iterations{Steps: 21, Sessions: 51, Waited: 1.5}, false},
		{"go_goroutines 7\n", bench.Iterations{Steps: 1, Sessions: 1, Waited: 1}, false}, // a gateway alone
		{"whorl_server_steps_total many\n", bench.Iterations{}, true},
	} {
		sum := bench.Iterations{Steps: 1, Sessions: 1, Waited: 1}
		if err := addIterations(strings.NewReader(c.text), &sum); (err != nil) != c.bad || err == nil && sum != c.want {
			t.Errorf("%q: %+v, %v", c.text, sum, err)
		}
	}
}

func FuzzReadPieces(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte(": alive\n\ndata:{\"error\":{}}\n"))
	f.Add([]byte("data: {\"choices\":null}\r\ndata: [DONE]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := 0
		_ = readPieces(strings.NewReader(string(b)), func(ids int) {
			if sum += ids; ids < 0 || sum > len(b) {
				t.Fatalf("%d tokens in %d bytes", sum, len(b))
			}
		})
	})
}

func TestBenchUsersWrongUse(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"bench quality", []string{"MODEL"}},
		{"bench quality nowhere", []string{"nowhere"}},
		{"bench quality " + toy + " --format q2_k", []string{"q2_k", "stored", "q8_0"}},
		{"bench quality " + toy + " --activations f32", []string{"auto,f32"}},
		{"bench quality " + toy + " --activations f64", []string{"f64"}},
		{"bench quality " + toy + " --window 1", []string{"--window"}},
		{"bench quality " + toy + " --window 257", []string{"257", "256"}},
		{"bench quality " + toy + " --tokens 1", []string{"--tokens"}},
		{"bench quality " + toy + " --text nowhere.txt", []string{"nowhere.txt"}},
		{"bench quality ../../model/testdata/pair", []string{"tokenizer"}},
		{"bench serving", []string{"--local", "--initial-peers", "--url"}},
		{"bench serving --local", []string{"MODEL"}},
		{"bench serving " + toy + " --url http://127.0.0.1:1", []string{"--url", "MODEL"}},
		{"bench serving --url http://127.0.0.1:1 --quant q8_0", []string{"--url", "--quant"}},
		{"bench serving --url 127.0.0.1:8300", []string{"--url", "http://127.0.0.1:8300"}},
		{"bench serving " + toy + " --local --concurrency 0", []string{"0 clients"}},
		{"bench serving " + toy + " --local --requests 0", []string{"requests"}},
		{"bench serving " + toy + " --local --far 1ms --beside-prompt 5", []string{"one of them"}},
		{"bench serving " + toy + " --local --far -1ms", []string{"-1ms"}},
		{"bench serving " + toy + " --local --beside-train -1", []string{"--beside-train -1"}},
		{"bench serving " + toy + " --local --beside-train 8 --beside-prompt 5", []string{"one of them"}},
		{"bench serving --url http://127.0.0.1:1 --beside-train 8", []string{"--beside-train", "--initial-peers"}},
		{"bench serving --url http://127.0.0.1:1 --far 1ms", []string{"--far", "--initial-peers"}},
		{"bench serving " + toy + " --local --limit 0", []string{"limit"}},
		{"bench serving " + toy + " --local --prompt-tokens 250", []string{"314", "256"}},
	} {
		r := whorl(t, "", nil, strings.Fields(c.args)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.err, "\n") != 1 {
			t.Errorf("whorl %s: exit code %d, stdout %q\n%s", c.args, r.code, r.stdout, r.err)
		}
		for _, part := range c.want {
			if !strings.Contains(r.err, part) {
				t.Errorf("whorl %s: %q does not name %q", c.args, r.err, part)
			}
		}
	}
}

// Rates of several rounds are compared, and windows without and with others alternate.
func TestBenchServingInTurns(t *testing.T) {
	common := []string{"bench", "serving", toy, "--local", "--threads", "2", "--prompt-tokens", "4", "--rounds", "2"}
	run := func(args ...string) string {
		return whorl(t, "", nil, append(slices.Clip(common), args...)...).ok(t).stdout
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--concurrency", "1,2", "--requests", "1", "--new-tokens", "8"}, []string{"medians of 2 rounds, each compared with 1 at once", "\n1        ", " 1.00, 1.00, 1.00 "}},
		{[]string{"--concurrency", "2", "--new-tokens", "60", "--window", "0.1", "--far", "1ms,2ms"}, []string{"2 clients ", "\n  alone ", "\n  with those further away", "\n  1 ms each way", "\n  2 ms each way", "of their rate"}},
		{[]string{"--concurrency", "1", "--new-tokens", "60", "--window", "0.1", "--beside-prompt", "32"}, []string{"1 clients ", "\n  beside a prompt of 32", "times its"}},
		{[]string{"--concurrency", "1", "--new-tokens", "60", "--window", "0.1", "--beside-train", "40"}, []string{"1 clients ", "\n  beside batches of 40", "training has"}},
	} {
		out := run(c.args...)
		for _, part := range c.want {
			if !strings.Contains(out, part) {
				t.Errorf("%v: no %q in\n%s", c.args, part, out)
			}
		}
	}
	var got servingObject
	whorl(t, "", nil, append(slices.Clip(common), "--concurrency", "1", "--new-tokens", "60", "--window", "0.1", "--far", "3ms", "--json")...).last(t, &got)
	if len(got.Beside) != 1 || got.Beside[0].Far[0].DelayMS != 3 || got.Beside[0].Far[0].BetweenMS.Median < 6 || got.Beside[0].Without.TokS <= 0 {
		t.Errorf("%+v", got.Beside)
	}
}
