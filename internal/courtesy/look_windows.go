package courtesy

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var getSystemTimes = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetSystemTimes")

func look() (sample, error) {
	var idle windows.Filetime
	if ok, _, err := getSystemTimes.Call(uintptr(unsafe.Pointer(&idle)), 0, 0); ok == 0 {
		return sample{}, os.NewSyscallError("GetSystemTimes", err)
	}
	var begun, ended, kernel, user windows.Filetime
	err := windows.GetProcessTimes(windows.CurrentProcess(), &begun, &ended, &kernel, &user)
	return sample{time.Now(), span(idle), span(kernel) + span(user)}, os.NewSyscallError("GetProcessTimes", err)
}

// span is a time in units of 100 ns.
func span(f windows.Filetime) time.Duration {
	return (time.Duration(f.HighDateTime)<<32 + time.Duration(f.LowDateTime)) * 100
}
