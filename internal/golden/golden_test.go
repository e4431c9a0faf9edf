package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestFirstDifference(t *testing.T) {
	for _, c := range []struct {
		got, want string
		line      int
	}{
		{"", "", 0},
		{"a\nb\n", "a\nb\n", 0},
		{"a\nb\n", "a\nc\n", 2},
		{"a\n", "a\nb\n", 2},
		{"a", "a\n", 1},
	} {
		line, g, w, same := firstDifference(c.got, c.want)
		if line != c.line || same != (c.line == 0) || !same && g == w {
			t.Errorf("%q, %q: line %d (%q, %q), same %v; want line %d", c.got, c.want, line, g, w, same, c.line)
		}
	}
}

// recorder is a test that notes failures instead of failing.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.failed = fmt.Sprintf(format, a...)
}

func TestCheck(t *testing.T) {
	if *update {
		t.Skip("not proven: comparing with a golden file, which -update turns off")
	}
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var r recorder
	if Check(&r, path, "one\ntwo\n"); r.failed != "" {
		t.Errorf("equal text: %s", r.failed)
	}
	if Check(&r, path, "one\n2\n"); r.failed == "" {
		t.Error("a different text passed")
	}
}
