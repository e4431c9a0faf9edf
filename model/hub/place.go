package hub

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"whorl/internal/sharedfile"
)

// place is where a blob of a repository lies in the cache.
//
//	models--OWNER--NAME/blobs/HASH                whole files, shared with the Python client
//	models--OWNER--NAME/snapshots/COMMIT/PATH     links to blobs, likewise
//	models--OWNER--NAME/refs/REVISION             a commit, likewise
//	models--OWNER--NAME/.whorl/HASH.part, .map    a file in part, and which chunks are there
//	models--OWNER--NAME/.whorl/HASH.used          this file is whorl's; when it was used last
//	models--OWNER--NAME/.whorl/views/COMMIT/PATH  links to blobs and parts
//	models--OWNER--NAME/.whorl/COMMIT.json        what the commit holds
//	.locks/models--OWNER--NAME/HASH.lock          taken while a file is fetched, by either client
type place struct{ cache, repo, hash string }

func (p place) dir() string   { return filepath.Join(p.cache, folder(p.repo)) }
func (p place) mine() string  { return filepath.Join(p.dir(), ".whorl") }
func (p place) blob() string  { return filepath.Join(p.dir(), "blobs", p.hash) }
func (p place) part() string  { return filepath.Join(p.mine(), p.hash+".part") }
func (p place) table() string { return filepath.Join(p.mine(), p.hash+".map") }
func (p place) used() string  { return filepath.Join(p.mine(), p.hash+".used") }
func (p place) lock() string  { return filepath.Join(p.cache, ".locks", folder(p.repo), p.hash+".lock") }
func (p place) ref(r string) string {
	return filepath.Join(p.dir(), "refs", filepath.FromSlash(r))
}
func (p place) snapshot(commit string) string { return filepath.Join(p.dir(), "snapshots", commit) }
func (p place) view(commit string) string     { return filepath.Join(p.mine(), "views", commit) }
func (p place) listing(commit string) string  { return filepath.Join(p.mine(), commit+".json") }

// own marks a blob as one that whorl fetches, which it may delete some day.
func (p place) own() error {
	if err := os.MkdirAll(p.mine(), 0o755); err != nil {
		return err
	}
	f, err := sharedfile.Open(p.used(), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return onDisk(err, p.used())
	}
	return f.Close()
}

// touch notes that a blob is used now. One that another client fetched has no mark.
func (p place) touch() {
	now := time.Now()
	os.Chtimes(p.used(), now, now)
}

// link points a path below a folder of links to a file, atomically.
func link(dir, name, target string) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	rel, err := filepath.Rel(filepath.Dir(path), target)
	if err != nil {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == rel {
		return nil
	}
	tmp := fmt.Sprintf("%s.%x.new", path, rand.Uint64())
	if err := os.Symlink(rel, tmp); err != nil {
		return onDisk(linkError(err), path)
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return err
	}
	return nil
}

// repoOf is the repository that a folder of the cache is of; false if it is none.
func repoOf(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "models--")
	if !ok {
		return "", false
	}
	owner, model, ok := strings.Cut(rest, "--")
	return owner + "/" + model, ok && owner != "" && model != ""
}
