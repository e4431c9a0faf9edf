package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"whorl/content"
	"whorl/internal/atomicfile"
	"whorl/model/weights"
)

// ContentsCache remembers, in a folder, what checkpoints contain, so that a file is hashed as
// a whole only once. It trusts the system's notes of when a file changed; whoever serves a
// block hashes it again while loading it. The empty path remembers nothing.
type ContentsCache string

// cached is one file of the folder.
type cached struct {
	Version  int             `json:"version"` // of listings
	Stamps   []weights.Stamp `json:"files"`
	Contents Contents        `json:"contents"`
}

// listingVersion changes when the same files get other roots.
const listingVersion = 1

// maxCached bounds a file of the cache: the roots of 4096 blocks and the stamps of many
// shards take less.
const maxCached = 4 << 20

var cacheDomain = content.NewDomain("whorl contents cache")

// path is the file for a checkpoint: named by where its files lie, so that a changed file
// takes its own place.
func (d ContentsCache) path(stamps []weights.Stamp) string {
	var paths [][]byte
	for _, s := range stamps {
		paths = append(paths, []byte(s.Path))
	}
	return filepath.Join(string(d), cacheDomain.Of(paths...).String()[:32]+".json")
}

// Load gives what the cache knows of a checkpoint, if its files are as they were. The error
// says why the cache cannot be used, and is no reason not to go on.
func (d ContentsCache) Load(c *Checkpoint) (Contents, bool, error) {
	stamps := c.file.Stamps()
	if d == "" || len(stamps) == 0 {
		return Contents{}, false, nil
	}
	path := d.path(stamps)
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Contents{}, false, nil
	}
	if err != nil {
		return Contents{}, false, err
	}
	if st.Size() > maxCached {
		return Contents{}, false, fmt.Errorf("%s has %d bytes, at most %d make sense: remove it", path, st.Size(), maxCached)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return Contents{}, false, err
	}
	var got cached
	if err := json.Unmarshal(raw, &got); err != nil {
		return Contents{}, false, fmt.Errorf("%s: %w", path, err)
	}
	ok := got.Version == listingVersion && slices.Equal(got.Stamps, stamps) &&
		len(got.Contents.Blocks) == c.Config.Layers && !got.Contents.Head.IsZero() && !slices.ContainsFunc(got.Contents.Blocks, content.Hash.IsZero)
	return got.Contents, ok, nil
}

// Save remembers what a checkpoint contains.
func (d ContentsCache) Save(c *Checkpoint, contents Contents) error {
	stamps := c.file.Stamps()
	if d == "" || len(stamps) == 0 {
		return nil
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(cached{listingVersion, stamps, contents})
	if err != nil {
		return err
	}
	return atomicfile.Write(d.path(stamps), append(raw, '\n'), 0o600)
}
