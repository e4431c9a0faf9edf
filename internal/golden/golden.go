// Package golden compares text with files under testdata and rewrites them on request:
// `go test ./that/package -update`, then read the diff. It is for tests alone, and knows
// nothing of what the text means.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Check fails the test where got differs from the golden file, and names the first line
// that does. With -update the file is written instead.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: make it with -update", err)
	}
	if line, g, w, same := firstDifference(got, string(want)); !same {
		t.Errorf("%s, line %d:\n got %q\nwant %q\n(-update rewrites the file; read its diff)", path, line, g, w)
	}
}
