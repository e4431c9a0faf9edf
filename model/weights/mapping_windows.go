package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// basicInfo is FILE_BASIC_INFO: times in 100 ns.
type basicInfo struct {
	created, accessed, written, changed int64
	attributes                          uint32
	_                                   uint32
}

// stampOf reads the stamp of an open file.
func stampOf(file *os.File) (Stamp, error) {
	path, err := filepath.Abs(file.Name())
	if err != nil {
		return Stamp{}, err
	}
	h := windows.Handle(file.Fd())
	var id windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &id); err != nil {
		return Stamp{}, fmt.Errorf("stat %s: %w", path, err)
	}
	var t basicInfo
	if err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&t)), uint32(unsafe.Sizeof(t))); err != nil {
		return Stamp{}, fmt.Errorf("stat %s: %w", path, err)
	}
	ns := func(ticks int64) int64 {
		f := windows.Filetime{LowDateTime: uint32(ticks), HighDateTime: uint32(ticks >> 32)}
		return f.Nanoseconds()
	}
	return Stamp{
		Path: path, Size: int64(id.FileSizeHigh)<<32 | int64(id.FileSizeLow), Inode: uint64(id.FileIndexHigh)<<32 | uint64(id.FileIndexLow),
		Changed: ns(t.written), Noted: ns(t.changed),
	}, nil
}

// mapView maps the first n bytes of a file for reading; unmapView gives them back. The view
// keeps the file alone open: its handle may be closed.
func mapView(file *os.File, n int) ([]byte, error) {
	section, err := windows.CreateFileMapping(windows.Handle(file.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(section)
	addr, err := windows.MapViewOfFile(section, windows.FILE_MAP_READ, 0, 0, uintptr(n))
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// The address is of no Go object: read as a pointer through its own place, as vet asks.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n), nil
}

func unmapView(data []byte) error {
	return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data)))))
}

// forget takes whole pages of a view out of this process's memory: a hint. Unlocking what was
// never locked does just that.
func forget(pages []byte) {
	_ = windows.VirtualUnlock(uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)))
}
