//go:build unix

package atomicfile

import (
	"errors"
	"os"
)

func rename(from, to string) error { return os.Rename(from, to) }

// syncDir puts the names in a folder on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
