package meter

import (
	"syscall"
	"time"
)

// processorTime is what this process has used, of all threads.
func processorTime() (time.Duration, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, err
	}
	var begun, ended, kernel, user syscall.Filetime
	err = syscall.GetProcessTimes(self, &begun, &ended, &kernel, &user)
	ticks := func(f syscall.Filetime) time.Duration {
		return time.Duration(f.HighDateTime)<<32 + time.Duration(f.LowDateTime)
	}
	return (ticks(kernel) + ticks(user)) * 100, err // a tick is 100 ns
}
