package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/internal/fakehub"
)

// hubEnv puts a fixture on a hub, and gives the environment of a user of it.
func hubEnv(t *testing.T, f *fakehub.Hub, repo, dir string) []string {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = raw
	}
	f.Put(repo, files)
	return []string{"HF_ENDPOINT=" + f.URL, "HOME=" + t.TempDir()}
}

const toyFolder = "../../model/testdata/scaled"

// A hub's name serves wherever a path does, and gives the same answer.
func TestHubNames(t *testing.T) {
	f := fakehub.New(t)
	env := hubEnv(t, f, "someone/toy", toyFolder)
	ask := func(env []string, model string, more ...string) []int32 {
		t.Helper()
		var got struct{ IDs []int32 }
		whorl(t, "", env, append([]string{"generate", model, "--local", "--ids", "1,2,3", "--max-new-tokens", "8", "--ignore-eos", "--json"}, more...)...).last(t, &got)
		return got.IDs
	}
	want := ask(nil, toyFolder)
	if got := ask(env, "someone/toy"); !slices.Equal(got, want) {
		t.Errorf("from the hub %v, from the folder %v", got, want)
	}
	sent := f.Sent("")
	if got := ask(env, "someone/toy@main"); !slices.Equal(got, want) || f.Sent("") != sent {
		t.Errorf("the second time %v, after %d bytes more", got, f.Sent("")-sent)
	}
	asked := f.Asked()
	if got := ask(append(env, "HF_HUB_OFFLINE=1"), "someone/toy"); !slices.Equal(got, want) || f.Asked() != asked {
		t.Errorf("offline %v, after %d requests", got, f.Asked()-asked)
	}
	whorl(t, "", env, "serve", "someone/toy", "--dry-run").ok(t)
	for args, says := range map[string]string{
		"someone/typo":                        "is no file or folder here, and the hub at " + f.URL + " has no model someone/typo",
		"someone/toy --revision v9":           `someone/toy has no revision "v9"`,
		"someone/toy@main --revision v9":      "name two revisions",
		toyFolder + " --revision main":        "--revision belongs to a hub name",
		"someone/toy:Q4_0":                    `someone/toy holds no "Q4_0": there are model.gguf`,
		"./someone/toy":                       "no such file or directory",
		"someone/toy --revision ../../escape": "is no revision",
	} {
		r := whorl(t, "", env, append([]string{"generate", "--local", "--ids", "1"}, strings.Fields(args)...)...)
		if r.code != exitUsage || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit %d, %s", args, r.code, r.err)
		}
	}
}

// What lies in the cache is listed, fetched ahead and deleted by command.
func TestModelsCommand(t *testing.T) {
	f := fakehub.New(t)
	env := hubEnv(t, f, "someone/toy", toyFolder)
	type row struct {
		Name, Revision, Blocks string
		Bytes                  int64
		Files                  int
		Used                   time.Time
	}
	list := func() (rows []row) {
		whorl(t, "", env, "models", "list", "--json").last(t, &rows)
		return rows
	}
	if rows := list(); len(rows) != 0 {
		t.Errorf("an empty cache holds %+v", rows)
	}
	whorl(t, "", env, "models", "get", "someone/toy").ok(t)
	sent := f.Sent("")
	rows := list()
	if len(rows) != 1 || rows[0].Name != "someone/toy" || rows[0].Revision != "main" || !strings.HasPrefix(rows[0].Blocks, "0:") || rows[0].Bytes == 0 || time.Since(rows[0].Used) > time.Hour {
		t.Errorf("%+v", rows)
	}
	whorl(t, "", env, "generate", "someone/toy", "--local", "--ids", "1", "--max-new-tokens", "1").ok(t)
	if f.Sent("") != sent {
		t.Error("what was fetched ahead was fetched again")
	}
	if out := whorl(t, "", env, "models").ok(t).stdout; !strings.Contains(out, "someone/toy  main") {
		t.Errorf("the table: %s", out)
	}
	whorl(t, "", env, "models", "rm", "someone/toy").ok(t)
	if rows := list(); len(rows) != 0 {
		t.Errorf("after rm: %+v", rows)
	}
	for _, args := range []string{"rm someone/toy", "rm nonsense", "get " + toyFolder, "get someone/toy --blocks 5:999", "get someone/toy --blocks x", "lost"} {
		if r := whorl(t, "", env, append([]string{"models"}, strings.Fields(args)...)...); r.code != exitUsage {
			t.Errorf("models %s: exit %d, %s", args, r.code, r.err)
		}
	}
}
