package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// setLine is a line of the answers to a set of prompts.
type setLine struct {
	Index int
	ID    any
	Error string
	IDs   []int32
}

func setLines(t *testing.T, text string) map[int]setLine {
	t.Helper()
	out := map[int]setLine{}
	for line := range strings.Lines(text) {
		var l setLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if _, twice := out[l.Index]; twice {
			t.Errorf("prompt %d is answered twice", l.Index)
		}
		out[l.Index] = l
	}
	return out
}

// A set of prompts of different lengths has the answers that each of them has alone, whatever is
// wrong with others of the set; a run that was cut off goes on where it was.
func TestPromptSet(t *testing.T) {
	var lines []string
	refs := references(t)
	for i, r := range refs {
		switch b, _ := json.Marshal(r.Prompt); i % 3 {
		case 0:
			lines = append(lines, string(b))
		case 1:
			lines = append(lines, fmt.Sprintf(`{"id":"p%d","prompt":%s}`, i, b))
		default:
			var o struct{ IDs []int32 }
			whorl(t, "", nil, "tokenize", toy, "--text", r.Prompt, "--special", "--json").last(t, &o)
			lines = append(lines, fmt.Sprintf(`{"id":%d,"ids":[%s]}`, i, listOf(o.IDs)))
		}
	}
	good := len(lines)
	lines = append(lines, `{"prompt":"a","ids":[1]}`, `{"ids":[100000]}`, `not json`, `{"ids":[]}`)
	text := strings.Join(lines, "\n") + "\n\n"
	args := []string{"generate", toy, "--local", "--max-new-tokens", "4", "--ignore-eos", "--prompts"}
	r := whorl(t, text, nil, append(args, "-", "--parallel", "3")...)
	if want := fmt.Sprintf("4 of %d prompts have no answer: their lines say why", len(lines)); r.code != exitFailed || !strings.Contains(r.err, want) {
		t.Fatalf("code %d, %s", r.code, r.err)
	}
	check := func(got map[int]setLine) {
		t.Helper()
		if len(got) != len(lines) {
			t.Errorf("%d answers to %d prompts", len(got), len(lines))
		}
		for i, r := range refs {
			if l := got[i]; !slices.Equal(l.IDs, r.New[:4]) || l.Error != "" || i%3 == 1 && l.ID != fmt.Sprintf("p%d", i) || i%3 == 2 && l.ID != float64(i) {
				t.Errorf("prompt %d: %+v, want %v", i, l, r.New[:4])
			}
		}
		for i, want := range []string{"want one of prompt, ids and messages", "id 100000 is outside of the vocabulary", "it is no JSON object", "it is empty"} {
			if l := got[good+i]; !strings.Contains(l.Error, want) {
				t.Errorf("prompt %d: %+v, want %s", good+i, l, want)
			}
		}
	}
	check(setLines(t, r.stdout))

	// Into a file, from a file; the run before was cut off in the middle of a line.
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	all := strings.SplitAfter(r.stdout, "\n")
	var kept []string
	for _, line := range all {
		if strings.Contains(line, `"index":0,`) || strings.Contains(line, `"error"`) {
			kept = append(kept, line)
		}
	}
	for name, content := range map[string]string{in: text, out: strings.Join(kept, "") + `{"index":1,"ids":[`} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = whorl(t, "", nil, append(args, in, "--out", out)...)
	b, err := os.ReadFile(out)
	if err != nil || r.code != exitFailed || r.stdout != "" {
		t.Fatalf("code %d, %v, %q", r.code, err, r.stdout)
	}
	again := map[int]setLine{}
	for line := range strings.Lines(string(b)) { // those that failed are there twice
		var l setLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		again[l.Index] = l
	}
	check(again)
	if n := strings.Count(string(b), "\n"); n != len(lines)+4 {
		t.Errorf("%d lines: those that were answered are asked again", n)
	}

	// What is too long is an error of its line, or cut where the user says.
	long := make([]int32, 300)
	for i := range long {
		long[i] = int32(i % 50)
	}
	one := func(ids []int32) []int32 {
		var o answerObject
		whorl(t, "", nil, "generate", toy, "--local", "--max-new-tokens", "4", "--ignore-eos", "--json", "--ids", listOf(ids)).last(t, &o)
		return o.IDs
	}
	set := fmt.Sprintf(`{"ids":[%s]}`, listOf(long))
	if r := whorl(t, set, nil, append(args, "-")...); r.code != exitFailed || !strings.Contains(r.stdout, "let it be cut (--truncate left)") {
		t.Errorf("too long: code %d, %s%s", r.code, r.stdout, r.err)
	}
	room := 256 - 4 // of the context of TOY
	for side, want := range map[string][]int32{"left": long[len(long)-room:], "right": long[:room]} {
		got := setLines(t, whorl(t, set, nil, append(args, "-", "--truncate", side)...).ok(t).stdout)
		if !slices.Equal(got[0].IDs, one(want)) {
			t.Errorf("cut at the %s: %v", side, got[0].IDs)
		}
		var o answerObject
		whorl(t, "", nil, "generate", toy, "--local", "--max-new-tokens", "4", "--ignore-eos", "--json", "--ids", listOf(long), "--truncate", side).last(t, &o)
		if !slices.Equal(o.IDs, got[0].IDs) {
			t.Errorf("cut at the %s, alone: %v, in a set %v", side, o.IDs, got[0].IDs)
		}
	}
	for _, c := range []struct{ args, err string }{
		{"--out x", "--out and --parallel belong to a set of prompts"},
		{"--prompts - --prompt a", "--prompts has all prompts: leave out --prompt"},
		{"--prompts nowhere", "--prompts: open nowhere"},
		{"--prompts - --parallel 0", "--parallel 0: want 1 to 256"},
		{"--prompts -", "--prompts has no prompt"},
	} {
		if r := whorl(t, "", nil, append([]string{"generate", toy, "--local"}, strings.Fields(c.args)...)...); r.code != exitUsage || !strings.Contains(r.err, c.err) {
			t.Errorf("%s: code %d, %s", c.args, r.code, r.err)
		}
	}
}
