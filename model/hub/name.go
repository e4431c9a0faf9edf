package hub

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Name says where a model lies at a hub: owner/name, owner/name@revision, and of a
// repository of GGUF files which one: owner/name:FILE.gguf or owner/name:Q4_K_M.
type Name struct {
	Repo     string // owner/name
	Revision string // a branch, tag or commit; "" for main
	// File picks a GGUF file, by its name or by the type that its name ends with; "" for a
	// repository of safetensors, or one with a single GGUF file.
	File string
}

var (
	repoPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	filePattern     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]{0,255}$`)
)

// Parse reads a name. The error says which part is none.
func Parse(text string) (Name, error) {
	rest, file, hasFile := strings.Cut(text, ":")
	repo, revision, hasRevision := strings.Cut(rest, "@")
	n := Name{repo, revision, file}
	switch {
	case !repoPattern.MatchString(repo) || strings.Contains(repo, "--") || strings.Contains(repo, ".."):
		return Name{}, fmt.Errorf("%.200q is no name of a hub's repository: want owner/name", repo)
	case hasRevision && (!revisionPattern.MatchString(revision) || strings.Contains(revision, "..")):
		return Name{}, fmt.Errorf("%.200q is no revision: want a branch, tag or commit behind the @", revision)
	case hasFile && (!filePattern.MatchString(file) || path.Clean(file) != file):
		return Name{}, fmt.Errorf("%.200q is no file of a repository: want FILE.gguf, or a type such as Q4_K_M, behind the colon", file)
	}
	return n, nil
}

// String is the name as Parse reads it.
func (n Name) String() string {
	s := n.Repo
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	if n.File != "" {
		s += ":" + n.File
	}
	return s
}

// revision is the one to ask for.
func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// folder is what the cache calls a repository.
func folder(repo string) string { return "models--" + strings.ReplaceAll(repo, "/", "--") }

// commitPattern tells a commit from a branch or tag: what has its name needs no question.
var commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
