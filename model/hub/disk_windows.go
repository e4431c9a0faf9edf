package hub

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// free is what a disk has left for this user, in bytes.
func free(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var left uint64
	if err := windows.GetDiskFreeSpaceEx(name, &left, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(left), nil
}

var getCompressedFileSize = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetCompressedFileSizeW")

// onDiskBytes is what a file takes, which is less than its size where it is sparse.
func onDiskBytes(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return st.Size()
	}
	var high uint32
	low, _, err := getCompressedFileSize.Call(uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&high)))
	if uint32(low) == 0xffffffff && !errors.Is(err, windows.ERROR_SUCCESS) {
		return st.Size()
	}
	return int64(high)<<32 | int64(uint32(low))
}

// diskFull tells whether an error says that nothing more fits.
func diskFull(err error) bool {
	for _, full := range []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED} {
		if errors.Is(err, full) {
			return true
		}
	}
	return false
}

// makeSparse has what is not written take no room. File systems without such files, as on
// most memory sticks, keep the file whole.
func makeSparse(f *os.File) error {
	var n uint32
	err := windows.DeviceIoControl(windows.Handle(f.Fd()), windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
	if errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
		return nil
	}
	return err
}

// linkError says of an error of a symbolic link what to do.
func linkError(err error) error {
	if errors.Is(err, windows.ERROR_PRIVILEGE_NOT_HELD) {
		return fmt.Errorf("%w: the cache of models holds symbolic links, which Windows allows in Developer Mode: turn it on in Settings, System, For developers, or give the path of a folder or .gguf file as MODEL", err)
	}
	return err
}
