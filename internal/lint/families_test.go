package lint

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A family is a folder and a line: nobody else knows one by name, in identifiers or in
// strings. Vocabularies of GGUF files are called after families, and model/tokenizer reads
// those; "llama3" is a kind of rotary scaling, and Ollama a program whose routes api/ollama has.
// The formats in which models call tools are called after families too: api/calls knows those.
func TestFamiliesAreNamedAtHome(t *testing.T) {
	files := goFiles(t)
	var names []string
	for _, f := range files {
		if family(f.pkg) && f.pkg != "model/families" && !slices.Contains(names, path.Base(f.pkg)) {
			names = append(names, path.Base(f.pkg))
		}
	}
	if len(names) < 10 {
		t.Fatalf("families %v: the test no longer finds them", names)
	}
	named := regexp.MustCompile(`(?i)\b(` + strings.Join(names, "|") + `)(\b|[._])`)
	inside := regexp.MustCompile(`(?i)(` + strings.Join(names, "|") + `)`)
	for _, f := range files {
		if f.test || program(f) || family(f.pkg) || f.pkg == "model/tokenizer" || f.pkg == "api/calls" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Ident:
				if bare := regexp.MustCompile(`(?i)llama3|ollama`).ReplaceAllString(x.Name, ""); inside.MatchString(bare) {
					t.Errorf("%s: the identifier %s names a family: say what it does in the graph", f.at(x), x.Name)
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(x.Value); err == nil && named.MatchString(text) {
					t.Errorf("%s: the string %q names a family", f.at(x), text)
				}
			}
			return true
		})
	}
}
