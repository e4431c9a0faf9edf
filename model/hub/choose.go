package hub

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Names that models have by convention.
const (
	singleWeights = "model.safetensors"
	weightsIndex  = "model.safetensors.index.json"
)

// maxSmall bounds the files that are fetched whole beside the weights: the largest
// tokenizer.json published has 34 MB.
const maxSmall = 64 << 20

// small lists what a model needs beside its weights: configuration, tokenizer, templates.
func (l *listing) small() (out []File) {
	for _, f := range l.Files {
		if strings.Contains(f.Path, "/") || f.Size > maxSmall {
			continue
		}
		switch path.Ext(f.Path) {
		case ".json", ".jinja", ".txt", ".model":
			out = append(out, f)
		}
	}
	return out
}

// gguf picks the GGUF file that a name asks for, all of its parts, the first one first. pick
// is a path, a type, or "" for the only one.
func (l *listing) gguf(pick string) ([]File, error) {
	models := map[string][]File{} // by path without the number of a part
	for _, f := range l.Files {
		if strings.HasSuffix(f.Path, ".gguf") && !strings.Contains(path.Base(f.Path), "mmproj") {
			stem := stemOf(f.Path)
			models[stem] = append(models[stem], f)
		}
	}
	var found []string
	for stem, files := range models {
		if pick == "" || slices.ContainsFunc(files, func(f File) bool { return f.Path == pick }) || endsWith(stem, pick) {
			found = append(found, stem)
		}
	}
	if len(found) == 1 {
		files := models[found[0]]
		slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		return files, nil
	}
	var there []string
	for stem := range models {
		there = append(there, stem+".gguf")
	}
	slices.Sort(there)
	list := strings.Join(there[:min(len(there), 40)], ", ")
	switch {
	case len(models) == 0:
		return nil, failed(ErrNotFound, nil, "%s holds no .gguf file", l.Repo)
	case pick == "":
		return nil, fmt.Errorf("%s holds %d models: name one, such as %s:%s, of %s", l.Repo, len(models), l.Repo, there[0], list)
	case len(found) > 1:
		return nil, fmt.Errorf("%q means %d models of %s: name one of %s", pick, len(found), l.Repo, list)
	}
	return nil, failed(ErrNotFound, nil, "%s holds no %q: there are %s", l.Repo, pick, list)
}

var partNumber = regexp.MustCompile(`-[0-9]{5}-of-[0-9]{5}$`)

// stemOf is a GGUF file's path without ending and number of a part.
func stemOf(p string) string { return partNumber.ReplaceAllString(strings.TrimSuffix(p, ".gguf"), "") }

// endsWith tells whether a stem ends with a type: Model-Q4_K_M and model.q4_k_m do with
// Q4_K_M. A folder may be named by it, too: Q4_K_M/model-00001-of-00002.gguf.
func endsWith(stem, kind string) bool {
	stem, kind = strings.ToLower(stem), strings.ToLower(kind)
	rest, ok := strings.CutSuffix(stem, kind)
	return ok && (rest == "" || strings.ContainsRune("-._/", rune(rest[len(rest)-1]))) || path.Dir(stem) == kind
}

// shards lists the weight files that an index names.
func (l *listing) shards(index []byte) ([]File, error) {
	var in struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &in); err != nil || len(in.WeightMap) == 0 {
		return nil, failed(ErrDamaged, err, "%s of %s is no index of weights", weightsIndex, l.Repo)
	}
	names := map[string]bool{}
	for _, name := range in.WeightMap {
		names[name] = true
	}
	var out []File
	for name := range names {
		f, ok := l.file(name)
		if !ok || strings.Contains(name, "/") {
			return nil, failed(ErrNotFound, nil, "%s of %s names %.100q, which is not there", weightsIndex, l.Repo, name)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
