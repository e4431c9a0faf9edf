package cpu

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// hugePage is the size from which memory asks for huge pages: they save the misses that
// streaming weights would otherwise take every 4 KiB.
const hugePage = 2 << 20

// mapMemory gives n zero bytes outside the Go heap, committed as they are touched, aligned
// to a page. They are freed once owner is unreachable.
func mapMemory[T any](owner *T, n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	if n >= hugePage {
		// Only advice: kernels without huge pages refuse it and lose nothing but speed.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	runtime.AddCleanup(owner, func(b []byte) { _ = unix.Munmap(b) }, b)
	return b, nil
}
