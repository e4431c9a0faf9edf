package wiring

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Where each system wants the data of a user.
func TestUserDataDir(t *testing.T) {
	j := filepath.Join
	for _, c := range []struct {
		goos string
		env  map[string]string
		want string
	}{
		{"linux", map[string]string{"HOME": "/home/a"}, j("/home/a", ".local", "share", "whorl")},
		{"linux", map[string]string{"HOME": "/home/a", "XDG_DATA_HOME": "/data"}, j("/data", "whorl")},
		{"linux", map[string]string{"HOME": "/home/a", "XDG_DATA_HOME": "not/absolute"}, j("/home/a", ".local", "share", "whorl")},
		{"freebsd", map[string]string{"HOME": "/home/a"}, j("/home/a", ".local", "share", "whorl")},
		{"darwin", map[string]string{"HOME": "/Users/a", "XDG_DATA_HOME": "/data"}, j("/Users/a", "Library", "Application Support", "whorl")},
		{"windows", map[string]string{"LocalAppData": `C:\Users\a\AppData\Local`}, j(`C:\Users\a\AppData\Local`, "whorl")},
		{"linux", nil, ""}, {"darwin", nil, ""}, {"windows", nil, ""},
	} {
		if got := userDataDir(c.goos, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%s with %v: %q, want %q", c.goos, c.env, got, c.want)
		}
	}
}

// A private swarm has other folders than the open one of its name.
func TestFolderName(t *testing.T) {
	open := &SwarmOptions{Swarm: "main"}
	private := &SwarmOptions{Swarm: "main", key: []byte("0123456789abcdef0123456789abcdef")}
	a, err := open.folderName()
	b, err2 := private.folderName()
	if err != nil || err2 != nil || a != "main" || a == b || !strings.HasPrefix(b, "main~") {
		t.Errorf("%q and %q: %v, %v", a, b, err, err2)
	}
}

// A node comes back on the port of its last run where that is free.
func TestPortOfTheLastRun(t *testing.T) {
	h, err := (&DataOptions{DataDir: t.TempDir()}).open(context.Background(), "main", "server")
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if got := h.port(); got != 0 {
		t.Errorf("port %d of no run", got)
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	h.keepPort([]string{"/ip4/127.0.0.1/udp/1/quic-v1", "/ip4/127.0.0.1/tcp/" + strconv.Itoa(port)})
	if got := h.port(); got != 0 {
		t.Errorf("port %d, which is in use", got)
	}
	l.Close()
	if got := h.port(); got != port {
		t.Errorf("port %d, want %d", got, port)
	}
	for _, bad := range []string{"", "x", "0", "65536", "-1"} {
		if err := os.WriteFile(h.file("port"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.port(); got != 0 {
			t.Errorf("port %d of %q", got, bad)
		}
	}
}

// The token of a file is used, of both listeners; a file that is missing is made with one that nobody can guess.
func TestTokenFile(t *testing.T) {
	for _, listener := range []string{"http", "admin"} {
		path := filepath.Join(t.TempDir(), "new", "token")
		read := func(given string) (string, error) {
			f := HTTPOptions{TokenFile: path, HTTPToken: given}
			if listener == "admin" {
				f = HTTPOptions{AdminTokenFile: path, AdminToken: given}
			}
			err := f.readTokens()
			return f.HTTPToken + f.AdminToken, err
		}
		if _, err := AdminToken(path, ""); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a caller makes a token: %v", err)
		}
		first, err := read("")
		st, serr := os.Stat(path)
		if err != nil || serr != nil || len(first) < 20 || st.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %q, %v, %v, %v", listener, first, err, serr, st)
		}
		if again, err := read(""); err != nil || again != first {
			t.Errorf("%s: %q, %v, want %q", listener, again, err, first)
		}
		if shown, err := AdminToken(path, ""); err != nil || shown != first {
			t.Errorf("a caller shows %q, %v, want %q", shown, err, first)
		}
		if _, err := read("another one of mine"); err == nil || !strings.Contains(err.Error(), "--"+listener+"-token-file") {
			t.Errorf("%s: both: %v", listener, err)
		}
		for _, bad := range []string{"", "\n", "two words\n", strings.Repeat("x", maxToken+1)} {
			if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := read(""); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %.20q gives %.20q, %v", listener, bad, got, err)
			}
		}
	}
}

// The default folder need not be usable.
func TestDefaultFolderUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := WithEnviron(t.Context(), []string{"HOME=" + file, "LocalAppData=" + file})
	h, err := new(DataOptions).open(ctx, "main", "server")
	if err != nil || h.path != "" {
		t.Errorf("%+v, %v", h, err)
	}
}
