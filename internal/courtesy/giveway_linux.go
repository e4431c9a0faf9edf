package courtesy

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// least is the lowest priority: beside a program that wants all of a processor a thread with it
// gets about a seventieth.
const least = 19

// GiveWay lowers the priority of this process, of all threads that it has and will have. undo
// gives back what would stay behind.
func GiveWay() (undo func(), err error) {
	undo = func() {}
	for again := true; again; { // threads that began meanwhile have the priority of who began them
		again = false
		tasks, err := filepath.Glob("/proc/self/task/*")
		if err != nil || len(tasks) == 0 {
			return undo, errors.New("the threads of this process are not listed in /proc/self/task")
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(filepath.Base(t))
			if err != nil {
				continue
			}
			// The system call counts from 40 down to 1.
			if now, err := unix.Getpriority(unix.PRIO_PROCESS, id); err != nil || 20-now >= least {
				continue // it has ended, or has it
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, least); err != nil {
				return undo, os.NewSyscallError("setpriority", err)
			}
			again = true
		}
	}
	// Many desktops share the processor between terminals first, whatever the priority of what
	// runs in them: then this terminal has to give way too.
	const group = "/proc/self/autogroup"
	if os.WriteFile(group, []byte(strconv.Itoa(least)), 0) == nil {
		undo = func() { os.WriteFile(group, []byte("0"), 0) }
	}
	return undo, nil
}
