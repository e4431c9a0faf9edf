package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"whorl/internal/atomicfile"
	"whorl/internal/sharedfile"
)

const (
	// maxFile is more than MaxKeys take.
	maxFile = 16 << 20
	// lockTime is how long a change waits for one of another process, in looks lockEvery apart.
	lockTime, lockEvery = 5 * time.Second, 20 * time.Millisecond
)

// File is a book in a file of JSON, which only its owner may read. One that is missing is
// empty.
type File struct {
	path string

	mu    sync.Mutex // guards all below
	info  os.FileInfo
	keys  []Key // of the file as info has it
	reads int   // how often it was another
}

// OpenFile is the book at a path, whose folder must exist. It reads it, to tell at once what is
// wrong.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("the folder of %s must exist: %w", path, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", filepath.Dir(path))
	}
	_, err := f.List(context.Background())
	return f, err
}

type fileForm struct {
	Keys []Key `json:"keys"`
}

// List reads the file, unless it is as it was.
func (f *File) List(context.Context) ([]Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.read()
	return slices.Clone(f.keys), err
}

// Version tells one state of the file from another.
func (f *File) Version(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.read()
	return strconv.Itoa(f.reads), err
}

// read brings keys up to date. Caller holds mu.
func (f *File) read() error {
	file, err := sharedfile.Open(f.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if f.info != nil {
			f.reads++
		}
		f.keys, f.info = nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	// Changes replace the file: another one is another file to the system.
	if f.info != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size() {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return err
	}
	all, err := parse(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.keys, f.info = all, info
	f.reads++
	return nil
}

// parse reads a file of keys.
func parse(raw []byte) ([]Key, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("a file of keys has at most %d bytes", maxFile)
	}
	var form fileForm
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, fmt.Errorf("it is no file of keys: %w", err)
	}
	if len(form.Keys) > MaxKeys {
		return nil, ErrMany
	}
	names, ids := map[string]bool{}, map[string]bool{}
	for i := range form.Keys {
		k := &form.Keys[i]
		if err := k.Validate(); err != nil {
			return nil, err
		}
		if names[k.Name] || ids[k.ID] {
			return nil, fmt.Errorf("the key %q is there twice", k.Name)
		}
		names[k.Name], ids[k.ID] = true, true
	}
	sortKeys(form.Keys)
	return form.Keys, nil
}

func sortKeys(all []Key) {
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
}

// Add adds a key.
func (f *File) Add(ctx context.Context, k Key) error {
	if err := k.Validate(); err != nil {
		return err
	}
	return f.change(ctx, func(all []Key) ([]Key, error) {
		if len(all) >= MaxKeys {
			return nil, ErrMany
		}
		if slices.ContainsFunc(all, func(o Key) bool { return o.Name == k.Name || o.ID == k.ID }) {
			return nil, ErrTaken
		}
		return append(all, k), nil
	})
}

// Remove takes a key out.
func (f *File) Remove(ctx context.Context, which string) (found bool, err error) {
	err = f.change(ctx, func(all []Key) ([]Key, error) {
		left := slices.DeleteFunc(all, func(k Key) bool { return k.ID == which || k.Name == which })
		found = len(left) < len(all)
		if !found {
			return nil, nil
		}
		return left, nil
	})
	return found && err == nil, err
}

// Touch notes when keys were used.
func (f *File) Touch(ctx context.Context, used map[string]time.Time) error {
	return f.change(ctx, func(all []Key) ([]Key, error) {
		news := false
		for i := range all {
			if at, ok := used[all[i].ID]; ok && at.After(all[i].Used) {
				all[i].Used, news = at, true
			}
		}
		if !news {
			return nil, nil
		}
		return all, nil
	})
}

// change replaces the file by what do makes of its keys, or leaves it if that is nil. No other
// process changes it meanwhile.
func (f *File) change(ctx context.Context, do func([]Key) ([]Key, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := f.read(); err != nil {
		return err
	}
	all, err := do(slices.Clone(f.keys))
	if err != nil || all == nil {
		return err
	}
	sortKeys(all)
	raw, err := json.MarshalIndent(fileForm{all}, "", "  ")
	if err != nil {
		return err
	}
	f.info = nil
	return atomicfile.Write(f.path, append(raw, '\n'), 0o600)
}

// lock waits for the file's lock, which is a file of its own since changes replace the file.
func (f *File) lock(ctx context.Context) (*os.File, error) {
	file, err := sharedfile.Open(f.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	look := time.NewTicker(lockEvery)
	defer look.Stop()
	for {
		ok, err := sharedfile.Lock(file, sharedfile.Exclusive)
		if ok {
			return file, nil
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("%s: another process is changing it: %w", f.path, ctx.Err())
		}
	}
}
