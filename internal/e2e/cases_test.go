//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// Each layout of the same model gives the same ids as the whole model in one process.
func TestCase001Layouts(t *testing.T) {
	r := refs(t, 16)[0]
	for _, layout := range [][]string{
		{"0:8"},
		{"0:4", "4:8"},
		{"0:1", "1:2", "2:3", "3:4", "4:5", "5:6", "6:7", "7:8"},
	} {
		t.Run(fmt.Sprint(len(layout)), func(t *testing.T) {
			s := spawn(t, layout)
			status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 16, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
			if status != 200 || len(c.Choices) != 1 {
				t.Fatalf("status %d: %+v", status, c)
			}
			equal(t, fmt.Sprint(layout), c.Choices[0].TokenIDs, r.IDs[:16])
		})
	}
}

// A server in use is killed in mid-stream: the spare takes over, no id is lost or doubled.
func TestCase003KillInMidStream(t *testing.T) {
	r := refs(t, 30)[0]
	s := spawn(t, []string{"0:3", "3:6", "6:8", "3:6"})
	k := s.open(t, 128)
	killed := false
	ids, text, last := k.generate(map[string]any{"inputs": r.Prompt, "max_new_tokens": 30, "stream": true, "ignore_eos": true}, func(n int) {
		if n >= 5 && !killed {
			s.inUse(t, 1, 3).kill()
			killed = true
		}
	})
	if !last.OK || !killed {
		t.Fatalf("killed: %v; %+v", killed, last)
	}
	equal(t, "ids", ids, r.IDs[:30])
	if !strings.HasPrefix(r.Text, text) && !strings.HasPrefix(text, strings.ToValidUTF8(r.Text, "")[:min(len(r.Text), len(text)/2)]) {
		t.Errorf("text %q, want a prefix of %q", text, r.Text)
	}
}

// inUse finds which of the given servers alone holds a session now.
func (s *swarm) inUse(t *testing.T, candidates ...int) *node {
	t.Helper()
	var found *node
	ok := poll(patience, func() bool {
		holders := 0
		for _, i := range candidates {
			if s.servers[i].sessions(t) > 0 {
				found = s.servers[i]
				holders++
			}
		}
		return holders == 1 // a session that an earlier answer left is closed within moments
	})
	if !ok {
		t.Fatal("no candidate alone holds a session")
	}
	return found
}

// sessions is the number of sessions a server holds.
func (n *node) sessions(t *testing.T) int {
	t.Helper()
	var status struct {
		Sessions int `json:"sessions"`
	}
	get(t, n.Admin+"/api/v1/node", &status)
	return status.Sessions
}

// Missing blocks are named, and a server that brings them heals the swarm.
func TestCase005MissingBlocks(t *testing.T) {
	r := refs(t, 8)[0]
	s := spawn(t, []string{"0:4"})
	status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 8, "timeout": 10})
	if status != 503 || c.Error == nil {
		t.Fatalf("status %d, error %+v", status, c.Error)
	}
	for _, part := range []string{s.model(t), "4-7"} {
		if !strings.Contains(c.Error.Message, part) {
			t.Errorf("message %q does not name %s", c.Error.Message, part)
		}
	}
	start(t, s.serverArgs("4:8")...)
	var ids []int32
	if !poll(patience, func() bool {
		status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 8, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
		if status != 200 {
			return false
		}
		ids = c.Choices[0].TokenIDs
		return true
	}) {
		t.Fatal("no answer although the missing server has started")
	}
	equal(t, "ids", ids, r.IDs[:8])
}

// An empty peer list founds no swarm.
func TestCase009EmptyPeerList(t *testing.T) {
	r := run(t, "", "serve", toy, "--initial-peers", "")
	if r.code != 2 {
		t.Errorf("exit code %d, want 2", r.code)
	}
	for _, flag := range []string{"--initial-peers", "--new-swarm"} {
		if !strings.Contains(r.stderr, flag) {
			t.Errorf("message %q does not name %s", r.stderr, flag)
		}
	}
	if n := strings.Count(strings.TrimSpace(r.stderr), "\n"); n > 0 {
		t.Errorf("message of %d lines, want one: %s", n+1, r.stderr)
	}
}

// Budgets are checked before compute, with the numbers, and the session survives.
func TestCase023Budget(t *testing.T) {
	s := spawn(t, []string{"0:8"})
	text, prompt := ofLength(t, 50)
	k := s.open(t, 64)
	_, _, last := k.generate(map[string]any{"inputs": text, "max_new_tokens": 20, "ignore_eos": true}, nil)
	if last.OK {
		t.Fatal("20 new ids after 50 were accepted with a budget of 64")
	}
	for _, part := range []string{"50", "20", "64", "Maximum length exceeded"} {
		if !strings.Contains(last.Traceback, part) {
			t.Errorf("message %q does not name %s", last.Traceback, part)
		}
	}
	ids, _, last := k.generate(map[string]any{"inputs": text, "max_new_tokens": 14, "ignore_eos": true}, nil)
	if !last.OK {
		t.Fatalf("14 new ids: %s", last.Traceback)
	}
	var whole struct{ IDs []int32 }
	lastJSON(t, run(t, "", "generate", toy, "--local", "--ids", idList(prompt), "--max-new-tokens", "14", "--ignore-eos", "--json"), &whole)
	equal(t, "ids", ids, whole.IDs)
}

// ofLength is a text that the model's tokenizer turns into n ids, begin token included.
func ofLength(t *testing.T, n int) (string, []int32) {
	t.Helper()
	var lines strings.Builder
	var texts []string
	for words := range 40 {
		for dots := range 4 {
			texts = append(texts, "A cat sat on"+strings.Repeat(" the mat", words)+strings.Repeat("!", dots))
			b, _ := json.Marshal(texts[len(texts)-1])
			lines.Write(append(b, '\n'))
		}
	}
	r := run(t, lines.String(), "tokenize", toy, "--lines", "--special")
	for i, line := range strings.Split(strings.TrimSpace(r.stdout), "\n") {
		var ids []int32
		if err := json.Unmarshal([]byte(line), &ids); err != nil {
			t.Fatal(err)
		}
		if len(ids) == n {
			return texts[i], ids
		}
	}
	t.Fatalf("no text of %d ids", n)
	return "", nil
}

// Parallel clients get what each would get alone.
func TestCase025Parallel(t *testing.T) {
	s := spawn(t, []string{"0:4", "4:8"})
	all := refs(t, 32)[:8]
	for round := range 5 {
		var wg sync.WaitGroup
		for _, r := range all {
			wg.Go(func() {
				status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": 32, "temperature": 0, "return_token_ids": true, "ignore_eos": true})
				if status != 200 {
					t.Errorf("round %d: status %d: %+v", round, status, c.Error)
					return
				}
				equal(t, fmt.Sprintf("round %d, %q", round, r.Prompt), c.Choices[0].TokenIDs, r.IDs[:32])
			})
		}
		wg.Wait()
	}
}

// Streamed and unstreamed answers of one seed agree to the byte.
func TestCase027Streaming(t *testing.T) {
	s := spawn(t, []string{"0:8"})
	for _, seed := range []int{7, 8} {
		body := map[string]any{"prompt": "A cat sat on", "max_tokens": 200, "temperature": 1.0, "seed": seed, "return_token_ids": true, "ignore_eos": true}
		status, plain := s.post(t, body)
		if status != 200 {
			t.Fatalf("status %d: %+v", status, plain.Error)
		}
		body["stream"] = true
		ids, text, chunks := s.stream(t, body)
		equal(t, fmt.Sprintf("seed %d", seed), ids, plain.Choices[0].TokenIDs)
		if len(ids) != 200 {
			t.Errorf("seed %d: %d ids, want 200", seed, len(ids))
		}
		if text != plain.Choices[0].Text {
			t.Errorf("seed %d: streamed\n%q\nwant\n%q", seed, text, plain.Choices[0].Text)
		}
		for _, c := range chunks {
			if !utf8.ValidString(c) {
				t.Errorf("seed %d: chunk %q is not UTF-8", seed, c)
			}
		}
	}
}

// A stop text that spans tokens and ends inside one is found and never shown.
func TestCase029StopText(t *testing.T) {
	s := spawn(t, []string{"0:8"})
	r := refs(t, 40)[0]
	text := s.greedyText(t, r, 40)
	stop, before := stopPiece(t, s, r, text)
	body := map[string]any{"prompt": r.Prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": true, "stop": stop, "stream": true, "return_token_ids": true}
	_, got, chunks := s.stream(t, body)
	if got != before {
		t.Errorf("stop %q: %q, want %q", stop, got, before)
	}
	for _, c := range chunks {
		if strings.Contains(c, stop) {
			t.Errorf("chunk %q shows the stop text", c)
		}
	}
	body["stream"], body["stop"] = false, []string{"never in the text", stop}
	status, c := s.post(t, body)
	if status != 200 || c.Choices[0].Text != before || c.Choices[0].FinishReason != "stop" {
		t.Errorf("two stop texts: status %d, %+v, want %q", status, c, before)
	}
}

func (s *swarm) greedyText(t *testing.T, r reference, n int) string {
	t.Helper()
	status, c := s.post(t, map[string]any{"prompt": r.Prompt, "max_tokens": n, "temperature": 0, "ignore_eos": true, "return_token_ids": true})
	if status != 200 {
		t.Fatalf("status %d: %+v", status, c.Error)
	}
	equal(t, "ids", c.Choices[0].TokenIDs, r.IDs[:n])
	return c.Choices[0].Text
}

// stopPiece picks a piece of at least six characters whose end lies inside a token.
func stopPiece(t *testing.T, s *swarm, r reference, text string) (stop, before string) {
	t.Helper()
	borders := map[int]bool{}
	for n := 1; n < 40; n++ {
		res := run(t, "", "detokenize", toy, "--ids", idList(r.IDs[:n]), "--skip-special")
		borders[len(strings.TrimSuffix(res.stdout, "\n"))] = true
	}
	for end := 12; end < len(text); end++ {
		if start := end - 6; !borders[end] && utf8.ValidString(text[start:end]) && strings.Index(text, text[start:end]) == start && !strings.Contains(text[start:end], "\ufffd") {
			return text[start:end], text[:start]
		}
	}
	t.Fatalf("no piece of %q ends inside a token", text)
	return "", ""
}

// A session goes on where it stood.
func TestCase033Continue(t *testing.T) {
	s := spawn(t, []string{"0:4", "4:8"})
	r := refs(t, 10)[0]
	k := s.open(t, 128)
	one, _, f1 := k.generate(map[string]any{"inputs": r.Prompt, "max_new_tokens": 5, "ignore_eos": true}, nil)
	two, _, f2 := k.generate(map[string]any{"max_new_tokens": 5, "ignore_eos": true}, nil)
	three, _, f3 := k.generate(map[string]any{"inputs": " and", "max_new_tokens": 4, "ignore_eos": true}, nil)
	if !f1.OK || !f2.OK || !f3.OK {
		t.Fatalf("%+v %+v %+v", f1, f2, f3)
	}
	if len(one) != 5 || len(two) != 5 || len(three) != 4 {
		t.Fatalf("%d, %d and %d new ids, want 5, 5 and 4", len(one), len(two), len(three))
	}
	equal(t, "the first ten", append(one, two...), r.IDs[:10])

	equal(t, "the last four", three, r.After[:4])
}

// A client that goes away frees what it held, long before a session that is idle would end.
func TestCase034Disconnect(t *testing.T) {
	s := spawn(t, []string{"0:8"})
	k := s.open(t, 250)
	k.send(map[string]any{"type": "generate", "inputs": "A cat", "max_new_tokens": 200, "stream": true, "ignore_eos": true, "return_token_ids": true})
	for n := 0; n < 10; {
		n += len(k.read().TokenIDs)
	}
	k.c.Close()
	var status struct {
		Sessions int `json:"sessions"`
		Cache    struct {
			Used int64 `json:"used_tokens"`
		} `json:"cache"`
		Steps uint64 `json:"steps"`
	}
	if !poll(patience, func() bool { // a session may be gone before its last step is
		get(t, s.servers[0].Admin+"/api/v1/node", &status)
		return status.Sessions == 0 && status.Cache.Used == 0
	}) {
		t.Errorf("%d sessions and %d tokens of cache are still there although the client went away", status.Sessions, status.Cache.Used)
	}
	raw, _ := json.Marshal(status)
	t.Logf("%s", raw)
}
