package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

var files = []entry{{"LICENSE", 0o644, []byte("free\n")}, {"whorl", 0o755, bytes.Repeat([]byte("code"), 1000)}}

// Archives hold the files, runnable where they were, and nothing of the clock or the machine.
func TestArchives(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	a, err := tarGz("w_1", files, at.UTC())
	b, err2 := tarGz("w_1", files, at.In(time.FixedZone("elsewhere", 5*3600)))
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Fatalf("two archives differ: %v, %v", err, err2)
	}
	z, err := gzip.NewReader(bytes.NewReader(a))
	if err != nil || !z.ModTime.IsZero() || z.Name != "" {
		t.Fatalf("%+v, %v", z, err)
	}
	r := tar.NewReader(z)
	for _, f := range files {
		h, err := r.Next()
		if err != nil || h.Name != "w_1/"+f.name || h.Mode != int64(f.mode) || !h.ModTime.Equal(at) || h.Uname != "" || h.Uid != 0 {
			t.Fatalf("%+v, %v", h, err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, f.data) {
			t.Errorf("%s: %d bytes, %v", f.name, len(got), err)
		}
	}
	a, err = zipped("w_1", files, at.UTC())
	b, err2 = zipped("w_1", files, at.In(time.FixedZone("elsewhere", 5*3600)))
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Fatalf("two archives differ: %v, %v", err, err2)
	}
	list, err := zip.NewReader(bytes.NewReader(a), int64(len(a)))
	if err != nil || len(list.File) != 2 || list.File[1].Name != "w_1/whorl" || list.File[1].Mode() != 0o755 || !list.File[1].Modified.Equal(at) {
		t.Fatalf("%+v, %v", list, err)
	}
}

// The list names every module of the binary once, with what go.sum says of it.
func TestSBOM(t *testing.T) {
	info := &buildinfo.BuildInfo{
		GoVersion: "go1.26.8", Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}},
		Deps: []*debug.Module{
			{Path: "example.org/b/v2", Version: "v2.0.1", Sum: "h1:bbb="},
			{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1", Sum: "h1:aaa="}},
		},
	}
	raw, err := sbom("whorl", "v1", "linux/amd64", info, [32]byte{0xab})
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, c := range b.Components {
		refs = append(refs, c.Purl)
	}
	if got := strings.Join(refs, " "); got != "pkg:golang/example.org/b/v2@v2.0.1 pkg:golang/example.org/fork@v1.0.1 pkg:golang/std@1.26.8" {
		t.Error(got)
	}
	c := b.Metadata.Component
	if b.Format != "CycloneDX" || c.Version != "v1" || !strings.HasPrefix(c.Hashes[0].Content, "ab00") || b.Components[0].Properties[0].Value != "h1:bbb=" {
		t.Errorf("%s", raw)
	}
}

// Two runs in different folders at different times give the same bytes, which sha256sum
// accepts; the program tells its tag.
func TestTwoRunsAreEqual(t *testing.T) {
	run := func() (string, string) {
		dir, out := t.TempDir(), filepath.Join(t.TempDir(), "dist")
		for name, text := range map[string]string{
			"go.mod": "module tiny\n\ngo 1.26\n", "README.md": "text\n",
			"main.go": "package main\n\nvar version = \"dev\"\n\nfunc main() { println(version) }\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r := release{name: "tiny", pkg: ".", dir: dir, version: "v1.2.3", time: time.Unix(1_700_000_000, 0), extra: []string{"README.md"},
			targets: []string{"linux/amd64"}, out: out}
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
		sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return out, string(sums)
	}
	out, first := run()
	if _, second := run(); first != second || strings.Count(first, "\n") != 2 {
		t.Errorf("one run gives\n%sanother\n%s", first, second)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = out
	if text, err := check.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v\n%s", err, text)
	}
	info, err := buildinfo.ReadFile(filepath.Join(out, "bin", "linux_amd64", "tiny"))
	if err != nil || info.Path != "tiny" {
		t.Errorf("%+v, %v", info, err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "bin", "linux_amd64", "tiny")); err != nil || !bytes.Contains(b, []byte("v1.2.3")) {
		t.Errorf("no tag in the binary: %v", err)
	}
	if err := (&release{out: t.TempDir()}).make(); err == nil || !strings.Contains(err.Error(), "-version") {
		t.Errorf("without a version: %v", err)
	}
}

// What the Dockerfile copies from this folder is in git: a clone can build the image.
func TestDockerfileCopiesWhatIsInGit(t *testing.T) {
	raw, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "COPY" || strings.Contains(line, "--from=") {
			continue
		}
		for _, source := range words[1 : len(words)-1] {
			if strings.HasPrefix(source, "--") || strings.HasPrefix(source, "dist/") { // made by `make release`
				continue
			}
			found++
			list := exec.Command("git", "ls-files", "--", source)
			list.Dir = "../.."
			out, err := list.Output()
			if err != nil {
				t.Skipf("not proven: this is no clone of the repository (%v)", err)
			}
			if len(out) == 0 {
				t.Errorf("the Dockerfile copies %s, of which git holds nothing", source)
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d sources in the Dockerfile", found)
	}
}
