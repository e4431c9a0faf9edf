package atomicfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"first", "", "a longer second"} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(got) != text || info.Mode().Perm() != 0o600 {
			t.Errorf("%q after writing %q: %v %v %v", got, text, err, serr, info.Mode())
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v %v", names, err)
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is gone is no fault
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if Remove(path) == nil {
		t.Error("a full folder is removed")
	}
}

// A write that fails leaves the old file and nothing else.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "missing", "file"), nil, 0o600); err == nil {
		t.Error("a file in no folder is written")
	}
	path := filepath.Join(dir, "taken")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a folder is overwritten: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || !names[0].IsDir() {
		t.Errorf("left behind: %v %v", names, err)
	}
}

// Whoever reads while others write sees one whole text.
func TestReadersSeeWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	text := func(i int) string { return strings.Repeat(fmt.Sprint(i%10), 1<<16) }
	if err := Write(path, []byte(text(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				if err := Write(path, []byte(text(i)), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		got, err := os.ReadFile(path)
		if err != nil || len(got) != 1<<16 || strings.Trim(string(got), string(got[:1])) != "" {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	wg.Wait()
}
