package hub

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"whorl/content"
	"whorl/internal/atomicfile"
	"whorl/internal/sharedfile"
)

// ChunkSize is what maps of parts count in, and what an Origin brings at once.
const ChunkSize = chunkSize

// Origin brings chunks of a file that is named by its tree, in any order, and calls write for
// each, from several goroutines. tree is that of the chunk: the origin has checked it.
type Origin func(ctx context.Context, f File, chunks []int, write Write) error

// Write takes a chunk that an Origin brings; data is the caller's again when it returns.
type Write func(chunk int, tree content.Hash, data []byte) error

// peers is the owner of what comes from peers: folders of the cache that no hub has, named by
// the hash of what they hold, so that whoever tells of wrong files spoils no others.
const peers = "whorl"

// OpenTrees opens files that are named by their trees and come from elsewhere than a hub: key,
// 40 hex digits, names all of them. As with Open all that is small is fetched, and weights are
// when they are asked for. A nil origin is for what is there already.
func (h *Hub) OpenTrees(ctx context.Context, key string, files []File, from Origin) (*Snapshot, error) {
	n := Name{Repo: peers + "/" + key}
	root := place{cache: h.cfg.Cache, repo: n.Repo}
	if !commitPattern.MatchString(key) {
		return nil, failed(ErrDamaged, nil, "%.60q is no name for files: want 40 hex digits", key)
	}
	l := &listing{Repo: n.Repo, Commit: key, Files: files}
	for _, f := range files {
		if bad := f.check(); bad != "" || !f.Tree || !safePath(f.Path) {
			return nil, failed(ErrDamaged, nil, "%.100q cannot be a file of a model %s", f.Path, bad)
		}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root.mine(), 0o755); err != nil {
		return nil, onDisk(err, root.mine())
	}
	if err := atomicfile.Write(root.listing(key), raw, 0o644); err != nil {
		return nil, onDisk(err, root.listing(key))
	}
	s := &Snapshot{Name: n, Commit: key, h: h, from: from, parts: map[string]*part{}}
	if err := s.build(ctx, l); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// gather has an origin bring runs, and writes them down.
func (h *Hub) gather(ctx context.Context, from Origin, p *part, todo []run) error {
	if from == nil {
		return failed(ErrOffline, nil, "%s is on this disk in part only, and nobody is asked for the rest", p.file.Path)
	}
	var chunks []int
	for _, r := range todo {
		for c := r.from; c < r.to; c++ {
			chunks = append(chunks, c)
		}
	}
	notes := startLedger(p)
	err := from(ctx, p.file, chunks, func(chunk int, tree content.Hash, data []byte) error {
		at, end := run{chunk, chunk + 1}.bytes(p.file.Size)
		if int64(len(data)) != end-at {
			return failed(ErrDamaged, nil, "chunk %d of %s came with %d bytes instead of %d", chunk, p.file.Path, len(data), end-at)
		}
		if _, err := p.data.WriteAt(data, at); err != nil {
			return onDisk(err, p.where.part())
		}
		h.fetched.Add(int64(len(data)))
		return notes.add(chunk, tree)
	})
	return errors.Join(err, notes.close())
}

// Holding is a file of a snapshot, all or a part of it, as others may read it meanwhile. Safe
// for concurrent use.
type Holding struct {
	File File
	p    *part

	mu   sync.Mutex // guards file
	file *os.File   // nil before it is read first
}

// Holdings lists the files of the snapshot that may be passed on; they are closed with it.
func (s *Snapshot) Holdings() []*Holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		for _, p := range s.parts {
			s.held = append(s.held, &Holding{File: p.file, p: p})
		}
	}
	return s.held
}

// HoldingAt is the one at a path as a loader opens it; nil for none.
func (s *Snapshot) HoldingAt(path string) *Holding {
	p := s.partAt(path)
	for _, f := range s.Holdings() {
		if f.p == p {
			return f
		}
	}
	return nil
}

// Has tells whether a chunk is there.
func (f *Holding) Has(chunk int) bool { return f.p.has(chunk) }

// ReadAt reads bytes of the file; where none were fetched yet they are zeros.
func (f *Holding) ReadAt(b []byte, off int64) (int, error) {
	f.mu.Lock()
	if f.file == nil {
		// A part that becomes a blob stays the same file.
		file, err := sharedfile.Open(f.p.where.blob(), os.O_RDONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			file, err = sharedfile.Open(f.p.where.part(), os.O_RDONLY, 0)
		}
		if errors.Is(err, os.ErrNotExist) { // it became a blob in between
			file, err = sharedfile.Open(f.p.where.blob(), os.O_RDONLY, 0)
		}
		if err != nil {
			f.mu.Unlock()
			return 0, err
		}
		f.file = file
	}
	file := f.file
	f.mu.Unlock()
	if off >= f.File.Size {
		return 0, io.EOF
	}
	return file.ReadAt(b, off)
}

func (f *Holding) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
	}
}

// notes lie beside the files of peers: what is known of them, by names without folders.
func (h *Hub) note(key, name string) string {
	return filepath.Join(place{cache: h.cfg.Cache, repo: peers + "/" + key}.mine(), "note-"+name)
}

// Note reads what SaveNote wrote; nil if there is nothing.
func (h *Hub) Note(key, name string) []byte {
	raw, err := os.ReadFile(h.note(key, name))
	if err != nil {
		return nil
	}
	return raw
}

// SaveNote keeps something about the files of peers that key names.
func (h *Hub) SaveNote(key, name string, data []byte) error {
	path := h.note(key, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return onDisk(err, path)
	}
	return onDisk(atomicfile.Write(path, data, 0o644), path)
}

// FindNote reads a note of that name, whatever files it is about, and tells their key.
func (h *Hub) FindNote(name string) (key string, data []byte) {
	found, _ := filepath.Glob(h.note("*", name))
	for _, path := range found {
		if raw, err := os.ReadFile(path); err == nil {
			if repo, ok := repoOf(filepath.Base(filepath.Dir(filepath.Dir(path)))); ok {
				return filepath.Base(repo), raw
			}
		}
	}
	return "", nil
}

// Notes lists the notes about a model that came from peers whose names begin so.
func (h *Hub) Notes(m Model, prefix string) (out [][]byte) {
	key, ok := strings.CutPrefix(m.Repo, peers+"/")
	if !ok || !commitPattern.MatchString(key) {
		return nil
	}
	found, _ := filepath.Glob(h.note(key, prefix+"*"))
	for _, path := range found {
		if raw, err := os.ReadFile(path); err == nil {
			out = append(out, raw)
		}
	}
	return out
}
