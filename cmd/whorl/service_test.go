package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"whorl/internal/wiring"
)

// theSystem records what a service would have the system do.
type theSystem struct {
	ran  []string
	fail string // commands with this word fail
}

func (s *theSystem) run(_ context.Context, _ *world, words []string) error {
	line := strings.Join(words, " ")
	s.ran = append(s.ran, line)
	if s.fail != "" && strings.Contains(line, s.fail) {
		return fmt.Errorf("%s: refused", line)
	}
	return nil
}

// serviceCommand runs `whorl service` with a system of the test's own, below a home of its own.
func (s *theSystem) command(t *testing.T, home string, args ...string) (string, error) {
	t.Helper()
	var out, errs strings.Builder
	w := &world{strings.NewReader(""), &out, &errs, func() []string { return nil }}
	f := &serviceFlags{run: s.run}
	cmd := newRoot(w)
	ctx := wiring.WithEnviron(t.Context(), []string{"HOME=" + home, "USERPROFILE=" + home})
	service, rest, err := cmd.Find(append([]string{"service"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	if err := service.ParseFlags(rest); err != nil {
		return "", err
	}
	f.name, _ = service.Flags().GetString("name")
	if f.name == "" {
		f.name, _ = service.InheritedFlags().GetString("name")
	}
	f.system = runtime.GOOS
	service.SetContext(ctx)
	switch service.Name() {
	case "install":
		err = f.install(service, w, service.Flags().Args())
	case "remove":
		err = f.remove(ctx, w)
	default:
		p, perr := f.installed(ctx)
		if err = perr; err == nil {
			err = f.run(ctx, w, p.Status)
		}
	}
	return out.String() + errs.String(), err
}

// A service is written, shown and removed; wrong command lines are refused before anything is
// written, and nothing of the real system is touched.
func TestService(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not proven: the order of commands, which the test writes down for systemd alone")
	}
	home, sys := t.TempDir(), &theSystem{}
	unit := filepath.Join(home, ".config", "systemd", "user", "whorl.service")
	if _, err := sys.command(t, home, "status"); err == nil || !strings.Contains(err.Error(), "no service whorl is installed") {
		t.Errorf("status of none: %v", err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"install", "chat", "x"}, "serve, join, gateway, bootstrap"},
		{[]string{"install", "serve", "owner/name", "--new-swarn"}, "--new-swarn"},
		{[]string{"install", "join", "owner/name"}, "INVITATION"},
	} {
		if _, err := sys.command(t, home, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, new(*wiring.UsageError)) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	if _, err := os.Stat(unit); err == nil || len(sys.ran) > 0 {
		t.Fatalf("something was done: %v, %v", err, sys.ran)
	}
	out, err := sys.command(t, home, "install", "serve", "owner/name", "--new-swarm", "--public-name", "my machine")
	if err != nil || !strings.Contains(out, unit) || !strings.Contains(out, "enable-linger") {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(unit)
	st, serr := os.Stat(unit)
	if err != nil || serr != nil || st.Mode().Perm() != 0o600 || !strings.Contains(string(text), `"serve" "owner/name" "--new-swarm" "--public-name" "my machine" "--yield=off"`) {
		t.Errorf("%v %v %v\n%s", err, serr, st, text)
	}
	if _, err := sys.command(t, home, "install", "serve", "owner/name", "--new-swarm"); err == nil || !strings.Contains(err.Error(), "installed already") {
		t.Errorf("a second time: %v", err)
	}
	if _, err := sys.command(t, home, "status"); err != nil {
		t.Error(err)
	}
	sys.fail = "disable" // of a service that has ended by itself
	if out, err := sys.command(t, home, "remove"); err != nil || !strings.Contains(out, "is removed") || !strings.Contains(out, "refused") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(unit); err == nil {
		t.Error("the definition is still there")
	}
	want := []string{
		"systemctl --user daemon-reload", "systemctl --user enable --now whorl.service", "systemctl --user status --no-pager whorl.service",
		"systemctl --user disable --now whorl.service", "systemctl --user daemon-reload",
	}
	if !slices.Equal(sys.ran, want) {
		t.Errorf("ran %q, want %q", sys.ran, want)
	}
}

// A definition for another system is printed and changes nothing; whoever says --yield is obeyed.
func TestServicePrint(t *testing.T) {
	env := []string{"HOME=" + t.TempDir()}
	for system, want := range map[string]string{"linux": "ExecStart=", "darwin": "<key>ProgramArguments</key>", "windows": "<LogonTrigger>"} {
		got := whorl(t, "", env, "service", "install", "--print", "--system", system, "bootstrap", "--new-swarm").ok(t)
		if !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "--yield") {
			t.Errorf("%s:\n%s", system, got.stdout)
		}
	}
	if got := yielding([]string{"join", "x", "--yield=on"}); len(got) != 3 {
		t.Error(got)
	}
	if r := whorl(t, "", env, "service"); r.code != exitUsage || !strings.Contains(r.err, "install, status or remove") {
		t.Errorf("%d %s", r.code, r.err)
	}
	if r := whorl(t, "", env, "service", "instal"); r.code != exitUsage || !strings.Contains(r.err, "install") {
		t.Errorf("%d %s", r.code, r.err)
	}
}
