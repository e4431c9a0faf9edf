package hub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Model is a revision of a repository in the cache.
type Model struct {
	Repo     string    `json:"name"`
	Revision string    `json:"revision"` // a branch or tag that leads to it, else the commit
	Commit   string    `json:"commit"`
	Bytes    int64     `json:"bytes"` // on the disk
	Size     int64     `json:"size"`  // of the weights, were they whole
	Files    int       `json:"files"`
	Whole    bool      `json:"whole"` // all weights are there
	Ours     bool      `json:"ours"`  // whorl fetched it, and may delete it for room
	Used     time.Time `json:"used"`
}

// Models lists what the cache holds, those used last first. It asks nobody.
func (h *Hub) Models() ([]Model, error) {
	dirs, err := filepath.Glob(filepath.Join(h.cfg.Cache, "models--*"))
	if err != nil {
		return nil, err
	}
	var out []Model
	for _, dir := range dirs {
		if repo, ok := repoOf(filepath.Base(dir)); ok {
			out = append(out, h.revisions(repo)...)
		}
	}
	slices.SortFunc(out, func(a, b Model) int { return b.Used.Compare(a.Used) })
	return out, nil
}

// revisions lists the commits of a repository that the cache has files of.
func (h *Hub) revisions(repo string) (out []Model) {
	root := place{cache: h.cfg.Cache, repo: repo}
	names := map[string]string{} // by commit
	refs := filepath.Join(root.dir(), "refs")
	filepath.WalkDir(refs, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if raw, err := os.ReadFile(path); err == nil {
				rel, _ := filepath.Rel(refs, path)
				names[strings.TrimSpace(string(raw))] = filepath.ToSlash(rel)
			}
		}
		return nil
	})
	commits := map[string]bool{}
	for _, pattern := range []string{root.snapshot("*"), root.view("*")} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			if c := filepath.Base(p); commitPattern.MatchString(c) {
				commits[c] = true
			}
		}
	}
	for c := range commits {
		m := Model{Repo: repo, Revision: first(names[c], c), Commit: c, Whole: true}
		files := linked(root.snapshot(c))
		for path, target := range linked(root.view(c)) {
			files[path] = target
		}
		seen := map[string]bool{}
		for path, target := range files {
			st, err := os.Stat(target)
			if err != nil || seen[target] {
				continue
			}
			seen[target] = true
			p := place{h.cfg.Cache, repo, strings.TrimSuffix(filepath.Base(target), ".part")}
			m.Files++
			m.Bytes += onDiskBytes(target)
			if strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, ".gguf") {
				m.Size += st.Size()
			}
			if strings.HasSuffix(target, ".part") {
				m.Whole = false
			}
			used := st.ModTime()
			if mark, err := os.Stat(p.used()); err == nil {
				m.Ours, used = true, mark.ModTime()
			}
			if used.After(m.Used) {
				m.Used = used
			}
		}
		if m.Files > 0 {
			out = append(out, m)
		}
	}
	return out
}

// linked lists the links below a folder, with what they lead to.
func linked(root string) map[string]string {
	out := map[string]string{}
	filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink != 0 {
			if to, err := filepath.EvalSymlinks(path); err == nil {
				rel, _ := filepath.Rel(root, path)
				out[filepath.ToSlash(rel)] = to
			}
		}
		return nil
	})
	return out
}

// Remove deletes what whorl fetched of a repository, of one revision or of all: files that a
// process of whorl has open stay, and those of other clients unless foreign is set. It tells how many bytes went, and how
// many files stayed.
func (h *Hub) Remove(n Name, foreign bool) (bytes int64, stayed int) {
	root := place{cache: h.cfg.Cache, repo: n.Repo}
	commits := []string{"*"}
	if n.Revision != "" {
		commit := n.Revision
		if raw, err := os.ReadFile(root.ref(n.Revision)); err == nil {
			commit = strings.TrimSpace(string(raw))
		}
		commits = []string{commit}
	}
	targets := map[string]bool{}
	for _, c := range commits {
		for _, pattern := range []string{root.snapshot(c), root.view(c)} {
			dirs, _ := filepath.Glob(pattern)
			for _, dir := range dirs {
				for _, to := range linked(dir) {
					targets[to] = true
				}
			}
		}
	}
	for to := range targets {
		size := onDiskBytes(to)
		p := place{h.cfg.Cache, n.Repo, strings.TrimSuffix(filepath.Base(to), ".part")}
		if foreign {
			p.own() // one that cannot be marked stays
		}
		if h.remove(p) {
			bytes += size
		} else {
			stayed++
		}
	}
	return bytes, stayed
}
