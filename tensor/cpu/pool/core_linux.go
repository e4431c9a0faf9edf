//go:build linux && amd64 && !purego

package pool

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// hasRDTSCP tells whether the processor has that instruction.
func hasRDTSCP() bool

var knowsCore = hasRDTSCP()

// core numbers the core that runs the calling thread; it is negative if unknown.
func core() int64 {
	if !knowsCore {
		return -1
	}
	return rdtscpCore()
}

// rdtscpCore reads the number that Linux keeps beside the time stamp counter.
func rdtscpCore() int64

// leaveCore moves the calling thread to another core, if it may use one. It may come back.
func leaveCore(core int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return
	}
	others := all
	others.Clear(int(core))
	if unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &all)
	}
}
