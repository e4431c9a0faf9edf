package service

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"whorl/internal/golden"
)

// odd is a service with whatever a definition has to write another way.
func odd() Service {
	return Service{
		Name: "whorl", About: "whorl: 50 % of a model & more", Program: "/opt/my programs/whorl",
		Args: []string{"join", "whorl1abc", "--public-name", `a "b" $HOME \ 100% <x> 'y' é`, "--flag="}, Dir: "/home/me/my models",
	}
}

var home = Home{Dir: "/home/me", UID: 501}

// What is written for each system.
func TestPlans(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		s, h := odd(), home
		if system == "windows" {
			s.Program, s.Dir, h.Dir = `C:\Program Files\whorl\whorl.exe`, `C:\Users\me`, `C:\Users\me`
		}
		p, err := s.For(system, h)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		text.WriteString("file    " + p.Path + "\n")
		for _, c := range p.Install {
			text.WriteString("install " + strings.Join(c, " ") + "\n")
		}
		text.WriteString("status  " + strings.Join(p.Status, " ") + "\n")
		for _, c := range append(p.Remove, p.After...) {
			text.WriteString("remove  " + strings.Join(c, " ") + "\n")
		}
		text.WriteString("hint    " + p.Hint + "\n\n" + p.Text)
		golden.Check(t, "testdata/"+system+".txt", text.String())
	}
}

// systemd reads the unit and finds the very words that were given.
func TestSystemdAccepts(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("not proven: systemd accepts the unit: systemd-analyze is not installed")
	}
	s := odd()
	s.Program = must(exec.LookPath("true"))(t)
	p := must(s.For("linux", home))(t)
	file := filepath.Join(t.TempDir(), "whorl.service")
	if err := os.WriteFile(file, []byte(strings.Replace(p.Text, s.Dir, t.TempDir(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := exec.Command("systemd-analyze", "verify", "--user", file)
	verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "whorl.service:") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Python, which knows the format of macOS, finds the very words that were given.
func TestPlistAccepts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("not proven: the plist is one: python3 is not installed")
	}
	p := must(odd().For("darwin", home))(t)
	read := exec.Command(python, "-c", "import plistlib,sys; d=plistlib.loads(sys.stdin.buffer.read()); sys.stdout.reconfigure(encoding='utf8'); print('\\n'.join([d['Label'],d['WorkingDirectory']]+d['ProgramArguments']))")
	read.Stdin = strings.NewReader(p.Text)
	out, err := read.CombinedOutput()
	want := strings.Join(append([]string{"org.whorl.whorl", odd().Dir, odd().Program}, odd().Args...), "\n") + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

// The task is XML that holds the command line.
func TestTaskIsXML(t *testing.T) {
	p := must(odd().For("windows", home))(t)
	var task struct {
		Exec struct{ Command, Arguments, WorkingDirectory string } `xml:"Actions>Exec"`
	}
	if err := xml.Unmarshal([]byte(p.Text), &task); err != nil {
		t.Fatal(err)
	}
	want := `join whorl1abc --public-name "a \"b\" $HOME \ 100% <x> 'y' é" --flag=`
	if task.Exec.Command != `"/opt/my programs/whorl"` || task.Exec.Arguments != want {
		t.Errorf("%+v", task.Exec)
	}
}

// How Windows programs take command lines apart is written down by Microsoft; these are its
// examples and what lies between.
func TestWindowsQuote(t *testing.T) {
	for in, want := range map[string]string{
		`abc`: `abc`, ``: `""`, `a b`: `"a b"`, `a"b`: `"a\"b"`, `a\b`: `a\b`, `a b\`: `"a b\\"`, `a\"b c`: `"a\\\"b c"`, `\\host\a b`: `"\\host\a b"`, `x\\`: `x\\`,
	} {
		if got := windowsQuote(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// What no definition can hold is refused.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Service)
		system string
		want   string
	}{
		{func(s *Service) { s.Name = "a b" }, "linux", "letters"},
		{func(s *Service) { s.Name = "" }, "linux", "letters"},
		{func(s *Service) { s.Name = "../x" }, "linux", "letters"},
		{func(s *Service) { s.Args[0] = "a\nExecStart=/bin/sh" }, "linux", "control character"},
		{func(s *Service) { s.Args[0] = "\xff" }, "darwin", "UTF-8"},
		{func(s *Service) { s.Program = "" }, "darwin", "program"},
		{func(*Service) {}, "plan9", "plan9"},
	} {
		s := odd()
		c.change(&s)
		if _, err := s.For(c.system, home); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v on %s: %v", s, c.system, err)
		}
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
