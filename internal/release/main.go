// Command release makes what a release consists of: for each system a static binary, an
// archive of it, and the list of all modules that are in it; and the checksums of all. With -module it makes
// the module instead, under a path of its publisher's (ADR 0039). The same commit and Go give the same bytes,
// wherever and whenever it runs. It publishes nothing.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gomod "golang.org/x/mod/module"
)

// allTargets are what releases are for.
const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// release is what to make.
type release struct {
	name    string    // of the program
	pkg     string    // import path of its main package, or a folder
	dir     string    // the module's folder
	version string    // what `whorl version` tells
	time    time.Time // of all files in archives
	extra   []string  // files that go into each archive
	targets []string  // OS/ARCH
	out     string    // folder, emptied first
}

func main() {
	r := release{name: "whorl", pkg: "./cmd/whorl", dir: ".", extra: []string{"LICENSE", "README.md"}}
	targets := flag.String("targets", allTargets, "OS/ARCH[,...]")
	flag.StringVar(&r.version, "version", "", "the tag")
	seconds := flag.Int64("time", 0, "time of all files, in seconds since 1970: that of the commit")
	flag.StringVar(&r.out, "out", "dist", "folder, emptied first; that of a module keeps its other versions")
	path := flag.String("module", "", "make the module under this path instead, such as example.org/whorl")
	flag.Parse()
	r.targets, r.time = strings.Split(*targets, ","), time.Unix(*seconds, 0).UTC()
	work := r.make
	if *path != "" {
		p := publication{dir: r.dir, as: gomod.Version{Path: *path, Version: r.version}, time: r.time, out: r.out}
		work = p.make
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// make builds all targets.
func (r *release) make() error {
	if r.version == "" {
		return errors.New("-version is empty: give the tag, such as v1.2.3")
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	extra, err := r.extras()
	if err != nil {
		return err
	}
	var made []string
	for _, t := range r.targets {
		files, err := r.target(t, extra)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		made = append(made, files...)
	}
	return sums(r.out, made)
}

func (r *release) extras() (out []entry, err error) {
	for _, name := range r.extra {
		b, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return nil, err
		}
		out = append(out, entry{name, 0o644, b})
	}
	return out, nil
}

// target builds for one system. The binary stays in bin/OS_ARCH, for containers.
func (r *release) target(target string, extra []entry) ([]string, error) {
	goos, arch, ok := strings.Cut(target, "/")
	if !ok {
		return nil, errors.New("want OS/ARCH, such as linux/amd64")
	}
	program := r.name
	if goos == "windows" {
		program += ".exe"
	}
	out, err := filepath.Abs(filepath.Join(r.out, "bin", goos+"_"+arch, program))
	if err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+r.version, "-o", out, r.pkg)
	build.Dir = r.dir
	// Nothing of this machine's habits may reach the bytes.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(out)
	if err != nil {
		return nil, err
	}
	bill, err := sbom(r.name, r.version, target, info, sha256.Sum256(b))
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("%s_%s_%s_%s", r.name, r.version, goos, arch)
	files := append([]entry{{program, 0o755, b}}, extra...)
	slices.SortFunc(files, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	pack, ending := tarGz, ".tar.gz"
	if goos == "windows" {
		pack, ending = zipped, ".zip"
	}
	packed, err := pack(base, files, r.time)
	if err != nil {
		return nil, err
	}
	made := []string{base + ending, base + ".cdx.json"}
	return made, errors.Join(
		os.WriteFile(filepath.Join(r.out, made[0]), packed, 0o644),
		os.WriteFile(filepath.Join(r.out, made[1]), bill, 0o644))
}

// sums writes SHA256SUMS, as sha256sum --check reads it.
func sums(dir string, names []string) error {
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		h := sha256.Sum256(b)
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(h[:]), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text.String()), 0o644)
}
