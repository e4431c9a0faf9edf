package lint

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fences keep libraries and powers where they belong. Tests and generator programs are
// free unless the fence says otherwise.
var fences = []struct {
	imports []string // import paths, or prefixes that end in "/"
	inside  []string // folders that may
	why     string
}{
	{[]string{"github.com/libp2p/"}, []string{"swarm/p2p", "swarm/dir"}, "client and server are handed streams, so that a fail-over test is a function call"},
	{[]string{"github.com/jackc/pgx/"}, []string{"store", "internal/pgtest"}, "losing the database never touches inference"},
	{[]string{"github.com/a-h/templ", "github.com/a-h/templ/"}, []string{"web/..."}, "pages are drawn in one place"},
	{[]string{"github.com/spf13/", "github.com/knadh/"}, []string{"cmd/whorl"}, "flags and config files are read by cmd alone"},
	{[]string{"flag"}, []string{"cmd/whorl", "internal/golden"}, "flags are read by cmd alone"},
	{[]string{"C"}, []string{"gpu/..."}, "the build needs no C compiler"},
}

func TestFences(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || program(f) {
			continue
		}
		for _, im := range f.imports {
			for _, fence := range fences {
				inside := slices.ContainsFunc(fence.imports, func(p string) bool {
					return im == p || strings.HasSuffix(p, "/") && strings.HasPrefix(im, p)
				})
				if inside && !matchesAny(fence.inside, f.pkg) {
					t.Errorf("%s imports %s, which stays in %s: %s", f.path, im, strings.Join(fence.inside, ", "), fence.why)
				}
			}
		}
	}
}

// program tells a generator: a main package that is not ours to ship.
func program(f *file) bool { return f.ast.Name.Name == "main" && f.pkg != "cmd/whorl" }

func TestAssemblyFence(t *testing.T) {
	walk(t, func(path string) {
		if strings.HasSuffix(path, ".s") && !strings.HasPrefix(path, "tensor/cpu/") {
			t.Errorf("%s: assembly stays in tensor/cpu, where a generic twin proves it", path)
		}
	})
}

// calls are functions that may not be called in some folders.
var calls = []struct {
	pkg   string
	names []string // nil: all but except
	// except are the functions of pkg that may be called where names is nil.
	except []string
	in     []string
	why    string
}{
	{"time", []string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "Tick", "AfterFunc"}, nil, pure, "policy takes the clock as an argument, so that tests and a simulator own time"},
	{"math/rand/v2", nil, []string{"New", "NewPCG", "NewChaCha8", "Rand", "Source"}, pure, "policy takes a seeded source, so that a decision can be repeated"},
	{"math/rand", nil, []string{"New", "NewSource", "Rand", "Source"}, pure, "policy takes a seeded source, so that a decision can be repeated"},
	{"crypto/rand", nil, nil, pure, "policy takes a seeded source, so that a decision can be repeated"},
}

// pure are the folders that decide and do nothing else.
var pure = []string{"swarm/proof", "swarm/route", "swarm/balance", "swarm/health", "swarm/trust", "server/sched", "server/admission", "client/sample", "client/plan", "client/chain", "client/audit", "client/grammar", "sim"}

func TestPolicyIsPure(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		for _, c := range calls {
			if !matchesAny(c.in, f.pkg) {
				continue
			}
			eachUse(f, c.pkg, func(n ast.Node, name string) {
				if c.names == nil && !slices.Contains(c.except, name) || slices.Contains(c.names, name) {
					t.Errorf("%s uses %s.%s: %s", f.at(n), c.pkg, name, c.why)
				}
			})
		}
	}
}

// eachUse visits every use of a name of an imported package.
func eachUse(f *file, pkg string, visit func(n ast.Node, name string)) {
	local := f.importName(pkg)
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				visit(n, sel.Sel.Name)
			}
		}
		return true
	})
}

func TestEnvironmentIsReadByCmd(t *testing.T) {
	names := []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}
	for _, f := range goFiles(t) {
		if f.test || f.pkg == "cmd/whorl" || strings.HasPrefix(f.pkg, "internal/") {
			continue
		}
		eachUse(f, "os", func(n ast.Node, name string) {
			if slices.Contains(names, name) {
				t.Errorf("%s uses os.%s: only cmd reads the environment, so that --print-config tells the truth", f.at(n), name)
			}
		})
	}
}

// A test that sleeps is slow or flaky, and mostly both. In a synctest bubble sleeping
// costs nothing and is exact; such packages may.
func TestTestsDoNotSleep(t *testing.T) {
	folders := packages(t)
	for _, f := range goFiles(t) {
		bubbles := func(f *file) bool { return f.test && f.importName("testing/synctest") != "" }
		if !f.test || slices.ContainsFunc(folders[f.pkg], bubbles) {
			continue
		}
		eachUse(f, "time", func(n ast.Node, name string) {
			if name == "Sleep" {
				t.Errorf("%s sleeps: wait for what it waits for, or use testing/synctest", f.at(n))
			}
		})
	}
}

// How long something takes, by the clock or by the processor, depends on the machine: that is for benchmarks. A test
// counts what was done.
func TestTestsDoNotTimeTheProcessor(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.test || f.pkg == "internal/meter" {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			within := func(n ast.Node) bool { return fn.Pos() <= n.Pos() && n.Pos() < fn.End() }
			eachUse(f, "whorl/internal/meter", func(n ast.Node, name string) {
				if name == "Worked" && within(n) {
					t.Errorf("%s bounds processor time in a test: count something, or make it a benchmark", f.at(n))
				}
			})
		}
	}
}

// Printing is for commands; everything else returns or logs.
func TestOnlyCommandsPrint(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test || f.pkg == "cmd/whorl" || program(f) {
			continue
		}
		eachUse(f, "fmt", func(n ast.Node, name string) {
			if strings.HasPrefix(name, "Print") {
				t.Errorf("%s uses fmt.%s: return or log", f.at(n), name)
			}
		})
	}
}

func TestNoVagueNames(t *testing.T) {
	vague := map[string]bool{"util": true, "utils": true, "common": true, "helpers": true, "types": true, "misc": true}
	for _, folder := range slices.Sorted(maps.Keys(packages(t))) {
		for part := range strings.SplitSeq(folder, "/") {
			if vague[part] {
				t.Errorf("%s: a package is named for what it is about", folder)
			}
		}
	}
}
