//go:build unix && !linux

package courtesy

import (
	"os"

	"golang.org/x/sys/unix"
)

// GiveWay lowers the priority of this process. undo gives back what would stay behind.
func GiveWay() (undo func(), err error) {
	const least = 19
	return func() {}, os.NewSyscallError("setpriority", unix.Setpriority(unix.PRIO_PROCESS, 0, least))
}
