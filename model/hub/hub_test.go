package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"whorl/internal/fakehub"
)

// random makes bytes that no two tests share by chance.
func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	rng.Read(b)
	return b
}

// gear is a hub's client with short waits.
func gear(t *testing.T, f *fakehub.Hub, edit ...func(*Config)) *Hub {
	t.Helper()
	c := Config{
		Endpoint: f.URL, Cache: t.TempDir(), Agent: "test", Parallel: 4, Idle: 10 * time.Second, Attempts: 4, Pause: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, e := range edit {
		e(&c)
	}
	return New(c)
}

// sharded is a repository of two shards and what belongs to it.
func sharded() map[string][]byte {
	return map[string][]byte{
		"config.json": []byte(`{"a":1}`), "tokenizer.json": random(9<<10, 1), "README.md": []byte("no"), ".gitattributes": []byte("x"),
		"model.safetensors.index.json":     []byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`),
		"model-00001-of-00002.safetensors": random(40*chunkSize+17, 2), "model-00002-of-00002.safetensors": random(3*chunkSize, 3),
		"pytorch_model.bin": random(5<<10, 4), "original/consolidated.safetensors": random(5<<10, 5),
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func name(t *testing.T, text string) Name { t.Helper(); return must(Parse(text))(t) }

// same compares a range of a file on disk.
func same(t *testing.T, path string, want []byte, from, to int) {
	t.Helper()
	f := must(os.Open(path))(t)
	defer f.Close()
	got := make([]byte, to-from)
	if _, err := f.ReadAt(got, int64(from)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want[from:to]) {
		t.Errorf("bytes %d to %d of %s are wrong", from, to, filepath.Base(path))
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]Name{
		"owner/name":                 {Repo: "owner/name"},
		"owner/name@v1.0":            {Repo: "owner/name", Revision: "v1.0"},
		"o/n@refs/pr/1":              {Repo: "o/n", Revision: "refs/pr/1"},
		"o/n-GGUF:n.Q4_K_M.gguf":     {Repo: "o/n-GGUF", File: "n.Q4_K_M.gguf"},
		"o/n@main:Q4_K_M":            {Repo: "o/n", Revision: "main", File: "Q4_K_M"},
		"o/n:Q8_0/n-00001-of-2.gguf": {Repo: "o/n", File: "Q8_0/n-00001-of-2.gguf"},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "name", "/name", "owner/", "a/b/c", "a/b@", "a/b:", "a/b@../x", "a/b:../x", "a/b:/etc/passwd", "a b/c", "../x", "a/b@x y", "-a/b", "a/b--c", "a/..", strings.Repeat("a", 99) + "/b"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q is taken for %+v", text, n)
		}
	}
}

// Only what is asked for is fetched: of 43 MiB of weights two ranges, in whole chunks.
func TestRangesAlone(t *testing.T) {
	f, files := fakehub.New(t), sharded()
	commit := f.Put("o/m", files)
	h := gear(t, f)
	s := must(h.Open(t.Context(), name(t, "o/m")))(t)
	defer s.Close()
	if s.Commit != commit || !s.Partly() {
		t.Errorf("commit %s, partly %v", s.Commit, s.Partly())
	}
	for _, small := range []string{"config.json", "tokenizer.json", "model.safetensors.index.json"} {
		same(t, filepath.Join(s.Path, small), files[small], 0, len(files[small]))
	}
	for _, other := range []string{"README.md", "pytorch_model.bin", "original/consolidated.safetensors", ".gitattributes"} {
		if f.Sent(other) != 0 {
			t.Errorf("%s was fetched", other)
		}
	}
	const shard = "model-00001-of-00002.safetensors"
	path := filepath.Join(s.Path, shard)
	if n := f.Sent(shard) + f.Sent("model-00002-of-00002.safetensors"); n != 0 {
		t.Errorf("%d bytes of weights were fetched before any was asked for", n)
	}
	if err := s.Fill(t.Context(), path, [][2]int64{{100, 200}, {5*chunkSize - 1, 7*chunkSize + 1}, {9 * chunkSize, 9 * chunkSize}}); err != nil {
		t.Fatal(err)
	}
	same(t, path, files[shard], 100, 200)
	same(t, path, files[shard], 5*chunkSize-1, 7*chunkSize+1)
	if n := f.Sent(shard); n != 5*chunkSize { // chunks 0, 4, 5, 6, 7
		t.Errorf("%d bytes were fetched, want %d", n, 5*chunkSize)
	}
	if err := s.Fill(t.Context(), path, [][2]int64{{4 * chunkSize, 8 * chunkSize}}); err != nil {
		t.Fatal(err)
	}
	if n := f.Sent(shard); n != 5*chunkSize {
		t.Errorf("what is there was fetched again: %d bytes", n)
	}
	if _, err := os.Stat(filepath.Join(h.cfg.Cache, "models--o--m", "snapshots", commit, shard)); err == nil {
		t.Error("a part looks like a whole file to other clients")
	}
	if err := s.Fill(t.Context(), path, [][2]int64{{0, int64(len(files[shard]) + 1)}}); err == nil {
		t.Error("bytes behind the end are promised")
	}
	if p := h.Progress(); p.Done != p.Total || p.Total < 5*chunkSize {
		t.Errorf("progress %+v", p)
	}
	// Another process, or this one later, goes on with what is there.
	again := must(gear(t, f, func(c *Config) { c.Cache = h.cfg.Cache }).Open(t.Context(), name(t, "o/m")))(t)
	defer again.Close()
	if err := again.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.Sent(shard); n != int64(len(files[shard])) {
		t.Errorf("%d bytes were fetched in all, of %d", n, len(files[shard]))
	}
	blob := filepath.Join(h.cfg.Cache, "models--o--m", "snapshots", commit, shard)
	same(t, blob, files[shard], 0, len(files[shard]))
	same(t, path, files[shard], 0, len(files[shard]))
	if again.Partly() {
		t.Error("a whole model is called partly there")
	}
	if left, _ := filepath.Glob(filepath.Join(h.cfg.Cache, "models--o--m", ".whorl", "*.part")); len(left) != 0 {
		t.Errorf("parts are left behind: %v", left)
	}
	// And without the hub.
	asked := f.Asked()
	off := must(gear(t, f, func(c *Config) { c.Cache, c.Offline = h.cfg.Cache, true }).Open(t.Context(), name(t, "o/m")))(t)
	defer off.Close()
	if err := off.FillAll(t.Context()); err != nil || f.Asked() != asked {
		t.Errorf("offline: %v, %d requests", err, f.Asked()-asked)
	}
}

func TestGGUFFiles(t *testing.T) {
	f := fakehub.New(t)
	f.Put("o/g", map[string][]byte{
		"m-Q4_K_M.gguf": random(5<<10, 1), "m.q8_0.gguf": random(5<<10, 2), "README.md": []byte("x"), "mmproj-m-f16.gguf": random(5<<10, 9),
		"BF16/m-BF16-00001-of-00002.gguf": random(5<<10, 3), "BF16/m-BF16-00002-of-00002.gguf": random(5<<10, 4),
	})
	f.Put("o/one", map[string][]byte{"only.gguf": random(5<<10, 5)})
	for text, want := range map[string]string{
		"o/g:m-Q4_K_M.gguf": "m-Q4_K_M.gguf", "o/g:Q4_K_M": "m-Q4_K_M.gguf", "o/g:Q8_0": "m.q8_0.gguf", "o/g:q8_0": "m.q8_0.gguf",
		"o/g:BF16": "BF16/m-BF16-00001-of-00002.gguf", "o/g:BF16/m-BF16-00002-of-00002.gguf": "BF16/m-BF16-00001-of-00002.gguf", "o/one": "only.gguf",
	} {
		s, err := gear(t, f).Open(t.Context(), name(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !strings.HasSuffix(s.Path, "/"+want) {
			t.Errorf("%s opens %s, want %s", text, s.Path, want)
		}
		if err := s.FillAll(t.Context()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		s.Close()
	}
	for text, want := range map[string]string{
		"o/g":     "o/g holds 3 models: name one, such as o/g:BF16/m-BF16.gguf, of BF16/m-BF16.gguf, m-Q4_K_M.gguf, m.q8_0.gguf",
		"o/g:Q2":  `o/g holds no "Q2": there are BF16/m-BF16.gguf, m-Q4_K_M.gguf, m.q8_0.gguf`,
		"o/one:K": `o/one holds no "K": there are only.gguf`,
	} {
		if _, err := gear(t, f).Open(t.Context(), name(t, text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// Whatever the hub answers is an error of a kind, and says what to do.
func TestRefusals(t *testing.T) {
	f := fakehub.New(t)
	f.Put("o/m", sharded())
	f.Put("o/gated", sharded())
	f.Protect("o/gated", "right", true)
	f.Put("o/private", sharded())
	f.Protect("o/private", "right", false)
	f.Put("o/torch", map[string][]byte{"config.json": []byte("{}"), "pytorch_model.bin": random(5<<10, 1)})
	f.Put("o/none", map[string][]byte{"README.md": []byte("{}")})
	status := func(code int) func(*http.Request, string) *fakehub.Fault {
		return func(*http.Request, string) *fakehub.Fault { return &fakehub.Fault{Status: code, RetryAfter: "0"} }
	}
	for _, c := range []struct {
		what, model, token string
		fault              func(*http.Request, string) *fakehub.Fault
		kind               error
		says               string
	}{
		{"gated", "o/gated", "", nil, ErrGated, "accept its terms at " + f.URL + "/o/gated"},
		{"gated, wrong token", "o/gated", "wrong", nil, ErrGated, "accept its terms"},
		{"private", "o/private", "", nil, ErrNotFound, "give a token"},
		{"private, wrong token", "o/private", "wrong", nil, ErrToken, "make a new token"},
		{"no such model", "o/typo", "", nil, ErrNotFound, "check the name"},
		{"no such revision", "o/m@v9", "", nil, ErrNotFound, `has no revision "v9"`},
		{"limited", "o/m", "", status(429), ErrLimited, "limits requests"},
		{"broken", "o/m", "", status(500), ErrReach, "answers 500"},
		{"pickles alone", "o/torch", "", nil, ErrNotFound, "pytorch_model.bin and neither safetensors nor GGUF"},
		{"no model", "o/none", "", nil, ErrNotFound, "no model that can be served"},
	} {
		f.Fail(c.fault)
		_, err := gear(t, f, func(cfg *Config) { cfg.Token = c.token }).Open(t.Context(), name(t, c.model))
		if !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	f.Fail(nil)
	s, err := gear(t, f, func(cfg *Config) { cfg.Token = "right" }).Open(t.Context(), name(t, "o/gated"))
	if err != nil {
		t.Fatalf("with the right token: %v", err)
	}
	if err := s.FillAll(t.Context()); err != nil { // the second host must not see the token
		t.Error(err)
	}
	s.Close()
	if _, err := gear(t, f, func(cfg *Config) { cfg.Offline = true }).Open(t.Context(), name(t, "o/m")); !errors.Is(err, ErrOffline) {
		t.Errorf("offline with an empty cache: %v", err)
	}
	gone := gear(t, f, func(cfg *Config) { cfg.Endpoint = "http://127.0.0.1:1" })
	if _, err := gone.Open(t.Context(), name(t, "o/m")); !errors.Is(err, ErrReach) {
		t.Errorf("nobody listens: %v", err)
	}
}

// Transfers go on where they broke off: 500, 429, cut connections, hosts that stall or serve
// no ranges. What is wrong is never taken for whole.
func TestTransfersThatFail(t *testing.T) {
	const shard = "model-00001-of-00002.safetensors"
	for _, c := range []struct {
		what  string
		fault func(n int64) *fakehub.Fault
		want  error
	}{
		{"every third request fails", func(n int64) *fakehub.Fault {
			if n%3 == 0 {
				return &fakehub.Fault{Status: 503}
			}
			return nil
		}, nil},
		{"each connection is cut after 5 MiB and a bit", func(int64) *fakehub.Fault { return &fakehub.Fault{CutAfter: 5<<20 + 3} }, nil},
		{"limited now and then", func(n int64) *fakehub.Fault {
			if n%4 == 1 {
				return &fakehub.Fault{Status: 429, RetryAfter: "0"}
			}
			return nil
		}, nil},
		{"no ranges", func(int64) *fakehub.Fault { return &fakehub.Fault{NoRanges: true} }, nil},
		{"a wrong byte", func(n int64) *fakehub.Fault { return &fakehub.Fault{Flip: n <= 6} }, ErrDamaged},
		{"nothing but failures", func(int64) *fakehub.Fault { return &fakehub.Fault{Status: 500} }, ErrReach},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			f, files := fakehub.New(t), sharded()
			f.Put("o/m", files)
			h := gear(t, f)
			s := must(h.Open(t.Context(), name(t, "o/m")))(t)
			defer s.Close()
			var n atomic.Int64
			f.Fail(func(_ *http.Request, file string) *fakehub.Fault {
				if file != shard {
					return nil
				}
				return c.fault(n.Add(1))
			})
			err := s.FillAll(t.Context())
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			whole := filepath.Join(h.cfg.Cache, "models--o--m", "snapshots", s.Commit, shard)
			if c.want == nil {
				same(t, whole, files[shard], 0, len(files[shard]))
				return
			}
			if _, err := os.Stat(whole); err == nil {
				t.Error("it is taken for whole")
			}
			f.Fail(nil)
			if err := s.FillAll(t.Context()); err != nil {
				t.Fatalf("afterwards: %v", err)
			}
			same(t, whole, files[shard], 0, len(files[shard]))
		})
	}
}

func TestSilentHost(t *testing.T) {
	f, files := fakehub.New(t), sharded()
	f.Put("o/m", files)
	h := gear(t, f, func(c *Config) { c.Idle, c.Attempts = 2*time.Second, 20 }) // of which only one finds it silent, however slow this machine is
	s := must(h.Open(t.Context(), name(t, "o/m")))(t)
	defer s.Close()
	var once sync.Once
	never := make(chan struct{})
	f.Fail(func(r *http.Request, file string) (x *fakehub.Fault) {
		if strings.HasSuffix(file, "2.safetensors") && strings.HasSuffix(f.CDN, r.Host) {
			once.Do(func() { x = &fakehub.Fault{Stall: never} })
		}
		return x
	})
	if err := s.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := must(gear(t, f).Open(t.Context(), name(t, "o/m")))(t).FillAll(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that goes away: %v", err)
	}
}

// Several processes share the cache: nothing is fetched twice, and none sees half a file.
func TestManyAtOnce(t *testing.T) {
	f, files := fakehub.New(t), sharded()
	f.Put("o/m", files)
	cache := t.TempDir()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := gear(t, f, func(c *Config) { c.Cache = cache }).Open(t.Context(), name(t, "o/m"))
			if err == nil {
				defer s.Close()
				err = s.FillAll(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for file, data := range files {
		if strings.HasSuffix(file, ".safetensors") && !strings.Contains(file, "/") && f.Sent(file) != int64(len(data)) {
			t.Errorf("%d bytes of %s were sent, which has %d", f.Sent(file), file, len(data))
		}
	}
}

// FuzzListing: whatever the hub answers is a list of safe paths or an error.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`{"sha":"` + strings.Repeat("a", 40) + `","siblings":[{"rfilename":"../x","size":1,"blobId":"` + strings.Repeat("b", 40) + `"}]}`))
	f.Add([]byte(`{"sha":"` + strings.Repeat("a", 40) + `","siblings":[{"rfilename":"m.gguf","lfs":{"sha256":"` + strings.Repeat("b", 64) + `","size":7}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := parseListing(Name{Repo: "o/m"}, raw)
		if err != nil {
			return
		}
		for _, x := range l.Files {
			if !filepath.IsLocal(x.Path) || x.Size < 0 || !hashPattern.MatchString(x.Hash) {
				t.Errorf("%+v", x)
			}
		}
		l.small()
		l.gguf("")
		l.gguf("Q4")
		l.shards(raw)
	})
}
