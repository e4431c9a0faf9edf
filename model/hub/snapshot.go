package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"whorl/internal/atomicfile"
	"whorl/internal/sharedfile"
)

// Snapshot is a model of one commit in the cache. Its weight files may be there in part; Fill
// brings what is missing. Close it when nothing of it is mapped any more.
type Snapshot struct {
	Name   Name
	Commit string
	// Path is what a loader opens: a folder, or a GGUF file. Links below it lead to sparse files
	// where Partly says so.
	Path string
	// Weights are the files that may be there in part.
	Weights []File
	// Open says that the hub gives the files to everybody, without terms or a token.
	Open bool

	h     *Hub
	from  Origin           // of files that are named by trees; nil: the hub alone
	parts map[string]*part // by path below the view
	locks []*os.File       // keep files from being deleted

	mu   sync.Mutex // guards held
	held []*Holding // nil before Holdings
}

// Open finds a model at the hub, or in the cache where the hub cannot be reached or must not
// be asked, and fetches all that is small. Of weight files nothing is fetched; Fill does.
func (h *Hub) Open(ctx context.Context, n Name) (*Snapshot, error) {
	l, err := h.look(ctx, n)
	if err != nil {
		return nil, err
	}
	return h.opened(n, l, func(s *Snapshot) error { return s.build(ctx, l) })
}

// opened makes the snapshot of a listing, which build completes.
func (h *Hub) opened(n Name, l *listing, build func(*Snapshot) error) (*Snapshot, error) {
	s := &Snapshot{Name: n, Commit: l.Commit, Open: l.Closed != nil && !*l.Closed, h: h, parts: map[string]*part{}}
	if err := build(s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// look says what the commit holds that a name means now.
func (h *Hub) look(ctx context.Context, n Name) (*listing, error) {
	root := place{cache: h.cfg.Cache, repo: n.Repo}
	if commitPattern.MatchString(n.Revision) {
		if l, err := readListing(root.listing(n.Revision)); err == nil {
			return l, nil // what has its commit's name never changes
		}
	}
	if h.cfg.Offline {
		return h.cached(n)
	}
	l, err := h.list(ctx, n)
	if errors.Is(err, ErrReach) || errors.Is(err, ErrLimited) {
		if old, cerr := h.cached(n); cerr == nil {
			h.log.Warn("the hub cannot be asked, so the copy in the cache is used", "model", n.String(), "commit", old.Commit, "reason", err)
			return old, nil
		}
	}
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root.mine(), 0o755); err != nil {
		return nil, err
	}
	if err := atomicfile.Write(root.listing(l.Commit), raw, 0o644); err != nil {
		return nil, onDisk(err, root.listing(l.Commit))
	}
	if ref := root.ref(n.revision()); n.revision() != l.Commit {
		if err := os.MkdirAll(filepath.Dir(ref), 0o755); err != nil {
			return nil, err
		}
		if err := atomicfile.Write(ref, []byte(l.Commit), 0o644); err != nil {
			return nil, onDisk(err, ref)
		}
	}
	return l, nil
}

func readListing(path string) (*listing, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := new(listing)
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range l.Files {
		if bad := f.check(); bad != "" || !safePath(f.Path) {
			return nil, fmt.Errorf("%s: %q %s", path, f.Path, bad)
		}
	}
	return l, nil
}

// cached is what the cache knows of a name, without a request: what whorl wrote down, or the
// links that the Python client left.
func (h *Hub) cached(n Name) (*listing, error) {
	root := place{cache: h.cfg.Cache, repo: n.Repo}
	commit := n.Revision
	if !commitPattern.MatchString(commit) {
		raw, err := os.ReadFile(root.ref(n.revision()))
		if commit = strings.TrimSpace(string(raw)); err != nil || !commitPattern.MatchString(commit) {
			return nil, failed(ErrOffline, nil, "%s is not in the cache at %s, and HF_HUB_OFFLINE is set or the hub cannot be reached: fetch it first with `whorl models get %s`", n, h.cfg.Cache, n)
		}
	}
	if l, err := readListing(root.listing(commit)); err == nil {
		return l, nil
	}
	l := &listing{Repo: n.Repo, Commit: commit}
	dir := root.snapshot(commit)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := os.Stat(path)
		target, lerr := filepath.EvalSymlinks(path)
		rel, rerr := filepath.Rel(dir, path)
		if err != nil || lerr != nil || rerr != nil {
			return nil // a link to nothing: not fetched
		}
		f := File{Path: filepath.ToSlash(rel), Size: st.Size(), Hash: filepath.Base(target)}
		if f.check() == "" && safePath(f.Path) {
			l.Files = append(l.Files, f)
		}
		return nil
	})
	if err != nil || len(l.Files) == 0 {
		return nil, failed(ErrOffline, err, "revision %s of %s is not in the cache at %s, and HF_HUB_OFFLINE is set or the hub cannot be reached", n.revision(), n.Repo, h.cfg.Cache)
	}
	return l, nil
}

// build fetches what is small and lays out the view.
func (s *Snapshot) build(ctx context.Context, l *listing) error {
	root := place{cache: s.h.cfg.Cache, repo: s.Name.Repo}
	view := root.view(s.Commit)
	s.Path = view
	pick := s.Name.File
	_, single := l.file(singleWeights)
	index, sharded := l.file(weightsIndex)
	_, isAdapter := l.file(adapterWeights)
	switch {
	case pick != "" || !single && !sharded && !isAdapter:
		files, err := l.gguf(pick)
		if err != nil {
			return s.noWeights(l, err)
		}
		s.Weights, s.Path = files, filepath.Join(view, filepath.FromSlash(files[0].Path))
		return s.lay(ctx, l, nil)
	case isAdapter && !single && !sharded:
		return s.buildAdapter(ctx, l)
	case single && !sharded:
		f, _ := l.file(singleWeights)
		s.Weights = []File{f}
		return s.lay(ctx, l, l.small())
	}
	if err := s.lay(ctx, l, l.small()); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(view, index.Path))
	if err != nil {
		return err
	}
	if s.Weights, err = l.shards(raw); err != nil {
		return err
	}
	return s.lay(ctx, l, nil)
}

// noWeights says of a repository without GGUF files which others it has that do not serve.
func (s *Snapshot) noWeights(l *listing, err error) error {
	if !errors.Is(err, ErrNotFound) || s.Name.File != "" {
		return err
	}
	for _, f := range l.Files {
		if strings.HasSuffix(f.Path, ".bin") || strings.HasSuffix(f.Path, ".pth") {
			return failed(ErrNotFound, nil, "%s has its weights as %s and neither safetensors nor GGUF: take a repository that has", l.Repo, f.Path)
		}
	}
	return failed(ErrNotFound, nil, "%s holds neither %s nor a .gguf file: it is no model that can be served", l.Repo, singleWeights)
}

// lay fetches files whole and links them and the weights into the view.
func (s *Snapshot) lay(ctx context.Context, l *listing, whole []File) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, s.h.cfg.Parallel))
	for _, f := range slices.Concat(whole, s.Weights) {
		if s.parts[f.Path] != nil {
			continue
		}
		p := &part{file: f, where: place{s.h.cfg.Cache, s.Name.Repo, f.Hash}}
		s.parts[f.Path] = p
		if err := s.pin(p); err != nil {
			return err
		}
		if p.isBlob() {
			s.h.found.Add(f.Size)
		}
		if slices.Contains(whole, f) {
			g.Go(func() error {
				return s.fill(gctx, p, [][2]int64{{0, f.Size}})
			})
			continue
		}
		if err := s.shape(p); err != nil {
			return err
		}
	}
	return g.Wait()
}

// shape makes a file's sparse form, so that it can be mapped, and links what there is.
func (s *Snapshot) shape(p *part) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isBlob() {
		lock, err := lockFile(context.Background(), p.where.lock(), sharedfile.Exclusive)
		if err != nil {
			return err
		}
		defer lock.Close()
		if !p.isBlob() {
			if err := p.open(); err != nil {
				return err
			}
			s.h.found.Add(p.bytesHere())
		}
	}
	return s.linkTo(p)
}

// linkTo points the view, and of a whole file the snapshot too, to what there is. p.mu is held.
func (s *Snapshot) linkTo(p *part) error {
	target := p.where.part()
	if p.isBlob() {
		target = p.where.blob()
		if err := link(p.where.snapshot(s.Commit), p.file.Path, target); err != nil {
			return err
		}
	}
	return link(p.where.view(s.Commit), p.file.Path, target)
}

// fill brings ranges of a file, and links it once it is whole.
func (s *Snapshot) fill(ctx context.Context, p *part, ranges [][2]int64) error {
	if p.file.Size == 0 {
		return s.empty(p)
	}
	err := s.h.fill(ctx, p, ranges, func(ctx context.Context, todo []run) error {
		if p.file.Tree {
			return s.h.gather(ctx, s.from, p, todo)
		}
		return s.h.transfer(ctx, s.Name, s.Commit, p, todo)
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.linkTo(p)
}

// empty makes a file of no bytes.
func (s *Snapshot) empty(p *part) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(p.where.blob()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(p.where.blob(), nil, 0o644); err != nil {
		return onDisk(err, p.where.blob())
	}
	return s.linkTo(p)
}

// pin keeps a file that whorl fetches from being deleted while the snapshot is open.
func (s *Snapshot) pin(p *part) error {
	_, err := os.Stat(p.where.blob())
	_, marked := os.Stat(p.where.used())
	if err == nil && marked != nil {
		return nil // another client's: it is not ours to delete
	}
	if err := p.where.own(); err != nil {
		return err
	}
	lock, err := lockFile(context.Background(), p.where.used(), sharedfile.Shared)
	if err != nil {
		return err
	}
	if !s.h.cfg.Peek {
		p.where.touch()
	}
	s.locks = append(s.locks, lock)
	return nil
}

// Partly tells whether any weights are missing.
func (s *Snapshot) Partly() bool {
	for _, p := range s.parts {
		p.mu.Lock()
		whole := p.isBlob()
		p.mu.Unlock()
		if !whole {
			return true
		}
	}
	return false
}

// partAt is the file at a path below the view, nil for none.
func (s *Snapshot) partAt(path string) *part {
	root := place{cache: s.h.cfg.Cache, repo: s.Name.Repo}
	rel, err := filepath.Rel(root.view(s.Commit), path)
	if err != nil {
		return nil
	}
	return s.parts[filepath.ToSlash(rel)]
}

// Fill returns once byte ranges [from, to) of a file below Path are on the disk. path is as
// the loader opened it.
func (s *Snapshot) Fill(ctx context.Context, path string, ranges [][2]int64) error {
	p := s.partAt(path)
	if p == nil {
		return fmt.Errorf("%s is no file of %s", path, s.Name)
	}
	for _, r := range ranges {
		if r[0] < 0 || r[0] > r[1] || r[1] > p.file.Size {
			return fmt.Errorf("bytes %d to %d of %s, which has %d", r[0], r[1], p.file.Path, p.file.Size)
		}
	}
	return s.fill(ctx, p, ranges)
}

// Has tells whether byte ranges of a file below Path are on the disk.
func (s *Snapshot) Has(path string, ranges [][2]int64) bool {
	p := s.partAt(path)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isBlob() || p.open() == nil && p.load() == nil && len(p.missing(ranges)) == 0
}

// FillAll fetches all weights whole, and so checks them against the hub's hashes.
func (s *Snapshot) FillAll(ctx context.Context) error {
	for _, f := range s.Weights {
		if err := s.fill(ctx, s.parts[f.Path], [][2]int64{{0, f.Size}}); err != nil {
			return err
		}
	}
	return nil
}

// Forget gives up what is here of weight files in part, because it turned out to be wrong: a
// range cannot be checked by the hash of its file. Whole ones stay.
func (s *Snapshot) Forget() error {
	var errs []error
	for _, f := range s.Weights {
		p := s.parts[f.Path]
		p.mu.Lock()
		lock, err := lockFile(context.Background(), p.where.lock(), sharedfile.Exclusive)
		if err == nil {
			if !p.isBlob() && !p.file.Tree {
				p.drop()
				err = p.open() // whoever maps the view finds a file
				if err == nil {
					err = s.linkTo(p)
				}
			}
			err = errors.Join(err, lock.Close())
		}
		p.mu.Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close lets other processes delete the files.
func (s *Snapshot) Close() error {
	for _, p := range s.parts {
		p.close()
	}
	s.mu.Lock()
	for _, f := range s.held {
		f.close()
	}
	s.mu.Unlock()
	var errs []error
	for _, l := range s.locks {
		errs = append(errs, l.Close())
	}
	s.locks = nil
	return errors.Join(errs...)
}
