//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The Dockerfile makes an image that runs without rights: built by buildah, which needs no engine,
// on an empty base. The root of a container here is not read-only: compose asks for that.
func TestImage(t *testing.T) {
	buildah, err := exec.LookPath("buildah")
	if err != nil || runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("not proven: the Dockerfile builds an image that runs: it needs buildah and root on Linux")
	}
	root := "../.."
	context := t.TempDir()
	for _, f := range []string{"Dockerfile", ".dockerignore"} {
		raw, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(context, f), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(context, "deploy"), os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(context, "dist", "bin", "linux_"+runtime.GOARCH, "whorl")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/whorl")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	store := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command(buildah, append([]string{"--storage-driver", "vfs", "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run")}, args...)...)
		c.Dir = context
		var said strings.Builder // apart from the output: the two come in no order
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("buildah %v: %v\n%s%s", args, err, out, said.String())
		}
		return strings.TrimSpace(string(out))
	}
	run("bud", "--isolation", "chroot", "--build-arg", "BASE=scratch", "--build-arg", "TARGETARCH="+runtime.GOARCH, "-t", "whorl", ".")
	lines := strings.Split(run("from", "--pull-never", "whorl"), "\n")
	box := lines[len(lines)-1]
	defer run("rm", box)
	if user := run("inspect", "--format", "{{.OCIv1.Config.User}}", box); user != "65532:65532" {
		t.Errorf("it runs as %s", user)
	}
	toy, err := filepath.Abs(filepath.Join(root, "internal/swarmtest/testdata/toy"))
	if err != nil {
		t.Fatal(err)
	}
	inside := run("run", "--isolation", "chroot", "-v", toy+":/toy:ro", box, "--", "/usr/local/bin/whorl", "generate", "/toy", "--local", "--prompt", "Hello", "--max-new-tokens", "8")
	outside, err := exec.Command(whorl, "generate", toy, "--local", "--prompt", "Hello", "--max-new-tokens", "8").Output()
	if err != nil || !strings.Contains(inside, strings.TrimSpace(string(outside))) {
		t.Errorf("in the image %q, outside %q (%v)", inside, outside, err)
	}
}
