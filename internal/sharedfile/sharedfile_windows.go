package sharedfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Open opens a file as os.OpenFile does, but lets others rename and delete it meanwhile; flag
// is O_RDONLY or O_RDWR, with or without O_CREATE.
func Open(path string, flag int, _ os.FileMode) (*os.File, error) {
	access, disposition := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	if flag&os.O_CREATE != 0 {
		disposition = windows.OPEN_ALWAYS
	}
	name, err := windows.UTF16PtrFromString(path)
	if err == nil {
		var h windows.Handle
		h, err = windows.CreateFile(name, access, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, disposition, windows.FILE_ATTRIBUTE_NORMAL, 0)
		if err == nil {
			return os.NewFile(uintptr(h), path), nil
		}
	}
	return nil, &os.PathError{Op: "open", Path: path, Err: err}
}

// beyond is where the byte lies that is locked, times 4 GiB: Windows refuses reads and writes
// of locked bytes, and nobody has that many.
const beyond = 0x7fffffff

// Lock takes the lock of an open file without waiting. It tells whether it has it: another
// holder is no error. Closing the file gives it back.
func Lock(f *os.File, how How) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if how == Exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: beyond})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}
