package lint

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPackagesAreDocumented(t *testing.T) {
	for folder, files := range packages(t) {
		docs := 0
		for _, f := range files {
			if f.ast.Doc == nil || f.test || f.generated || f.ast.Name.Name == "main" && !documentsCommand(f) {
				continue
			}
			text := f.ast.Doc.Text()
			if !strings.HasPrefix(text, "Package "+f.ast.Name.Name+" ") && !documentsCommand(f) {
				t.Errorf("%s: the package comment begins with %.40q, want \"Package %s \"", f.path, text, f.ast.Name.Name)
			}
			docs++
		}
		if docs != 1 && !slices.ContainsFunc(files, program) {
			t.Errorf("%s has %d package comments, want one that says what the package is and what it is not", folder, docs)
		}
	}
}

func documentsCommand(f *file) bool {
	return f.ast.Name.Name == "main" && f.ast.Doc != nil && strings.HasPrefix(f.ast.Doc.Text(), "Command ")
}

// maxLines is where a file has to be cut; aim at 200.
const maxLines = 500

func TestFilesAreSmall(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.lines > maxLines && !f.generated {
			t.Errorf("%s has %d lines, at most %d: cut it along its seams", f.path, f.lines, maxLines)
		}
	}
}

// untested are packages without a test of their own, with the reason.
var untested = map[string]string{
	"internal/answers/answerstest": "the suite of shelves of answers, which internal/answers and store run",
	"internal/fakehub":             "the hub's own Python client, in the tests of model/hub, is its witness",
	"internal/keys/keystest":       "the suite of books of keys, which internal/keys and store run",
	"internal/pgtest":              "starts Postgres for store's suite, which fails if it does not",
	"migrations":                   "SQL files; store's suite applies them",
	"tensor":                       "a contract; tensor/tensortest is its suite, and every device runs it",
}

// family tells a model family: data, proven by model's tests against the reference
// library, which open every fixture through the list in model/families.
func family(folder string) bool {
	a, _ := arrowOf(folder)
	return folder == "model/families" || a.from == "model/..."
}

func TestPackagesAreTested(t *testing.T) {
	folders := packages(t)
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		tested := slices.ContainsFunc(folders[folder], func(f *file) bool { return f.test })
		switch why, excused := untested[folder]; {
		case tested && excused:
			t.Errorf("%s has tests now: remove its excuse", folder)
		case !tested && !excused && !family(folder) && !slices.ContainsFunc(folders[folder], program):
			t.Errorf("%s has no tests, and no reason for it here", folder)
		case excused && why == "":
			t.Errorf("%s is excused without a reason", folder)
		}
	}
	if !slices.ContainsFunc(folders["model"], func(f *file) bool { return f.test && slices.Contains(f.imports, module+"/model/families") }) {
		t.Error("model's tests do not use model/families: nothing proves the families")
	}
	for folder := range untested {
		if folders[folder] == nil {
			t.Errorf("%s is excused but does not exist", folder)
		}
	}
}

var (
	ticked   = regexp.MustCompile("`([^`\n]+)`")
	pathlike = regexp.MustCompile(`^[A-Za-z0-9_.*/-]+$`)
	named    = regexp.MustCompile(`\.(go|md|yaml|yml|sh|mjs|sql|json|templ|mod|css|js)$`)
	fenced   = regexp.MustCompile("(?s)```.*?```")
)

func TestPathsInDocumentsExist(t *testing.T) {
	top := map[string]bool{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		top[e.Name()] = true
	}
	checked := 0
	walk(t, func(doc string) {
		if !strings.HasSuffix(doc, ".md") {
			return
		}
		src, err := os.ReadFile(filepath.Join(root, doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ticked.FindAllStringSubmatch(fenced.ReplaceAllString(string(src), ""), -1) {
			path := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(m[1], "./"), "/..."), "/")
			first, _, _ := strings.Cut(path, "/")
			if !pathlike.MatchString(path) || strings.HasPrefix(path, "/") || strings.HasPrefix(path, "models/") || !top[first] && !named.MatchString(path) {
				continue
			}
			checked++
			if !exists(path) && !exists(filepath.Join(filepath.Dir(doc), path)) {
				t.Errorf("%s names `%s`, which does not exist", doc, path)
			}
		}
	})
	if checked == 0 {
		t.Error("no document names a path: the search is broken")
	}
}

func exists(path string) bool {
	found, err := filepath.Glob(filepath.Join(root, path))
	return err == nil && len(found) > 0
}
