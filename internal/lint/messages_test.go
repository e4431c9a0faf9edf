package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// verb is a place that a format fills.
var verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z]`)

// says tells whether a text of the program, which may be a format, is what a page quotes with
// … for what is filled in.
func says(text, quoted string) bool {
	text = verb.ReplaceAllString(text, "…")
	for i, piece := range strings.Split(quoted, "…") {
		at := strings.Index(text, strings.TrimSpace(piece))
		if at < 0 || i > 0 && at == 0 && strings.TrimSpace(piece) != "" {
			return false
		}
		text = text[at+len(strings.TrimSpace(piece)):]
	}
	return true
}

func TestSays(t *testing.T) {
	for _, c := range []struct {
		text, quoted string
		want         bool
	}{
		{"nobody holds %s of %s", "nobody holds … of …", true},
		{"listen for --%s: %w: choose --%s", "listen for --…: choose --…", true},
		{"nobody holds %s", "nobody has …", false},
		{"of %s nobody holds", "nobody holds … of …", false},
		{"is open", "was open", false},
	} {
		if got := says(c.text, c.quoted); got != c.want {
			t.Errorf("%q says %q: %v", c.text, c.quoted, got)
		}
	}
}

// What the page of symptoms quotes in lines of its own is what the program prints.
func TestSymptomsAreMessages(t *testing.T) {
	var texts []string
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					texts = append(texts, s)
				}
			}
			return true
		})
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/howto/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	symptoms := 0
	for line := range strings.Lines(string(page)) {
		quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "> `")
		if !ok {
			continue
		}
		quoted = strings.TrimSuffix(quoted, "`")
		symptoms++
		found := false
		for _, s := range texts {
			found = found || says(s, quoted)
		}
		if !found {
			t.Errorf("docs/howto/troubleshooting.md: the program prints nothing like %q", quoted)
		}
	}
	if symptoms < 15 {
		t.Errorf("%d symptoms: has the page another form?", symptoms)
	}
}
