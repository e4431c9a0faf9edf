// Package pgtest gives tests a real Postgres: the one named by WHORL_TEST_DATABASE_URL, or
// a server of its own that lives as long as the test. It is no mock, and only tests import
// it.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env names the variable that holds the URL of a server to use. The user must be allowed
// to create databases.
const Env = "WHORL_TEST_DATABASE_URL"

// Server is a running Postgres.
type Server struct {
	url  *url.URL // of the database "postgres"
	bin  string   // folder of the programs; "" if the server is not ours
	dir  string
	cmd  *exec.Cmd
	as   *owner // whom it runs as; nil: as we
	next int    // number of the next database
}

// Start gives a server, or skips the test and says what was not proven.
func Start(t testing.TB) *Server {
	t.Helper()
	if text := os.Getenv(Env); text != "" {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", Env, err)
		}
		return &Server{url: u}
	}
	bin := programs()
	if bin == "" {
		t.Skipf("no Postgres programs and no %s: nothing was proven of the history in a database", Env)
	}
	as, err := otherUser()
	if err != nil {
		t.Skipf("Postgres does not run as root, and there is no other user: %v: nothing was proven of the history in a database", err)
	}
	s := &Server{bin: bin, as: as}
	s.create(t)
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// programs finds the folder with initdb and postgres: Debian keeps the newest apart.
func programs() string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(dirs)
	slices.Reverse(dirs)
	if p, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, d := range dirs {
		if exec.Command(filepath.Join(d, "initdb"), "--version").Run() == nil && exec.Command(filepath.Join(d, "postgres"), "--version").Run() == nil {
			return d
		}
	}
	return ""
}

// owner is a user by number.
type owner struct{ uid, gid int }

// otherUser is another user to run as, nil if we are not root.
func otherUser() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &owner{uid, gid}, nil
}

// create makes the data folder. It has a short path of its own, since that of a socket is
// limited to about 100 bytes, and since the other user must reach it.
func (s *Server) create(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "whorl-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir = dir
	if s.as != nil {
		if err := os.Chown(dir, s.as.uid, s.as.gid); err != nil {
			t.Fatal(err)
		}
	}
	s.url = &url.URL{Scheme: "postgres", User: url.User("whorl"), Path: "/postgres", RawQuery: url.Values{"host": {dir}}.Encode()}
	initdb := s.command("initdb", "--pgdata", filepath.Join(dir, "data"), "--username", "whorl", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	apart(cmd, s.as)
	return cmd
}

// Ours tells whether the server can be stopped and started.
func (s *Server) Ours() bool { return s.bin != "" }

// Restart starts the server if it does not run, and waits until it answers. It listens on
// a socket in its folder only.
func (s *Server) Restart() error {
	if s.cmd != nil || !s.Ours() {
		return nil
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command("postgres", "-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB", "-c", "max_connections=40")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		conn, err := pgx.Connect(ctx, s.url.String())
		if err == nil {
			tick.Stop()
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			s.Stop()
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("postgres does not answer: %w\n%s", err, text)
		}
	}
}

// Stop ends the server and all its connections at once. Restart brings it back with its
// data.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(os.Interrupt) // fast shutdown: sessions are cut off
	s.cmd.Wait()
	s.cmd = nil
}

// Database makes an empty database and gives its URL. On a foreign server it is dropped
// when the test ends.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.next++
	name := fmt.Sprintf("whorl_test_%d_%d_%s", os.Getpid(), s.next, strconv.FormatInt(time.Now().UnixNano(), 36))
	s.exec(t, "create database "+name)
	if !s.Ours() {
		t.Cleanup(func() { s.exec(t, "drop database if exists "+name+" with (force)") })
	}
	u := *s.url
	u.Path = "/" + name
	return u.String()
}

func (s *Server) exec(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		t.Fatalf("connect to the test database: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", strings.Fields(sql)[0], err)
	}
}
