package keys_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/keys"
	"whorl/internal/keys/keystest"
)

// A file is a book, has no secret in it and is its owner's alone.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	keystest.Book(t, func() keys.Book {
		f, err := keys.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	})
	raw, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(raw), "whorl_") {
		t.Errorf("%v: %s", err, raw)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}
