package routes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every route of the contract has a line in a page for people, beside its trial (TestEveryOperation).
func TestEveryRouteIsDocumented(t *testing.T) {
	pages, err := filepath.Glob("../../docs/howto/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err, pages)
	}
	pages = append(pages, "../../README.md")
	text := ""
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b) + "\n"
	}
	param := regexp.MustCompile(`\\\{[a-z_]+\\\}`)
	for path, item := range newBench(t, nil).doc.Paths.Map() {
		at := regexp.MustCompile("[^a-z0-9/]" + "(?:[a-z]+:[0-9]+)?" + param.ReplaceAllString(regexp.QuoteMeta(path), `[A-Za-z0-9_.%{}-]+`) + `(?:[^A-Za-z0-9/_-]|$)`)
		found := false
		for line := range strings.Lines(text) {
			found = found || at.MatchString(line)
		}
		if !found {
			for method := range item.Operations() {
				t.Errorf("%s %s is on no page of docs/howto", method, path)
			}
		}
	}
}
