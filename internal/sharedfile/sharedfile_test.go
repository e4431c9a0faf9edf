package sharedfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// opener opens one file again and again.
func opener(t *testing.T) func() *os.File {
	path := filepath.Join(t.TempDir(), "file")
	return func() *os.File {
		f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
}

// Shared locks go together, an exclusive one goes with none, and closing gives a lock back.
func TestLock(t *testing.T) {
	open := opener(t)
	try := func(f *os.File, how How, want bool) {
		t.Helper()
		if got, err := Lock(f, how); err != nil || got != want {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	a, b, c := open(), open(), open()
	try(a, Shared, true)
	try(b, Shared, true)
	try(c, Exclusive, false)
	a.Close()
	try(c, Exclusive, false)
	b.Close()
	try(c, Exclusive, true)
	d := open()
	try(d, Shared, false)
	try(d, Exclusive, false)
	// Whoever does not ask reads and writes.
	if _, err := d.WriteString("x"); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(d.Name()); err != nil || string(raw) != "x" {
		t.Errorf("%q, %v", raw, err)
	}
	c.Close()
	try(d, Exclusive, true)
	if _, err := Lock(c, Shared); err == nil {
		t.Error("a closed file was locked")
	}
}

// What is open can be renamed and deleted, and is read under its old name no more.
func TestOpenFilesMove(t *testing.T) {
	f := opener(t)()
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	to := f.Name() + ".moved"
	if err := os.Rename(f.Name(), to); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.Name(), os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("under the old name: %v", err)
	}
	g, err := Open(to, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := os.Remove(to); err != nil {
		t.Error(err)
	}
	got := make([]byte, 4)
	if _, err := g.ReadAt(got, 0); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}
