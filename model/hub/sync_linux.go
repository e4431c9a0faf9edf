package hub

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData puts what was written on the disk.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
