package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Keys that a split GGUF file has in each of its parts: the part's number from 0, how many
// parts there are, and how many tensors are in all of them.
const (
	splitNo      = "split.no"
	splitCount   = "split.count"
	splitTensors = "split.tensors.count"
)

// partName is NAME-00002-of-00003.gguf, which numbers parts from 1. Readers of the format
// find the other parts by it, so it is not a matter of taste.
var partName = regexp.MustCompile(`^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// GGUFName is what the name of a GGUF file calls the model: without folder, ending and the
// number of a part.
func GGUFName(path string) string {
	base := filepath.Base(path)
	if m := partName.FindStringSubmatch(base); m != nil {
		return m[1]
	}
	return strings.TrimSuffix(base, ".gguf")
}

// partPaths lists the files that make up the one that path names, itself among them: those
// of a split file by its name, which every one of them bears. All of them are there.
func partPaths(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	m := partName.FindStringSubmatch(base)
	if m == nil {
		return []string{path}, nil
	}
	no, _ := strconv.Atoi(m[2])
	n, _ := strconv.Atoi(m[3])
	if no < 1 || no > n {
		return nil, fmt.Errorf("open %s: the name says part %d of %d", path, no, n)
	}
	if n > maxShards {
		return nil, fmt.Errorf("open %s: the name says %d parts, the limit is %d", path, n, maxShards)
	}
	paths := make([]string, n)
	var missing []string
	for i := range paths {
		paths[i] = fmt.Sprintf("%s%s-%05d-of-%05d.gguf", dir, m[1], i+1, n)
		if _, err := os.Stat(paths[i]); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, paths[i])
		}
	}
	switch len(missing) {
	case 0:
		return paths, nil
	case 1:
		return nil, fmt.Errorf("open %s: of its %d parts %s is missing", path, n, missing[0])
	}
	return nil, fmt.Errorf("open %s: of its %d parts %d are missing, the first of them %s", path, n, len(missing), missing[0])
}

// checkSplit compares what the metadata of part i says of the split with the n parts that
// names tell of, and with the first part, which alone describes the model.
func (f *File) checkSplit(meta *Metadata, i, n int) error {
	for _, k := range []struct {
		key  string
		want int64
	}{{splitCount, int64(n)}, {splitNo, int64(i)}} {
		if n == 1 && !meta.Has(k.key) {
			continue
		}
		got, ok := meta.Int(k.key)
		switch {
		case !meta.Has(k.key):
			return fmt.Errorf("the name says part %d of %d, but the metadata key %s is missing: rename the file if it is whole", i+1, n, k.key)
		case ok && n == 1 && k.key == splitCount && got > 1:
			return fmt.Errorf("one part of a split of %d files, whose names must end in -00001-of-%05d.gguf and so on: this one's does not", got, got)
		case !ok || got != k.want:
			return fmt.Errorf("%s is %s, but by its name the file is part %d of %d, which is %d there", k.key, meta.describe(k.key), i+1, n, k.want)
		}
	}
	total, ok := meta.Int(splitTensors)
	first, _ := f.meta.Int(splitTensors)
	switch {
	case n > 1 && !ok:
		return fmt.Errorf("%s is %s, want a number of tensors", splitTensors, meta.describe(splitTensors))
	case n > 1 && total != first:
		return fmt.Errorf("%s is %d, but %d in the first part", splitTensors, total, first)
	}
	for _, key := range meta.Keys() {
		if strings.HasPrefix(key, "split.") || key == alignmentKey {
			continue
		}
		if !f.meta.values[key].equal(meta.values[key]) {
			return fmt.Errorf("metadata key %q is not what it is in the first part: these are parts of two models", key)
		}
	}
	return nil
}

func (v value) equal(w value) bool {
	return v.kind == w.kind && v.elem == w.elem && v.count == w.count && bytes.Equal(v.raw, w.raw)
}

// checkTotal compares the number of tensors in all parts with the one that they tell of.
func (f *File) checkTotal() error {
	if !f.meta.Has(splitTensors) {
		return nil
	}
	if n, ok := f.meta.Int(splitTensors); !ok || n != int64(len(f.entries)) {
		return fmt.Errorf("%s is %s, but there are %d tensors", splitTensors, f.meta.describe(splitTensors), len(f.entries))
	}
	return nil
}

// FindGGUF gives the path of the one GGUF file of a folder (of a split one, of its first
// part there); "" if it has none. The error names the files between which to choose.
func FindGGUF(dir string) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var paths, names []string // of the first file, and of all files, of each
	for _, e := range list {  // sorted, so that parts follow each other
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".gguf") {
			continue
		}
		name := wholeName(e.Name())
		if !slices.Contains(names, name) {
			names, paths = append(names, name), append(paths, filepath.Join(dir, e.Name()))
		}
	}
	switch len(paths) {
	case 0:
		return "", nil
	case 1:
		return paths[0], nil
	}
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return "", fmt.Errorf("%s holds %d GGUF models: give the path of one of %s", dir, len(paths), listed(names))
}

// wholeName is one for all parts of a split file.
func wholeName(base string) string {
	if m := partName.FindStringSubmatch(base); m != nil {
		return m[1] + "-of-" + m[3]
	}
	return base
}

// listed names some of a list for an error line.
func listed(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
