//go:build unix

package weights

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// stampOf reads the stamp of an open file.
func stampOf(file *os.File) (Stamp, error) {
	path, err := filepath.Abs(file.Name())
	if err != nil {
		return Stamp{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return Stamp{}, fmt.Errorf("stat %s: %w", path, err)
	}
	return Stamp{Path: path, Size: st.Size, Inode: uint64(st.Ino), Changed: st.Mtim.Nano(), Noted: st.Ctim.Nano()}, nil
}

// mapView maps the first n bytes of a file for reading; unmapView gives them back.
func mapView(file *os.File, n int) ([]byte, error) {
	return unix.Mmap(int(file.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapView(data []byte) error { return unix.Munmap(data) }

// forget takes whole pages of a view out of this process's memory: a hint.
func forget(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
