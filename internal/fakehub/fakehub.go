// Package fakehub is a model hub on loopback for tests: it speaks what clients of the Hugging
// Face Hub use to list and fetch files, counts what it sends, and fails on demand.
package fakehub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// largeFrom is the size from which files are kept at the second host, as the real hub does
// with what git does not hold. It has their SHA-256 for a name.
const largeFrom = 4 << 10

// Hub is a running hub. Its methods may be called while it answers.
type Hub struct {
	URL string // of the hub
	CDN string // of the host that large files are redirected to

	t  testing.TB
	mu sync.Mutex // guards all below

	repos map[string]*repo
	sent  map[string]int64 // bytes of files, by path
	asked int              // requests
	fault func(r *http.Request, file string) *Fault
}

type repo struct {
	commit string
	files  map[string][]byte
	token  string // who may read it; "" for everybody
	gated  bool
}

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	Status     int // answer this
	RetryAfter string
	CutAfter   int64 // send so many bytes of the body and drop the connection; 0: all
	Flip       bool  // change a byte
	NoRanges   bool  // answer with the whole file
	Stall      <-chan struct{}
}

// New starts a hub that ends with the test.
func New(t testing.TB) *Hub {
	h := &Hub{t: t, repos: map[string]*repo{}, sent: map[string]int64{}}
	hub, cdn := httptest.NewServer(http.HandlerFunc(h.serve)), httptest.NewServer(http.HandlerFunc(h.serveCDN))
	t.Cleanup(func() {
		hub.CloseClientConnections()
		cdn.CloseClientConnections()
		hub.Close()
		cdn.Close()
	})
	h.URL, h.CDN = hub.URL, cdn.URL
	return h
}

// Put adds a repository or changes it; its one revision besides the commit is main. It returns
// the commit.
func (h *Hub) Put(name string, files map[string][]byte) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := sha1.New()
	names := make([]string, 0, len(files))
	for f := range files {
		names = append(names, f)
	}
	slices.Sort(names)
	for _, f := range names {
		fmt.Fprintf(sum, "%s %d\n", f, len(files[f]))
		sum.Write(files[f])
	}
	r := h.repos[name]
	if r == nil {
		r = &repo{}
		h.repos[name] = r
	}
	r.commit, r.files = hex.EncodeToString(sum.Sum(nil)), files
	return r.commit
}

// Protect makes a repository readable with a token alone. gated says so of its terms.
func (h *Hub) Protect(name, token string, gated bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repos[name].token, h.repos[name].gated = token, gated
}

// Fail sets what goes wrong; nil for nothing. file is "" for requests about no file.
func (h *Hub) Fail(f func(r *http.Request, file string) *Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
}

// Sent is how many bytes of a file were sent, of all files for "".
func (h *Hub) Sent(file string) (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f, bytes := range h.sent {
		if file == "" || f == file {
			n += bytes
		}
	}
	return n
}

// Asked is how many requests came.
func (h *Hub) Asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// Hash is the name that the hub gives to a file's content.
func Hash(data []byte) string {
	if len(data) >= largeFrom {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", len(data))
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}

// begin counts a request and finds its fault.
func (h *Hub) begin(r *http.Request, file string) Fault {
	h.mu.Lock()
	h.asked++
	f := h.fault
	h.mu.Unlock()
	if f != nil {
		if x := f(r, file); x != nil {
			return *x
		}
	}
	return Fault{}
}

func refuse(w http.ResponseWriter, status int, code string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	http.Error(w, code, status)
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	api := len(path) >= 4 && path[0] == "api" && path[1] == "models"
	if api {
		path = path[2:]
	}
	if len(path) < 2 {
		h.begin(r, "")
		refuse(w, http.StatusNotFound, "")
		return
	}
	name, file, revision := path[0]+"/"+path[1], "", "main"
	switch {
	case api && len(path) == 4 && path[2] == "revision":
		revision, _ = url.PathUnescape(path[3])
	case api && len(path) == 4 && path[2] == "tree":
		revision, _ = url.PathUnescape(path[3])
	case !api && len(path) >= 5 && path[2] == "resolve":
		revision, _ = url.PathUnescape(path[3])
		file, _ = url.PathUnescape(strings.Join(path[4:], "/"))
	case !api:
		refuse(w, http.StatusNotFound, "")
		return
	}
	fault := h.begin(r, file)
	if fault.Status != 0 {
		w.Header().Set("Retry-After", fault.RetryAfter)
		refuse(w, fault.Status, "")
		return
	}
	h.mu.Lock()
	repo := h.repos[name]
	h.mu.Unlock()
	switch {
	case repo == nil:
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
		return
	case repo.token != "" && r.Header.Get("Authorization") != "Bearer "+repo.token:
		if repo.gated {
			refuse(w, http.StatusForbidden, "GatedRepo")
		} else {
			refuse(w, http.StatusUnauthorized, "RepoNotFound")
		}
		return
	case revision != "main" && revision != repo.commit:
		refuse(w, http.StatusNotFound, "RevisionNotFound")
		return
	}
	if api {
		if path[2] == "tree" {
			h.tree(w, repo)
		} else {
			h.list(w, name, repo)
		}
		return
	}
	data, ok := repo.files[file]
	if !ok {
		w.Header().Set("X-Repo-Commit", repo.commit)
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", repo.commit)
	if len(data) >= largeFrom {
		w.Header().Set("X-Linked-Etag", strconv.Quote(Hash(data)))
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
		w.Header().Set("Location", h.CDN+"/"+name+"/"+escaped(file))
		w.WriteHeader(http.StatusFound)
		return
	}
	h.send(w, r, file, data, fault)
}

func escaped(file string) string { return (&url.URL{Path: file}).EscapedPath() }

// serveCDN is the second host. Whoever shows it the hub's token gives a secret away.
func (h *Hub) serveCDN(w http.ResponseWriter, r *http.Request) {
	path := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(path) < 3 {
		refuse(w, http.StatusNotFound, "")
		return
	}
	fault := h.begin(r, path[2])
	if r.Header.Get("Authorization") != "" {
		h.t.Errorf("the token is shown to another host: %s", r.URL)
	}
	h.mu.Lock()
	data, ok := h.repos[path[0]+"/"+path[1]].files[path[2]]
	h.mu.Unlock()
	switch {
	case fault.Status != 0:
		w.Header().Set("Retry-After", fault.RetryAfter)
		refuse(w, fault.Status, "")
	case !ok:
		refuse(w, http.StatusNotFound, "")
	default:
		h.send(w, r, path[2], data, fault)
	}
}

func (h *Hub) list(w http.ResponseWriter, name string, r *repo) {
	type lfs struct {
		SHA256 string `json:"sha256"`
		Size   int    `json:"size"`
		Link   int    `json:"pointerSize"`
	}
	type sibling struct {
		Name string `json:"rfilename"`
		Size int    `json:"size"`
		Blob string `json:"blobId"`
		LFS  *lfs   `json:"lfs,omitempty"`
	}
	var all []sibling
	for file, data := range r.files {
		s := sibling{Name: file, Size: len(data), Blob: Hash(data)}
		if len(data) >= largeFrom {
			s.LFS, s.Blob = &lfs{Hash(data), len(data), 130}, strings.Repeat("0", 40)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b sibling) int { return strings.Compare(a.Name, b.Name) })
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"id": name, "modelId": name, "sha": r.commit, "private": r.token != "" && !r.gated, "gated": gatedWord(r.gated), "siblings": all})
}

// tree lists files in the form that newer clients ask for.
func (h *Hub) tree(w http.ResponseWriter, r *repo) {
	all := []map[string]any{}
	for file, data := range r.files {
		x := map[string]any{"type": "file", "path": file, "size": len(data), "oid": Hash(data)}
		if len(data) >= largeFrom {
			x["lfs"], x["oid"] = map[string]any{"oid": Hash(data), "size": len(data), "pointerSize": 130}, strings.Repeat("0", 40)
		}
		all = append(all, x)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(all)
}

// send answers with a file or a range of it.
func (h *Hub) send(w http.ResponseWriter, r *http.Request, file string, data []byte, fault Fault) {
	from, to := 0, len(data)
	status := http.StatusOK
	var a, b int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &a, &b); err == nil && !fault.NoRanges {
		if a > b || a >= len(data) {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "")
			return
		}
		from, to, status = a, min(b+1, len(data)), http.StatusPartialContent
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)))
	} else if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &a); err == nil && !fault.NoRanges && a < len(data) {
		from, status = a, http.StatusPartialContent
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)))
	}
	w.Header().Set("ETag", strconv.Quote(Hash(data)))
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", strconv.Itoa(to-from))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if fault.Stall != nil {
		w.(http.Flusher).Flush()
		select {
		case <-fault.Stall:
		case <-r.Context().Done():
			return
		}
	}
	body := data[from:to]
	if fault.Flip {
		body = slices.Clone(body)
		body[len(body)/2] ^= 1
	}
	cut := fault.CutAfter > 0 && fault.CutAfter < int64(len(body))
	if cut {
		body = body[:fault.CutAfter]
	}
	n, _ := w.Write(body)
	h.mu.Lock()
	h.sent[file] += int64(n)
	h.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// gatedWord is how the hub's list says whether it asks for terms.
func gatedWord(gated bool) any {
	if gated {
		return "auto"
	}
	return false
}
