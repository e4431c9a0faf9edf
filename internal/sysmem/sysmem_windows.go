package sysmem

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX: bytes.
type memoryStatus struct {
	length, load                  uint32
	totalPhysical, freePhysical   uint64
	totalPageFile, freePageFile   uint64
	totalVirtual, freeVirtual, ex uint64
}

// Available is what this process can take now.
func Available() (Free, error) {
	st := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&st))); ok == 0 {
		return Free{}, os.NewSyscallError("GlobalMemoryStatusEx", err)
	}
	free := Free{Bytes: int64(st.freePhysical)}
	if int64(st.freePageFile) < free.Bytes { // what is promised to programs, used or not
		free = Free{Bytes: int64(st.freePageFile), Limit: "the commit limit of Windows"}
	}
	return free, nil
}
