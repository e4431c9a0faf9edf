package cpu

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func newSlab(n int) (*slab, error) {
	// Room to start at a huge page's boundary; what is never touched costs nothing.
	all, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all))) % hugePage)
	s := &slab{mem: all[skip : skip+n]}
	// Only advice: kernels without huge pages refuse it and lose nothing but speed.
	_ = unix.Madvise(s.mem, unix.MADV_HUGEPAGE)
	runtime.AddCleanup(s, func(b []byte) { _ = unix.Munmap(b) }, all)
	return s, nil
}

// release gives memory between two places back to the system: it reads as zeros. What shares a
// page of the system with its neighbours stays.
func (s *slab) release(from, to int) {
	page := os.Getpagesize()
	from, to = (from+page-1)/page*page, to/page*page
	if from < to {
		_ = unix.Madvise(s.mem[from:to], unix.MADV_DONTNEED)
	}
}
