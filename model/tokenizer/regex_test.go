package tokenizer

import (
	"strings"
	"testing"
	"time"
)

// TestPatternsEnd: a pattern that backtracks for ever is an error.
func TestPatternsEnd(t *testing.T) {
	find, err := compileRegex(`(a*)*b`, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := find(strings.Repeat("a", 200)); err == nil {
		t.Error("a catastrophic pattern came to an end")
	}
	if _, err := compileRegex(strings.Repeat("a", maxPattern+1), matchLimit); err == nil {
		t.Error("a pattern above the limit was taken")
	}
}

func TestFlattenClasses(t *testing.T) {
	for in, want := range map[string]string{
		`a[bc]d`:         `a[bc]d`,
		`[^(\s|[.,!?])]`: `[^(\s|.,!?)]`,
		`[a[b[c]]]d]`:    `[abc]d]`,
		`[[:alpha:]]`:    `[[:alpha:]]`,
		`\[[\]]`:         `\[[\]]`,
	} {
		if got := flattenClasses(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
