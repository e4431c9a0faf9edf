package main

import (
	"strings"
	"testing"
)

// A GGUF in several files is planned and run as the one that was split, by any part or by the
// folder that holds them.
func TestSplitModel(t *testing.T) {
	const dir = "../../model/testdata/"
	plan := func(path string) modelPlan {
		var p modelPlan
		whorl(t, "", nil, "serve", path, "--dry-run", "--json", "--memory", "1GiB").last(t, &p)
		p.Model = ""
		return p
	}
	answer := func(path string) string {
		r := whorl(t, "", nil, "generate", path, "--local", "--ids", "5,6,7,8", "--max-new-tokens", "12", "--ignore-eos", "--json")
		if r.code != exitDone {
			t.Fatalf("%s: exit %d, %s", path, r.code, r.err)
		}
		var got struct{ IDs []int32 }
		r.last(t, &got)
		return listOf(got.IDs)
	}
	wantPlan, want := plan(dir+"gemma2q/model.gguf"), answer(dir+"gemma2q/model.gguf")
	for _, path := range []string{dir + "split", dir + "split/tiny-00002-of-00003.gguf"} {
		if got := plan(path); got != wantPlan || got.Blocks != 2 || got.BlockBytes == 0 {
			t.Errorf("%s: plan %+v, want %+v", path, got, wantPlan)
		}
		if got := answer(path); got != want || strings.Count(got, ",") != 11 {
			t.Errorf("%s: ids %s, want %s", path, got, want)
		}
	}
	r := whorl(t, "", nil, "serve", dir+"split/tiny-00004-of-00003.gguf", "--dry-run")
	if r.code != exitUsage || !strings.Contains(r.err, "no such file") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}
