package hub

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// File is one file of a repository.
type File struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Hash names the blob: 64 hex digits of the SHA-256 of a large file, else 40 of git's
	// hash of the file.
	Hash string `json:"hash"`
	// Tree says that Hash is the tree of the bytes (package content), by which any part can be
	// checked: such files come from peers.
	Tree bool `json:"tree,omitempty"`
}

// sha256 tells the hash's kind.
func (f File) sha256() bool { return len(f.Hash) == 64 && !f.Tree }

// listing is what a commit holds.
type listing struct {
	Repo   string `json:"repo"`
	Commit string `json:"commit"`
	Files  []File `json:"files"`
	// Closed says that the hub asks for terms or a token before it gives the files; nil where
	// another client fetched them, who did not write it down.
	Closed *bool `json:"closed,omitempty"`
}

func (l *listing) file(name string) (File, bool) {
	for _, f := range l.Files {
		if f.Path == name {
			return f, true
		}
	}
	return File{}, false
}

// Limits of what a hub may answer.
const (
	maxListing  = 64 << 20 // bytes of JSON
	maxFiles    = 20000
	maxFileSize = 1 << 44
)

var hashPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// list asks the hub which files a revision holds.
func (h *Hub) list(ctx context.Context, n Name) (*listing, error) {
	link := h.cfg.Endpoint + "/api/models/" + n.Repo + "/revision/" + url.PathEscape(n.revision()) + "?blobs=true"
	raw, err := h.document(ctx, link, n, "the list of files", maxListing)
	if err != nil {
		return nil, err
	}
	return parseListing(n, raw)
}

// parseListing reads the hub's answer.
func parseListing(n Name, raw []byte) (*listing, error) {
	bad := func(format string, a ...any) error {
		return failed(ErrDamaged, nil, "the hub's list of files of "+n.Repo+" "+format, a...)
	}
	var in struct {
		SHA      string `json:"sha"`
		Gated    any    `json:"gated"` // false, or a word
		Private  bool   `json:"private"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			Blob string `json:"blobId"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, bad("is no JSON of the expected form: %v", err)
	}
	if !commitPattern.MatchString(in.SHA) {
		return nil, bad("names the commit %.64q", in.SHA)
	}
	if len(in.Siblings) > maxFiles {
		return nil, bad("has %d entries, the limit is %d", len(in.Siblings), maxFiles)
	}
	closed := in.Private || in.Gated != nil && in.Gated != false
	l := &listing{Repo: n.Repo, Commit: in.SHA, Closed: &closed}
	for _, s := range in.Siblings {
		if !safePath(s.Name) {
			continue
		}
		f := File{Path: s.Name, Hash: s.Blob}
		switch {
		case s.LFS != nil:
			f.Size, f.Hash = s.LFS.Size, s.LFS.SHA256
		case s.Size != nil:
			f.Size = *s.Size
		default:
			return nil, bad("has no size of %.100q", s.Name)
		}
		if err := f.check(); err != "" {
			return nil, bad("%s", err)
		}
		l.Files = append(l.Files, f)
	}
	return l, nil
}

// check says what is wrong with a file, "" for nothing.
func (f File) check() string {
	switch {
	case f.Size < 0 || f.Size > maxFileSize:
		return "holds a file of an impossible size"
	case !hashPattern.MatchString(f.Hash), f.Tree && len(f.Hash) != 64:
		return "holds a file without a hash"
	}
	return ""
}

// safePath tells whether a file's path may become one on this disk. Others are passed over: no
// model needs them.
func safePath(p string) bool {
	return p != "" && len(p) <= 512 && path.Clean(p) == p && !path.IsAbs(p) && !strings.HasPrefix(p, ".") && !strings.Contains(p, "/.") && !strings.ContainsAny(p, "\x00\\:")
}
