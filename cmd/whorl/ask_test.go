package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reference is what the reference library gives greedily for a prompt.
type reference struct {
	Prompt string  `json:"prompt"`
	IDs    []int32 `json:"ids"`
	New    []int32 `json:"new"`
}

func references(t *testing.T) []reference {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(toy, "ref.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Prompts []reference }
	if err := json.Unmarshal(b, &all); err != nil || len(all.Prompts) == 0 {
		t.Fatalf("%d references, %v", len(all.Prompts), err)
	}
	return all.Prompts
}

func listOf(ids []int32) string {
	b, _ := json.Marshal(ids)
	return strings.Trim(string(b), "[]")
}

func TestTokenize(t *testing.T) {
	ref := references(t)[0]
	var bare []int32
	whorl(t, "", nil, "tokenize", toy, "--text", ref.Prompt).last(t, &bare)
	var special []int32
	whorl(t, ref.Prompt, nil, "tokenize", toy, "--special").last(t, &special)
	if !slices.Equal(special, ref.IDs) || len(bare) != len(special)-1 {
		t.Errorf("with special tokens %v, without %v, want %v and one less", special, bare, ref.IDs)
	}
	var object struct{ IDs []int32 }
	whorl(t, ref.Prompt, nil, "tokenize", filepath.Join(toy, "tokenizer.json"), "--json").last(t, &object)
	if !slices.Equal(object.IDs, bare) {
		t.Errorf("of tokenizer.json: %v, want %v", object.IDs, bare)
	}
	if got := whorl(t, "", nil, "tokenize", toy, "--text", "").ok(t).stdout; got != "[]\n" {
		t.Errorf("an empty text is %q", got)
	}
	if got := whorl(t, "", nil, "detokenize", toy, "--ids", listOf(bare)).ok(t).stdout; got != ref.Prompt+"\n" {
		t.Errorf("back: %q, want %q", got, ref.Prompt)
	}
	if got := whorl(t, listOf(special), nil, "detokenize", toy, "--skip-special", "--json").ok(t).stdout; got != `{"text":"`+ref.Prompt+`"}`+"\n" {
		t.Errorf("back: %q", got)
	}
}

// Lines go there and back, whatever they hold.
func TestTokenizeLines(t *testing.T) {
	texts := []string{"A cat sat on", "", "two\nlines", "<s> & </s>", "日本 😀", strings.Repeat("long ", 30000)}
	var in strings.Builder
	for _, s := range texts {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	ids := whorl(t, strings.TrimSuffix(in.String(), "\n"), nil, "tokenize", toy, "--lines").ok(t).stdout
	back := whorl(t, ids, nil, "detokenize", toy, "--lines").ok(t).stdout
	lines := strings.Split(strings.TrimSuffix(back, "\n"), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("%d lines came back of %d", len(lines), len(texts))
	}
	for i, line := range lines {
		var got string
		if err := json.Unmarshal([]byte(line), &got); err != nil || got != texts[i] {
			t.Errorf("%.60q came back as %.60q, %v", texts[i], got, err)
		}
	}
	for in, want := range map[string]string{"1\n": "line 1", "\"a\"\nnope\n": "line 2", "\n": "line 1"} {
		if r := whorl(t, in, nil, "tokenize", toy, "--lines"); r.code != exitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%q: exit code %d, %s", in, r.code, r.err)
		}
	}
}

// A local run gives what the reference library gives, and streams what it returns.
func TestGenerateLocal(t *testing.T) {
	for _, ref := range references(t)[:3] {
		var got answerObject
		r := whorl(t, "", nil, "generate", toy, "--local", "--prompt", ref.Prompt, "--max-new-tokens", "12", "--ignore-eos", "--json", "--trace")
		r.last(t, &got)
		if !slices.Equal(got.IDs, ref.New[:12]) {
			t.Errorf("%q: %v, want %v", ref.Prompt, got.IDs, ref.New[:12])
		}
		if !strings.HasPrefix(r.stdout, got.Text+"\n") {
			t.Errorf("streamed %q, want %q first", r.stdout, got.Text)
		}
		if got.FinishReason != "length" || got.PromptTokens != len(ref.IDs) || got.CompletionTokens != 12 || got.LogitsHash == "" ||
			len(got.Route) != 1 || got.Route[0].Blocks != "0:8" || got.Timings.TokensPerSecond <= 0 {
			t.Errorf("%q: %+v", ref.Prompt, got)
		}
		var byIDs answerObject
		whorl(t, "", nil, "generate", toy, "--local", "--ids", listOf(ref.IDs), "--max-new-tokens", "12", "--ignore-eos", "--json", "--trace", "--prefill-chunk", "3", "--threads", "1").last(t, &byIDs)
		if byIDs.LogitsHash != got.LogitsHash {
			t.Errorf("%q: another way to say it gives other logits", ref.Prompt)
		}
	}
}

func TestGenerateStop(t *testing.T) {
	ref := references(t)[0]
	var all answerObject
	whorl(t, "", nil, "generate", toy, "--local", "--prompt", ref.Prompt, "--max-new-tokens", "30", "--ignore-eos", "--json").last(t, &all)
	stop := all.Text[1:4]
	var got answerObject
	r := whorl(t, ref.Prompt, nil, "generate", toy, "--local", "--max-new-tokens", "30", "--ignore-eos", "--json", "--stop", "never there", "--stop", stop)
	r.last(t, &got)
	if want := all.Text[:strings.Index(all.Text, stop)]; got.Text != want || got.FinishReason != "stop" || strings.Contains(r.stdout, stop) {
		t.Errorf("stop at %q: %q (%s), want %q", stop, got.Text, got.FinishReason, want)
	}
	if r := whorl(t, "", nil, "generate", toy, "--local", "--prompt", ref.Prompt, "--max-new-tokens", "3").ok(t); !strings.Contains(r.err, "tok/s") || !strings.Contains(r.err, "local 0:8") {
		t.Errorf("no speed and route on stderr: %s", r.err)
	}
}

// Beams are drawn by the seed, and guidance takes the answer elsewhere; a scale that changes nothing
// changes nothing.
func TestGenerateDrawnAndGuided(t *testing.T) {
	args := func(more ...string) []string {
		return append([]string{"generate", toy, "--local", "--json", "--prompt", references(t)[0].Prompt, "--max-new-tokens", "8"}, more...)
	}
	of := func(more ...string) string {
		var got answerObject
		whorl(t, "", nil, args(more...)...).last(t, &got)
		return fmt.Sprint(got.IDs)
	}
	drawn := []string{"--num-beams", "3", "--temperature", "1.5", "--seed"}
	first := of(append(drawn, "1")...)
	if again, other := of(append(drawn, "1")...), of(append(drawn, "2")...); first != again || first == other {
		t.Errorf("seed 1: %s, again %s, seed 2: %s", first, again, other)
	}
	plain := of()
	if same := of("--guidance-scale", "1"); same != plain {
		t.Errorf("guidance of 1 is %s, without it is %s", same, plain)
	}
	away := of("--guidance-scale", "3", "--negative-prompt", "Once upon a time")
	if ids := of("--guidance-scale", "3"); away == plain || ids == plain || ids == away {
		t.Errorf("plain %s, guided %s, away from a text %s", plain, ids, away)
	}
}

// A beam search shows its best answer, and all that were asked for; processors change it.
func TestGenerateBeams(t *testing.T) {
	ref := references(t)[0]
	args := []string{"generate", toy, "--local", "--json", "--prompt", ref.Prompt, "--max-new-tokens", "8", "--num-beams", "3",
		"--num-return-sequences", "2", "--early-stopping", "never", "--length-penalty", "0.5"}
	var got answerObject
	whorl(t, "", nil, args...).last(t, &got)
	if len(got.Answers) != 2 || !slices.Equal(got.IDs, got.Answers[0].IDs) || got.Text != got.Answers[0].Text || got.Answers[0].Score < got.Answers[1].Score {
		t.Errorf("%+v", got)
	}
	var forbidden answerObject
	whorl(t, "", nil, append(args, "--bad-words", "and", "--bad-words", "for")...).last(t, &forbidden)
	if !strings.Contains(got.Text, " and") || strings.Contains(forbidden.Text, " and") || strings.Contains(forbidden.Text, " for") {
		t.Errorf("%q without some words is %q", got.Text, forbidden.Text)
	}
	out := whorl(t, "", nil, append(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--json" }), "--prefill-chunk", "2")...).ok(t).stdout
	if out != got.Answers[0].Text+"\n"+got.Answers[1].Text+"\n" {
		t.Errorf("shown: %q, want the texts of %+v", out, got.Answers)
	}
}

// --ids needs no tokenizer, and text without one is an honest error.
func TestNoTokenizer(t *testing.T) {
	bare := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		copyFile(t, filepath.Join(toy, name), filepath.Join(bare, name))
	}
	ref := references(t)[0]
	var got answerObject
	whorl(t, "", nil, "generate", bare, "--local", "--ids", listOf(ref.IDs), "--max-new-tokens", "5", "--ignore-eos", "--json").last(t, &got)
	if !slices.Equal(got.IDs, ref.New[:5]) || got.Text != "" {
		t.Errorf("%v %q, want %v and no text", got.IDs, got.Text, ref.New[:5])
	}
	if r := whorl(t, "", nil, "generate", bare, "--local", "--prompt", "x"); r.code != exitUsage || !strings.Contains(r.err, "tokenizer") || !strings.Contains(r.err, "--ids") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestScore(t *testing.T) {
	ref := references(t)[0]
	ids := append(slices.Clone(ref.IDs), ref.New[:20]...) // more than a batch of rows
	var got scoreObject
	whorl(t, "", nil, "score", toy, "--local", "--ids", listOf(ids), "--json", "--next").last(t, &got)
	if len(got.Logprobs) != len(ids) || got.Logprobs[0] != nil || len(got.NextLogits) != 384 {
		t.Fatalf("%d log-probabilities, the first %v, %d logits", len(got.Logprobs), got.Logprobs[0], len(got.NextLogits))
	}
	sum := 0.0
	for _, l := range got.Logprobs[1:] {
		if *l > 0 {
			t.Errorf("log-probability %v", *l)
		}
		sum += *l
	}
	mean := sum / float64(len(ids)-1)
	if math.Abs(*got.Mean-mean) > 1e-12 || math.Abs(*got.Perplexity-math.Exp(-mean)) > 1e-9 {
		t.Errorf("mean %v, perplexity %v; want %v, %v", *got.Mean, *got.Perplexity, mean, math.Exp(-mean))
	}
	best := 0
	for i, l := range got.NextLogits {
		if l > got.NextLogits[best] {
			best = i
		}
	}
	if int32(best) != ref.New[20] {
		t.Errorf("the likeliest next id is %d, want %d", best, ref.New[20])
	}
	if text := whorl(t, ref.Prompt, nil, "score", toy, "--local").ok(t).stdout; strings.Count(text, "\n") != len(ref.IDs)+1 || !strings.Contains(text, "perplexity") {
		t.Errorf("a line per token and one for the whole are wanted:\n%s", text)
	}
	var half scoreObject
	whorl(t, "", nil, "score", toy, "--local", "--ids", listOf(ids), "--json", "--kv-dtype", "bf16").last(t, &half)
	if off := math.Abs(*half.Mean - *got.Mean); off == 0 || off > 0.01 {
		t.Errorf("a bf16 cache changes the mean by %v: want a little", off)
	}
	var one scoreObject
	whorl(t, "", nil, "score", toy, "--local", "--ids", "5", "--json").last(t, &one)
	if one.Mean != nil || len(one.Logprobs) != 1 {
		t.Errorf("one id: %+v", one)
	}
}

// In a chat, each turn continues the session, and equals the same conversation asked anew.
func TestChat(t *testing.T) {
	turns := "hello\nagain\n"
	r := whorl(t, "\n"+turns+"/reset\nhello\n/exit\nnever read\n", nil, "chat", toy, "--local", "--max-new-tokens", "6", "--ignore-eos").ok(t)
	if n := strings.Count(r.err, "tok/s"); n != 3 {
		t.Errorf("%d answers, want 3:\n%s\n%s", n, r.stdout, r.err)
	}
	first := whorl(t, "", nil, "generate", toy, "--local", "--chat", "--prompt", "hello", "--max-new-tokens", "6", "--ignore-eos").ok(t).stdout
	if !strings.HasPrefix(r.stdout, first) || !strings.HasSuffix(r.stdout, first) {
		t.Errorf("the answers before and after /reset are not %q:\n%q", first, r.stdout)
	}
	full := whorl(t, strings.Repeat("hello\n", 12), nil, "chat", toy, "--local", "--max-new-tokens", "20", "--max-length", "90", "--ignore-eos").ok(t)
	if n := strings.Count(full.err, "tok/s"); n != 12 || !strings.Contains(full.err, "were let go") {
		t.Errorf("%d of 12 answers in a session that is too short for all:\n%s", n, full.err)
	}
	short := whorl(t, "hello\n"+strings.Repeat("long ", 40)+"\nhello\n", nil, "chat", toy, "--local", "--max-new-tokens", "40", "--max-length", "60", "--ignore-eos").ok(t)
	if n := strings.Count(short.err, "tok/s"); n != 2 || !strings.Contains(short.err, "no room for an answer") {
		t.Errorf("%d answers beside a message that does not fit:\n%s", n, short.err)
	}
}

// A signal ends generate and chat with code 130.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := whorlUntil(ctx, "", nil, "generate", toy, "--local", "--prompt", "x"); r.code != exitInterrupted {
		t.Errorf("generate: exit code %d: %s", r.code, r.err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	silent, typing := io.Pipe()
	defer typing.Close()
	done := make(chan int)
	var out heardWriter
	out.heard = cancel
	go func() {
		done <- run(ctx, []string{"chat", toy, "--local", "--max-new-tokens", "4"}, world{silent, &out, io.Discard, func() []string { return nil }})
	}()
	io.WriteString(typing, "hello\n")
	if code := <-done; code != exitInterrupted {
		t.Errorf("chat: exit code %d", code)
	}
}

// heardWriter calls heard at the first write.
type heardWriter struct{ heard func() }

func (w *heardWriter) Write(p []byte) (int, error) {
	w.heard()
	return len(p), nil
}

// Receipts need servers that sign, and somewhere to be shown.
func TestReceiptsThatCannotBe(t *testing.T) {
	for args, want := range map[string]string{
		"--local --json --receipts":                       "--initial-peers",
		"--initial-peers /ip4/127.0.0.1/tcp/1 --receipts": "--json",
	} {
		r := whorl(t, "", nil, append([]string{"generate", toy, "--prompt", "x"}, strings.Fields(args)...)...)
		if r.code != exitUsage || !strings.Contains(r.err, "--receipts") || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit code %d: %s", args, r.code, r.err)
		}
	}
}
