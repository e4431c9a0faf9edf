package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"whorl/content"
	"whorl/internal/atomicfile"
	"whorl/model"
	"whorl/model/weights"
	"whorl/swarm/share"
)

// bundle is a model's files as nodes pass them on.
type bundle struct {
	share.Bundle
	hashes map[content.Hash][]content.Hash // of pieces, by file
}

// bundleOf reads and names all files of a checkpoint.
func bundleOf(ctx context.Context, ck *model.Checkpoint, cache treeCache) (*bundle, error) {
	b := &bundle{hashes: map[content.Hash][]content.Hash{}}
	stamps := map[string]weights.Stamp{}
	for _, s := range ck.Stamps() {
		stamps[s.Path] = s
	}
	var files []share.File
	began := time.Now()
	var read int64
	for name, path := range ck.Files() {
		o, hashes, fresh, err := cache.tree(ctx, path, stamps)
		if err != nil {
			return nil, fmt.Errorf("hash %s: %w", path, err)
		}
		if fresh {
			read += o.Size
		}
		files = append(files, share.File{Name: name, Object: o})
		b.hashes[o.Root] = hashes
	}
	slices.SortFunc(files, func(a, b share.File) int { return cmp.Compare(a.Name, b.Name) })
	var err error
	b.Bundle, err = share.NewBundle(files)
	slog.Debug("hashed the files for others to fetch", "mib", read>>20, "took", time.Since(began).Round(time.Millisecond).String())
	return b, err
}

// treeCache remembers, in a folder, the trees of files, as model.ContentsCache does of their
// contents. "" remembers nothing.
type treeCache string

// treeFile is one of the folder.
type treeFile struct {
	Stamp  weights.Stamp `json:"file"`
	Root   content.Hash  `json:"root"`
	Hashes []byte        `json:"hashes"` // of pieces, one behind the other
}

var treeDomain = content.NewDomain("whorl tree cache")

func (d treeCache) path(file string) string {
	return filepath.Join(string(d), treeDomain.Of([]byte(file)).String()[:32]+".json")
}

// tree names a file; fresh says that it was read for that. Files without a stamp are small.
func (d treeCache) tree(ctx context.Context, path string, stamps map[string]weights.Stamp) (o share.Object, hashes []content.Hash, fresh bool, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return o, nil, false, err
	}
	stamp, keep := stamps[abs]
	keep = keep && d != ""
	if keep {
		if o, hashes, ok := d.load(stamp); ok {
			return o, hashes, false, nil
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return o, nil, false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return o, nil, false, err
	}
	if o, hashes, err = share.HashObject(ctx, f, st.Size()); err != nil || !keep {
		return o, hashes, true, err
	}
	raw, err := json.Marshal(treeFile{stamp, o.Root, joinHashes(hashes)})
	if err == nil {
		if err = os.MkdirAll(string(d), 0o700); err == nil {
			err = atomicfile.Write(d.path(abs), raw, 0o600)
		}
	}
	if err != nil {
		slog.Warn("the tree of a file cannot be kept, and is made again at the next start", "file", path, "reason", err)
	}
	return o, hashes, true, nil
}

// load is what is known of a file that has not changed since.
func (d treeCache) load(stamp weights.Stamp) (share.Object, []content.Hash, bool) {
	raw, err := os.ReadFile(d.path(stamp.Path))
	if err != nil {
		return share.Object{}, nil, false
	}
	var t treeFile
	if json.Unmarshal(raw, &t) != nil || t.Stamp != stamp {
		return share.Object{}, nil, false
	}
	o := share.Object{Root: t.Root, Size: stamp.Size}
	hashes := splitHashes(t.Hashes)
	return o, hashes, o.Fits(hashes)
}

// joinHashes writes hashes one behind the other.
func joinHashes(hashes []content.Hash) []byte {
	out := make([]byte, 0, len(hashes)*len(content.Hash{}))
	for _, h := range hashes {
		out = append(out, h[:]...)
	}
	return out
}

// splitHashes reads what joinHashes writes.
func splitHashes(raw []byte) []content.Hash {
	out := make([]content.Hash, len(raw)/len(content.Hash{}))
	for i := range out {
		copy(out[i][:], raw[i*len(out[i]):])
	}
	return out
}

// treeCache is where a node remembers the trees of files.
func (f *DataOptions) treeCache(ctx context.Context) treeCache {
	root, _ := f.root(ctx)
	if root == "" {
		return ""
	}
	return treeCache(filepath.Join(root, "trees"))
}
