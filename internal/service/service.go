// Package service writes how the systems that start programs are told to run one for a user,
// from the login on and again after a failure: a unit of systemd, an agent of launchd, a task
// of Windows. It gives texts, places and commands; it runs and writes nothing.
package service

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Service is a program that a system starts.
type Service struct {
	Name    string   // letters, digits and dashes
	About   string   // one line
	Program string   // absolute path
	Args    []string // as the program gets them
	Dir     string   // absolute: relative paths among Args are below it
}

// Home is what of the user's environment decides about places.
type Home struct {
	Dir    string // home folder
	Config string // XDG_CONFIG_HOME; "" for its default
	UID    int
}

// Plan is what installing, looking at and removing a service comes to.
type Plan struct {
	Path    string     // of the file
	Text    string     // in it
	Install [][]string // commands, after the file was written
	Status  []string
	Remove  [][]string // commands, before the file is deleted; they may fail
	After   [][]string // commands, after it was deleted
	Hint    string     // what the user should know
}

// Times of a service, in seconds.
const (
	pause = 15  // between a failure and the next start
	grace = 120 // for an orderly end: sessions go to other servers
)

// wrongUse is the exit code of wrong flags: trying again changes nothing.
const wrongUse = 2

// For plans a service on a system: linux, darwin or windows.
func (s Service) For(system string, h Home) (Plan, error) {
	if err := s.check(); err != nil {
		return Plan{}, err
	}
	switch system {
	case "linux":
		return s.systemd(h), nil
	case "darwin":
		return s.launchd(h), nil
	case "windows":
		return s.task(h), nil
	}
	return Plan{}, fmt.Errorf("services of %s are not known here: want linux (with systemd), darwin or windows", system)
}

func (s Service) check() error {
	if s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || s.Name[0] == '-' {
		return fmt.Errorf("name %q of a service: want letters, digits and dashes", s.Name)
	}
	for _, text := range append([]string{s.About, s.Program, s.Dir}, s.Args...) {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
			return fmt.Errorf("%q cannot stand in the definition of a service: it holds a control character or is not UTF-8", text)
		}
	}
	if s.Program == "" || s.Dir == "" {
		return errors.New("a service needs a program and a folder")
	}
	return nil
}

func (s Service) systemd(h Home) Plan {
	config := h.Config
	if !strings.HasPrefix(config, "/") {
		config = path.Join(h.Dir, ".config")
	}
	command := make([]string, 0, len(s.Args)+1)
	for _, a := range append([]string{s.Program}, s.Args...) {
		command = append(command, unitQuote(a))
	}
	unit := s.Name + ".service"
	return Plan{
		Path: path.Join(config, "systemd", "user", unit),
		Text: fmt.Sprintf(`# Written by whorl service install.
[Unit]
Description=%s
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=%s
WorkingDirectory=%s
# Tokens, such as HF_TOKEN=...; the file may be missing.
EnvironmentFile=-%%E/whorl/service.env
Restart=on-failure
RestartSec=%d
RestartPreventExitStatus=%d
TimeoutStopSec=%d
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
`, unitText(s.About), strings.Join(command, " "), unitText(s.Dir), pause, wrongUse, grace),
		Install: [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", unit}},
		Status:  []string{"systemctl", "--user", "status", "--no-pager", unit},
		Remove:  [][]string{{"systemctl", "--user", "disable", "--now", unit}},
		After:   [][]string{{"systemctl", "--user", "daemon-reload"}},
		Hint:    "It ends when you log out, unless you run: loginctl enable-linger. Its log: journalctl --user -u " + unit,
	}
}

// unitText is a text in a unit: percent signs would be specifiers.
func unitText(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// unitQuote is one word of a command in a unit.
func unitQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s) + `"`
}

func (s Service) launchd(h Home) Plan {
	label := "org.whorl." + s.Name
	file := path.Join(h.Dir, "Library", "LaunchAgents", label+".plist")
	log := path.Join(h.Dir, "Library", "Logs", s.Name+".log")
	var args strings.Builder
	for _, a := range append([]string{s.Program}, s.Args...) {
		fmt.Fprintf(&args, "\t\t<string>%s</string>\n", xmlText(a))
	}
	domain := "gui/" + strconv.Itoa(h.UID)
	return Plan{
		Path: file,
		Text: fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by whorl service install: %s -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>%s</string>
	<key>ProgramArguments</key>
	<array>
%s	</array>
	<key>WorkingDirectory</key>
	<string>%s</string>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>%d</integer>
	<key>ExitTimeOut</key>
	<integer>%d</integer>
	<key>StandardErrorPath</key>
	<string>%s</string>
	<key>Umask</key>
	<integer>63</integer>
</dict>
</plist>
`, strings.ReplaceAll(xmlText(s.About), "--", "- -"), label, args.String(), xmlText(s.Dir), pause, grace, xmlText(log)),
		Install: [][]string{{"launchctl", "bootstrap", domain, file}},
		Status:  []string{"launchctl", "print", domain + "/" + label},
		Remove:  [][]string{{"launchctl", "bootout", domain + "/" + label}},
		Hint:    "Its log: " + log,
	}
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

func (s Service) task(h Home) Plan {
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = windowsQuote(a)
	}
	file := strings.TrimRight(h.Dir, `\/`) + `\AppData\Local\whorl\` + s.Name + ".xml"
	return Plan{
		Path: file,
		Text: fmt.Sprintf(`<?xml version="1.0"?>
<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>%s</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <Enabled>true</Enabled>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>7</Priority>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>999</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>%s</Command>
      <Arguments>%s</Arguments>
      <WorkingDirectory>%s</WorkingDirectory>
    </Exec>
  </Actions>
</Task>
`, xmlText(s.About), xmlText(windowsQuote(s.Program)), xmlText(strings.Join(args, " ")), xmlText(s.Dir)),
		Install: [][]string{{"schtasks", "/Create", "/F", "/TN", s.Name, "/XML", file}, {"schtasks", "/Run", "/TN", s.Name}},
		Status:  []string{"schtasks", "/Query", "/TN", s.Name, "/V", "/FO", "LIST"},
		Remove:  [][]string{{"schtasks", "/End", "/TN", s.Name}, {"schtasks", "/Delete", "/F", "/TN", s.Name}},
		Hint:    "It is a task of yours, started at your login: a service of Windows would need an administrator.",
	}
}

// windowsQuote is one argument as Windows programs take their command line apart: quotes
// around it where it needs them, and backslashes doubled before a quote.
func windowsQuote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\"") {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for i := range len(s) {
		switch s[i] {
		case '\\':
			slashes++
			continue
		case '"':
			b.WriteString(strings.Repeat(`\`, 2*slashes+1))
		default:
			b.WriteString(strings.Repeat(`\`, slashes))
		}
		slashes = 0
		b.WriteByte(s[i])
	}
	b.WriteString(strings.Repeat(`\`, 2*slashes))
	b.WriteByte('"')
	return b.String()
}
