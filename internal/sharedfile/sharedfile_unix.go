//go:build unix

package sharedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a file as os.OpenFile does; flag is O_RDONLY or O_RDWR, with or without O_CREATE.
func Open(path string, flag int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag, mode)
}

// Lock takes the lock of an open file without waiting. It tells whether it has it: another
// holder is no error. Closing the file gives it back.
func Lock(f *os.File, how How) (bool, error) {
	op := unix.LOCK_SH
	if how == Exclusive {
		op = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(f.Fd()), op|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
