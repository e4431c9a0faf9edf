package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	gomod "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// publication is a version of the module as others fetch it: under a path that its publisher chose,
// in files that any web server can serve (the protocol of GOPROXY). The same commit, path and version
// give the same bytes.
type publication struct {
	dir  string        // of the module, in a git repository: what is committed counts
	as   gomod.Version // path and version that others ask for
	time time.Time     // of the version
	out  string        // folder of the tree; versions that are there stay
}

// make adds the version to the tree.
func (p *publication) make() error {
	if err := gomod.Check(p.as.Path, p.as.Version); err != nil {
		return fmt.Errorf("%w: give a path under a host of yours, such as example.org/whorl, and a version such as v1.2.3; from v2 on the path ends in /v2", err)
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	mod, err := p.rewrite(files)
	if err != nil {
		return err
	}
	escaped, err := gomod.EscapePath(p.as.Path)
	if err != nil {
		return err
	}
	version, err := gomod.EscapeVersion(p.as.Version)
	if err != nil {
		return err
	}
	folder := filepath.Join(p.out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var packed bytes.Buffer
	list := make([]zip.File, len(files))
	for i := range files {
		list[i] = &files[i]
	}
	if err := zip.Create(&packed, p.as, list); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{p.as.Version, p.time.UTC()})
	if err != nil {
		return err
	}
	versions, err := p.versions(filepath.Join(folder, "list"))
	if err != nil {
		return err
	}
	// The list is last: whoever finds a version there finds its files.
	for _, f := range []struct {
		name string
		data []byte
	}{{version + ".zip", packed.Bytes()}, {version + ".mod", mod}, {version + ".info", append(info, '\n')}, {"list", versions}} {
		if err := os.WriteFile(filepath.Join(folder, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// versions is the list of a tree with one more, in their order.
func (p *publication) versions(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := append(strings.Fields(string(raw)), p.as.Version)
	semver.Sort(all)
	return []byte(strings.Join(slices.Compact(all), "\n") + "\n"), nil
}

// source is a file of the module. It implements zip.File.
type source struct {
	name string
	mode fs.FileMode
	data []byte
}

func (s *source) Path() string                 { return s.name }
func (s *source) Lstat() (fs.FileInfo, error)  { return sourceInfo{s}, nil }
func (s *source) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.data)), nil }

// sourceInfo is what there is to know of a source without its bytes.
type sourceInfo struct{ *source }

func (i sourceInfo) Name() string       { return filepath.Base(i.name) }
func (i sourceInfo) Size() int64        { return int64(len(i.data)) }
func (i sourceInfo) Mode() fs.FileMode  { return i.mode }
func (i sourceInfo) ModTime() time.Time { return time.Time{} }
func (i sourceInfo) IsDir() bool        { return false }
func (i sourceInfo) Sys() any           { return nil }

// files are those of the commit, in the order of their names.
func (p *publication) files() (out []source, err error) {
	cmd := exec.Command("git", "archive", "--format=tar", "HEAD", ".")
	cmd.Dir, cmd.Stderr = p.dir, os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git archive: %w", err)
	}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		out = append(out, source{h.Name, h.FileInfo().Mode(), data})
	}
	slices.SortFunc(out, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// rewrite gives the module its new path, in go.mod and in all imports, and returns go.mod.
func (p *publication) rewrite(files []source) (mod []byte, err error) {
	i := slices.IndexFunc(files, func(f source) bool { return f.name == "go.mod" })
	if i < 0 {
		return nil, errors.New("the commit has no go.mod at its top")
	}
	m, err := modfile.Parse("go.mod", files[i].data, nil)
	if err != nil {
		return nil, err
	}
	old := m.Module.Mod.Path
	if err := m.AddModuleStmt(p.as.Path); err != nil {
		return nil, err
	}
	if files[i].data, err = m.Format(); err != nil {
		return nil, err
	}
	for j := range files {
		if strings.HasSuffix(files[j].name, ".go") {
			if files[j].data, err = imports(files[j].name, files[j].data, old, p.as.Path); err != nil {
				return nil, err
			}
		}
	}
	return files[i].data, nil
}

// imports changes the imports of packages of one module into those of another.
func imports(name string, src []byte, old, path string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, im := range slices.Backward(f.Imports) {
		of, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			return nil, err
		}
		if rest, ours := strings.CutPrefix(of, old); ours && (rest == "" || rest[0] == '/') {
			at := set.Position(im.Path.Pos()).Offset
			src = slices.Concat(src[:at], []byte(strconv.Quote(path+rest)), src[at+len(im.Path.Value):])
		}
	}
	return src, nil
}
