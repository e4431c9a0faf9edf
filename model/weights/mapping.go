package weights

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mapping is one file mapped read-only, or bytes in memory (tests, fuzzing).
type mapping struct {
	data   []byte
	mapped bool
	path   string
	filler Filler // brings bytes that are not there; nil: all are
}

// mapFile maps a whole regular file. A file that is cut short by another program while it
// is mapped faults on access, as with any mapped file.
func mapFile(path string, filler Filler) (*mapping, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: not a regular file", path)
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("open %s: the file is empty", path)
	}
	if st.Size() != int64(int(st.Size())) {
		return nil, fmt.Errorf("open %s: %d bytes do not fit this machine's address space", path, st.Size())
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &mapping{data: data, mapped: true, path: path, filler: filler}, nil
}

// release drops the whole pages inside [offset, offset+n) from this process. The pages stay
// in the system's cache, and a failure is harmless: it is only a hint.
func (m *mapping) release(offset, n int64) {
	if !m.mapped {
		return
	}
	page := int64(os.Getpagesize())
	from, to := (offset+page-1)/page*page, (offset+n)/page*page
	if from < to {
		_ = unix.Madvise(m.data[from:to], unix.MADV_DONTNEED)
	}
}

func (m *mapping) close() error {
	data := m.data
	m.data = nil
	if !m.mapped {
		return nil
	}
	return unix.Munmap(data)
}

// readLimited reads a small whole file, refusing one over limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", path, limit)
	}
	return raw, nil
}
