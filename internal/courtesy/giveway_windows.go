package courtesy

import (
	"os"

	"golang.org/x/sys/windows"
)

// GiveWay lowers the priority of this process. undo gives back what would stay behind.
func GiveWay() (undo func(), err error) {
	return func() {}, os.NewSyscallError("SetPriorityClass", windows.SetPriorityClass(windows.CurrentProcess(), windows.IDLE_PRIORITY_CLASS))
}
