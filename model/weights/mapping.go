package weights

import (
	"fmt"
	"io"
	"os"

	"whorl/internal/sharedfile"
)

// mapping is one file mapped read-only, or bytes in memory (tests, fuzzing).
type mapping struct {
	data   []byte
	mapped bool
	path   string
	filler Filler // brings bytes that are not there; nil: all are
	stamp  Stamp
}

// Stamp tells a file from what it becomes when anybody writes to it or puts another in its
// place: as far as the system's own notes go.
type Stamp struct {
	Path    string `json:"path"` // absolute
	Size    int64  `json:"size"`
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed_ns"` // when its bytes were last written to, since 1970
	Noted   int64  `json:"inode_ns"`   // when anything about it last changed
}

// mapFile maps a whole regular file. A file that is cut short by another program while it
// is mapped faults on access, as with any mapped file.
func mapFile(path string, filler Filler) (*mapping, error) {
	file, err := sharedfile.Open(path, os.O_RDONLY, 0)
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
	stamp, err := stampOf(file)
	if err != nil {
		return nil, err
	}
	data, err := mapView(file, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &mapping{data: data, mapped: true, path: path, filler: filler, stamp: stamp}, nil
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
		forget(m.data[from:to])
	}
}

func (m *mapping) close() error {
	data := m.data
	m.data = nil
	if !m.mapped {
		return nil
	}
	return unmapView(data)
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
