package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"whorl/content"
	"whorl/internal/sharedfile"
)

// chunkSize is what a map of a part counts in: the least that is fetched.
const chunkSize = 1 << 20

// maxRequest is how many chunks one request asks for: what a process that is killed may have
// to fetch again.
const maxRequest = 16

// part is a file of a repository that lies on this disk in part: a sparse file of the whole
// size, and a map with a byte for each chunk, which is 1 once the chunk is on the disk.
// Processes share it under a lock.
type part struct {
	file  File
	where place // in the cache

	mu    sync.Mutex // guards data, table and came; one Fill at a time
	data  *os.File
	table *os.File
	came  map[int]content.Hash // trees of the chunks that this Fill has written; nil for none

	bits  sync.Mutex // guards all below, which others read during a Fill
	have  []byte
	whole bool // it has become a blob
}

// The map's head: magic, version, chunk size, file size.
const tableHead = 24

func tableHeader(size int64) []byte {
	b := append(make([]byte, 0, tableHead), "whorlmap"...)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, chunkSize)
	return binary.LittleEndian.AppendUint64(b, uint64(size))
}

func (p *part) chunks() int { return int((p.file.Size + chunkSize - 1) / chunkSize) }

// open opens or makes the sparse file and its map. mu is held.
func (p *part) open() error {
	if p.data != nil {
		ours, err := p.data.Stat()
		now, err2 := os.Stat(p.where.part())
		if err == nil && err2 == nil && os.SameFile(ours, now) {
			return nil
		}
		p.closeFiles() // another process gave it up
	}
	if err := os.MkdirAll(filepath.Dir(p.where.part()), 0o755); err != nil {
		return err
	}
	data, err := sharedfile.Open(p.where.part(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return onDisk(err, p.where.part())
	}
	if st, err := data.Stat(); err != nil || st.Size() != p.file.Size {
		// A new one, or one of a crash between the two files: the map must not claim anything.
		os.Remove(p.where.table())
		if err := errors.Join(makeSparse(data), data.Truncate(p.file.Size)); err != nil {
			data.Close()
			return onDisk(err, p.where.part())
		}
	}
	table, err := sharedfile.Open(p.where.table(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		data.Close()
		return onDisk(err, p.where.table())
	}
	p.data, p.table = data, table
	return p.load()
}

// load reads the map anew, which another process may have filled. A map that is none, or of
// another file, is begun again. mu is held.
func (p *part) load() error {
	head := tableHeader(p.file.Size)
	raw := make([]byte, tableHead+p.chunks())
	n, err := p.table.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n == len(raw) && string(raw[:tableHead]) == string(head) {
		p.setHave(raw[tableHead:])
		return nil
	}
	p.setHave(make([]byte, p.chunks()))
	if err := p.table.Truncate(0); err != nil {
		return err
	}
	_, err = p.table.WriteAt(append(head, make([]byte, p.chunks())...), 0)
	return onDisk(err, p.where.table())
}

func (p *part) setHave(have []byte) {
	p.bits.Lock()
	defer p.bits.Unlock()
	p.have = have
}

// has tells whether a chunk is on the disk.
func (p *part) has(chunk int) bool {
	p.bits.Lock()
	defer p.bits.Unlock()
	return chunk >= 0 && chunk < p.chunks() && (p.whole || chunk < len(p.have) && p.have[chunk] == 1)
}

// bytesHere is how much of the file is on the disk, in whole chunks.
func (p *part) bytesHere() (n int64) {
	p.bits.Lock()
	defer p.bits.Unlock()
	for c, there := range p.have {
		if there == 1 {
			from, to := run{c, c + 1}.bytes(p.file.Size)
			n += to - from
		}
	}
	return n
}

// run is chunks [from, to).
type run struct{ from, to int }

// bytes are those of a run in a file of the given size.
func (r run) bytes(size int64) (from, to int64) {
	return int64(r.from) * chunkSize, min(int64(r.to)*chunkSize, size)
}

// missing lists the chunks of byte ranges that are not there, in runs of at most maxRequest.
// mu is held.
func (p *part) missing(ranges [][2]int64) (out []run) {
	p.bits.Lock()
	defer p.bits.Unlock()
	wanted := make([]bool, len(p.have))
	for _, r := range ranges {
		if r[0] < r[1] {
			for c := r[0] / chunkSize; c <= (r[1]-1)/chunkSize; c++ {
				wanted[c] = true
			}
		}
	}
	for c, want := range wanted {
		switch last := len(out) - 1; {
		case !want || p.have[c] == 1:
		case last >= 0 && out[last].to == c && c-out[last].from < maxRequest:
			out[last].to++
		default:
			out = append(out, run{c, c + 1})
		}
	}
	return out
}

// wrote notes that runs are on the disk: the bytes first, then the map. Safe for concurrent
// use by the transfers of one fill, which hold different runs.
func (p *part) wrote(runs ...run) error {
	if err := syncData(p.data); err != nil {
		return onDisk(err, p.where.part())
	}
	for _, r := range runs {
		ones := make([]byte, r.to-r.from)
		for i := range ones {
			ones[i] = 1
		}
		if _, err := p.table.WriteAt(ones, int64(tableHead+r.from)); err != nil {
			return onDisk(err, p.where.table())
		}
		p.bits.Lock()
		copy(p.have[r.from:r.to], ones)
		p.bits.Unlock()
	}
	return nil
}

// complete tells whether all chunks are there. mu is held.
func (p *part) complete() bool {
	p.bits.Lock()
	defer p.bits.Unlock()
	for _, c := range p.have {
		if c == 0 {
			return false
		}
	}
	return true
}

// finish checks the whole file and makes it a blob. A file that is not what the hub says is
// given up. mu is held.
func (p *part) finish() error {
	if err := p.file.verify(p.data, p.came); err != nil {
		if errors.Is(err, ErrDamaged) {
			p.drop()
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.where.blob()), 0o755); err != nil {
		return err
	}
	if err := os.Rename(p.where.part(), p.where.blob()); err != nil {
		return err
	}
	os.Remove(p.where.table())
	p.bits.Lock()
	defer p.bits.Unlock()
	p.whole = true
	return nil
}

// drop forgets all that was fetched. mu is held.
func (p *part) drop() {
	os.Remove(p.where.table())
	os.Remove(p.where.part())
	p.closeFiles()
}

func (p *part) closeFiles() {
	if p.data != nil {
		p.data.Close()
		p.table.Close()
		p.data, p.table = nil, nil
	}
}

func (p *part) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeFiles()
}

// isBlob tells whether the whole file is in the cache. mu is held.
func (p *part) isBlob() bool {
	p.bits.Lock()
	defer p.bits.Unlock()
	if !p.whole {
		st, err := os.Stat(p.where.blob())
		p.whole = err == nil && st.Mode().IsRegular() && st.Size() == p.file.Size
	}
	return p.whole
}

// lockFile takes a lock that a dead process does not keep; the file stays.
func lockFile(ctx context.Context, path string, how sharedfile.How) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := sharedfile.Open(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, onDisk(err, path)
	}
	for {
		held, err := sharedfile.Lock(f, how)
		if held {
			return f, nil
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another process holds %s: %w", path, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
