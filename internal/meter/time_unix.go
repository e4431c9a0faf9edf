//go:build unix

package meter

import (
	"syscall"
	"time"
)

// processorTime is what this process has used, of all threads.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
