package hub

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"whorl/internal/fakehub"
)

// childEnv makes this test binary a process that fetches o/m from the hub it names, into the
// cache behind the comma.
const childEnv = "WHORL_TEST_FETCH"

func TestMain(m *testing.M) {
	if where := os.Getenv(childEnv); where != "" {
		endpoint, cache, _ := strings.Cut(where, ",")
		h := New(Config{Endpoint: endpoint, Cache: cache, Agent: "test", Parallel: 2, Idle: 10 * time.Second, Attempts: 2, Pause: time.Millisecond})
		s, err := h.Open(context.Background(), Name{Repo: "o/m"})
		if err == nil {
			err = s.FillAll(context.Background())
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process that is killed at any moment leaves nothing wrong behind, and what it had on the
// disk is not fetched again.
func TestKilledWhileFetching(t *testing.T) {
	f, files := fakehub.New(t), sharded()
	f.Put("o/m", files)
	cache := t.TempDir()
	// Answers come slowly, so that kills meet transfers.
	f.Fail(func(r *http.Request, file string) *fakehub.Fault {
		if strings.HasSuffix(file, ".safetensors") {
			<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond)
		}
		return nil
	})
	child := func() *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^$")
		c.Env = append(os.Environ(), childEnv+"="+f.URL+","+cache)
		return c
	}
	const kills = 20
	for range kills {
		c := child()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond)
		c.Process.Kill()
		c.Wait()
	}
	if out, err := child().CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	commits, _ := os.ReadDir(filepath.Join(cache, "models--o--m", "snapshots"))
	if len(commits) != 1 {
		t.Fatalf("%d snapshots", len(commits))
	}
	var size int64
	for file, data := range files {
		if strings.HasPrefix(file, "model-") {
			same(t, filepath.Join(cache, "models--o--m", "snapshots", commits[0].Name(), file), data, 0, len(data))
			size += int64(len(data))
		}
	}
	sent := f.Sent("model-00001-of-00002.safetensors") + f.Sent("model-00002-of-00002.safetensors")
	if most := size + kills*2*maxRequest*chunkSize; sent > most {
		t.Errorf("%d MiB were sent for %d: more than two requests for every kill", sent>>20, size>>20)
	}
	t.Logf("%d kills: %.2f of the bytes were sent", kills, float64(sent)/float64(size))
}

// A process that was killed when the last byte had come, and before the file was checked,
// leaves a part that lacks nothing: whoever comes next makes a blob of it.
func TestKilledBeforeTheCheck(t *testing.T) {
	f, files := fakehub.New(t), sharded()
	f.Put("o/m", files)
	const shard = "model-00002-of-00002.safetensors"
	h := gear(t, f)
	s := must(h.Open(t.Context(), name(t, "o/m")))(t)
	p := s.parts[shard]
	p.mu.Lock()
	_, err := p.data.WriteAt(files[shard], 0)
	err = errors.Join(err, p.wrote(run{0, p.chunks()}))
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	again := must(gear(t, f, func(c *Config) { c.Cache = h.cfg.Cache }).Open(t.Context(), name(t, "o/m")))(t)
	defer again.Close()
	if err := again.FillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Join(h.cfg.Cache, "models--o--m", "snapshots", again.Commit, shard), files[shard], 0, len(files[shard]))
	if f.Sent(shard) != 0 {
		t.Errorf("%d bytes were fetched again", f.Sent(shard))
	}
}

// A full disk is a clear error, and nothing half written is taken for whole.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, 24)
	f, files := fakehub.New(t), sharded()
	f.Put("o/m", files)
	h := gear(t, f, func(c *Config) { c.Cache = filepath.Join(dir, "hub") })
	s := must(h.Open(t.Context(), name(t, "o/m")))(t)
	defer s.Close()
	before := f.Sent("")
	if err := s.FillAll(t.Context()); !errors.Is(err, ErrDisk) || f.Sent("") != before {
		t.Errorf("43 MiB into 24: %v, after %d bytes", err, f.Sent("")-before)
	}
	// Somebody else takes the room that was there when the transfer began.
	path := filepath.Join(s.Path, "model-00001-of-00002.safetensors")
	stop := make(chan struct{})
	f.Fail(func(_ *http.Request, file string) *fakehub.Fault {
		if strings.HasSuffix(file, ".safetensors") {
			return &fakehub.Fault{Stall: stop}
		}
		return nil
	})
	done := make(chan error)
	go func() { done <- s.Fill(t.Context(), path, [][2]int64{{0, 12 << 20}}) }()
	if err := os.WriteFile(filepath.Join(dir, "other"), random(20<<20, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	close(stop)
	if err := <-done; !errors.Is(err, ErrDisk) {
		t.Errorf("the disk filled up meanwhile: %v", err)
	}
	os.Remove(filepath.Join(dir, "other"))
	f.Fail(nil)
	if err := s.Fill(t.Context(), path, [][2]int64{{0, 12 << 20}}); err != nil {
		t.Fatal(err)
	}
	same(t, path, files["model-00001-of-00002.safetensors"], 0, 12<<20)
}

// What a hub gave in part and turned out to be wrong is forgotten and fetched again; a whole file
// stays.
func TestForget(t *testing.T) {
	f, files := fakehub.New(t), sharded()
	f.Put("o/m", files)
	h := gear(t, f)
	s := must(h.Open(t.Context(), name(t, "o/m")))(t)
	defer s.Close()
	first, second := filepath.Join(s.Path, "model-00001-of-00002.safetensors"), filepath.Join(s.Path, "model-00002-of-00002.safetensors")
	f.Fail(func(_ *http.Request, file string) *fakehub.Fault {
		return &fakehub.Fault{Flip: strings.HasPrefix(file, "model-00001")}
	})
	wanted := [][2]int64{{chunkSize, 3 * chunkSize}}
	err := errors.Join(s.Fill(t.Context(), first, wanted), s.Fill(t.Context(), second, [][2]int64{{0, 3 * chunkSize}}))
	if err != nil {
		t.Fatal(err)
	}
	f.Fail(nil)
	whole := f.Sent("model-00002-of-00002.safetensors")
	if err := s.Forget(); err != nil {
		t.Fatal(err)
	}
	if s.Has(first, wanted) || !s.Has(second, [][2]int64{{0, 3 * chunkSize}}) {
		t.Error("the part is still here, or the whole file is not")
	}
	if err := errors.Join(s.Fill(t.Context(), first, wanted), s.FillAll(t.Context())); err != nil {
		t.Fatal(err)
	}
	same(t, first, files["model-00001-of-00002.safetensors"], 0, len(files["model-00001-of-00002.safetensors"]))
	if f.Sent("model-00002-of-00002.safetensors") != whole {
		t.Error("a whole file was fetched again")
	}
}
