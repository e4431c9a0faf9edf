// Package atomicfile writes whole files: after a crash or a power cut there is the old
// file or the new one, and never a part of either.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Remove removes the file at path, if there is one; it is gone for good when Remove returns.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Write replaces the file at path by data, with these permissions. The bytes are on the
// disk before the name points to them, and so is the name when Write returns. On an error
// the old file is untouched and nothing else is left behind.
func Write(path string, data []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = errors.Join(tmp.Chmod(mode), tmp.Sync())
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(dir)
}
