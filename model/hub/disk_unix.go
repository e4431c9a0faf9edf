//go:build unix

package hub

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// free is what a disk has left for this user, in bytes.
func free(dir string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
			}
			return int64(st.Bavail) * int64(st.Bsize), nil
		}
	}
}

// onDiskBytes is what a file takes, which is less than its size where it is sparse.
func onDiskBytes(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Blocks * 512
	}
	return st.Size()
}

// diskFull tells whether an error says that nothing more fits.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// makeSparse does nothing: what is not written takes no room.
func makeSparse(*os.File) error { return nil }

// linkError says of an error of a symbolic link what to do.
func linkError(err error) error { return err }
