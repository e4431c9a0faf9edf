package hub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"whorl/internal/sharedfile"
)

// kept is a file that whorl fetched, whole or in part.
type kept struct {
	where place
	bytes int64 // on the disk
	used  time.Time
}

// keptFiles lists what whorl has fetched into the cache, those used longest ago first.
func (h *Hub) keptFiles() []kept {
	var out []kept
	marks, _ := filepath.Glob(filepath.Join(h.cfg.Cache, "models--*", ".whorl", "*.used"))
	for _, m := range marks {
		st, err := os.Stat(m)
		repo, ok := repoOf(filepath.Base(filepath.Dir(filepath.Dir(m))))
		if err != nil || !ok {
			continue
		}
		p := place{h.cfg.Cache, repo, strings.TrimSuffix(filepath.Base(m), ".used")}
		out = append(out, kept{p, onDiskBytes(p.blob()) + onDiskBytes(p.part()), st.ModTime()})
	}
	slices.SortFunc(out, func(a, b kept) int { return a.used.Compare(b.used) })
	return out
}

// room sees that so many bytes more fit the disk and the budget; files that nobody has open
// go for it, the one used longest ago first.
func (h *Hub) room(p place, bytes int64) error {
	if h.cfg.MaxDisk > 0 {
		all := h.keptFiles()
		var sum int64
		for _, k := range all {
			sum += k.bytes
		}
		for _, k := range all {
			if sum+bytes <= h.cfg.MaxDisk {
				break
			}
			if k.where != p && h.remove(k.where) {
				h.log.Info("a file of the hub's cache is deleted to make room", "repo", k.where.repo, "mib", k.bytes>>20)
				sum -= k.bytes
			}
		}
		if sum+bytes > h.cfg.MaxDisk {
			return failed(ErrDisk, nil, "%d MiB more do not fit --max-disk-space: %d of %d MiB are in use: raise it, or hold fewer blocks", mib(bytes), sum>>20, h.cfg.MaxDisk>>20)
		}
	}
	left, err := free(p.existing(h.cfg.Cache))
	if err == nil && left < bytes {
		return failed(ErrDisk, nil, "%d MiB more do not fit the disk of %s, which has %d MiB left: free some, choose another folder with --cache-dir, or let older models go with --max-disk-space", mib(bytes), h.cfg.Cache, left>>20)
	}
	return nil
}

func mib(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// existing is the nearest folder that exists, of those the file will lie in.
func (p place) existing(cache string) string {
	for _, dir := range []string{p.mine(), p.dir(), cache} {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return filepath.Dir(cache)
}

// remove deletes a file with the links to it, unless a process has it open or it is not
// whorl's; it tells whether it did.
func (h *Hub) remove(p place) bool {
	f, err := sharedfile.Open(p.used(), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if held, err := sharedfile.Lock(f, sharedfile.Exclusive); err != nil || !held {
		return false
	}
	for _, root := range []string{filepath.Join(p.dir(), "snapshots"), filepath.Join(p.mine(), "views")} {
		unlink(root, p.hash)
	}
	os.Remove(p.table())
	os.Remove(p.part())
	os.Remove(p.blob())
	os.Remove(p.used())
	return true
}

// unlink removes the links below a folder that point to a file of the given name, or to its
// part.
func unlink(root, hash string) {
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink != 0 {
			if to, err := os.Readlink(path); err == nil && strings.TrimSuffix(filepath.Base(to), ".part") == hash {
				os.Remove(path)
			}
		}
		return nil
	})
}
