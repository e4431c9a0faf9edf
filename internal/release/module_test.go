package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gomod "golang.org/x/mod/module"
)

// committed is a git repository with these files.
func committed(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "all"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

var ours = map[string]string{
	"go.mod":             "module swarm\n\ngo 1.26\n",
	"LICENSE":            "free\n",
	"node/node.go":       "package node\n\nimport (\n\t\"fmt\"\n\n\tword \"swarm/internal/word\"\n)\n\n// Say speaks.\nfunc Say() string { return fmt.Sprint(word.Of, \" of swarm/x\") }\n",
	"internal/word/w.go": "package word\n\n// Of is a word.\nconst Of = \"hello\"\n",
}

// What is published is fetched, built and run by another module under the publisher's path, and the same
// commit gives the same bytes; versions that are there stay.
func TestPublishedModule(t *testing.T) {
	dir, out := committed(t, ours), t.TempDir()
	at := time.Unix(1_700_000_000, 0)
	publish := func(version, out string) {
		t.Helper()
		p := publication{dir: dir, as: gomod.Version{Path: "example.org/Forks/swarm", Version: version}, time: at, out: out}
		if err := p.make(); err != nil {
			t.Fatal(err)
		}
	}
	publish("v0.2.0", out)
	publish("v0.10.0", out)
	publish("v0.2.0", out) // again: nothing is there twice
	twin := t.TempDir()
	publish("v0.2.0", twin)
	tree := filepath.Join("example.org", "!forks", "swarm", "@v")
	read := func(root, name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, tree, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if got := string(read(out, "list")); got != "v0.2.0\nv0.10.0\n" {
		t.Errorf("list %q", got)
	}
	if got := string(read(out, "v0.2.0.info")); got != `{"Version":"v0.2.0","Time":"2023-11-14T22:13:20Z"}`+"\n" {
		t.Errorf("info %s", got)
	}
	if !bytes.Equal(read(out, "v0.2.0.zip"), read(twin, "v0.2.0.zip")) {
		t.Error("the same commit gives two archives")
	}
	user := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module user\n\ngo 1.26\n\nrequire example.org/Forks/swarm v0.10.0\n",
		"main.go": "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/Forks/swarm/node\"\n)\n\nfunc main() { fmt.Println(node.Say()) }\n",
	} {
		if err := os.WriteFile(filepath.Join(user, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", "-mod=mod", ".")
	cmd.Dir = user
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+filepath.ToSlash(out), "GONOSUMDB=example.org", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(), "GOWORK=off")
	got, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(got), "hello of swarm/x\n") {
		t.Errorf("%v\n%s", err, got)
	}
}

// Paths that nobody can fetch are refused, with what to give.
func TestUnfetchablePaths(t *testing.T) {
	for _, v := range []gomod.Version{
		{Path: "swarm", Version: "v1.0.0"}, {Path: "example.org/swarm", Version: "1.0.0"}, {Path: "example.org/swarm", Version: "v2.0.0"},
		{Path: "example.org/swarm/v2", Version: "v1.0.0"}, {Path: "https://example.org/swarm", Version: "v1.0.0"}, {Path: "example.org/swarm", Version: ""},
	} {
		out := t.TempDir()
		err := (&publication{dir: ".", as: v, out: out}).make()
		if left, _ := os.ReadDir(out); err == nil || len(left) > 0 || !strings.Contains(err.Error(), "example.org/whorl") {
			t.Errorf("%v: %v, %v", v, err, left)
		}
	}
}

// Imports are changed, and nothing else that looks like them.
func TestImports(t *testing.T) {
	src := "// swarm/node is here\npackage a\n\nimport (\n\t\"fmt\"\n\t_ \"swarm\"\n\tn `swarm/node`\n\t\"swarmlike/x\"\n)\n\nvar s = \"swarm/node\"\n"
	want := strings.NewReplacer("_ \"swarm\"", "_ \"example.org/s\"", "n `swarm/node`", "n \"example.org/s/node\"").Replace(src)
	got, err := imports("a.go", []byte(src), "swarm", "example.org/s")
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}
