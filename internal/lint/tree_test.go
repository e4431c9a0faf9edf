package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "whorl"
)

// file is one Go file of the tree.
type file struct {
	path      string // from the root, with slashes
	pkg       string // folder, from the root
	test      bool
	generated bool
	lines     int
	imports   []string
	ast       *ast.File
	set       *token.FileSet
}

// at says where a node is.
func (f *file) at(n ast.Node) string {
	return f.path + ":" + strconv.Itoa(f.set.Position(n.Pos()).Line)
}

// importName is what a file calls an import; "" if it does not import it.
func (f *file) importName(path string) string {
	for _, im := range f.ast.Imports {
		if p, _ := strconv.Unquote(im.Path.Value); p == path {
			if im.Name != nil {
				return im.Name.Name
			}
			return strings.TrimPrefix(regexp.MustCompile(`/v\d+$`).ReplaceAllString(path, ""), filepath.Dir(path)+"/")
		}
	}
	return ""
}

// skipped folders hold no code of ours.
var skipped = []string{".git", ".tools", "models", "node_modules", "testdata", "artifacts", "bin", ".venv"}

// walk visits every file of the tree but those of skipped folders.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(skipped, d.Name()) {
			return fs.SkipDir
		}
		if !d.IsDir() {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var parsed struct {
	once  sync.Once
	files []*file
}

// goFiles parses every Go file of the tree once.
func goFiles(t *testing.T) []*file {
	t.Helper()
	parsed.once.Do(func() {
		set := token.NewFileSet()
		walk(t, func(path string) {
			if !strings.HasSuffix(path, ".go") {
				return
			}
			src, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			tree, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			f := &file{
				path: path, pkg: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
				generated: ast.IsGenerated(tree), lines: bytes.Count(src, []byte("\n")), ast: tree, set: set,
			}
			for _, im := range tree.Imports {
				p, err := strconv.Unquote(im.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				f.imports = append(f.imports, p)
			}
			parsed.files = append(parsed.files, f)
		})
	})
	if len(parsed.files) < 50 {
		t.Fatalf("only %d Go files found: the walk is broken", len(parsed.files))
	}
	return parsed.files
}

// packages groups the files by folder.
func packages(t *testing.T) map[string][]*file {
	t.Helper()
	out := map[string][]*file{}
	for _, f := range goFiles(t) {
		out[f.pkg] = append(out[f.pkg], f)
	}
	return out
}

// matches tells whether a folder fits a pattern: equal, or below it if the pattern ends in
// "/...".
func matches(pattern, folder string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return folder == base || strings.HasPrefix(folder, base+"/")
	}
	return pattern == folder
}

func matchesAny(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, folder) })
}
