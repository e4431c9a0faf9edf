package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"whorl/internal/atomicfile"
	"whorl/internal/service"
	"whorl/internal/wiring"
)

// serviceFlags are those of `whorl service`.
type serviceFlags struct {
	name, system string
	show         bool
	run          func(ctx context.Context, w *world, words []string) error // tests bring their own
}

// serviceCommands are those that run until they are told to end.
var serviceCommands = []string{"serve", "join", "gateway", "bootstrap"}

func newService(w *world) *cobra.Command {
	f := &serviceFlags{run: runCommand}
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Have the system run a node from your login on",
		Long: `Have the system run a node from your login on, and again after a failure: a user unit of
systemd on Linux, a launch agent on macOS, a task on Windows. None of them needs an
administrator.`,
		Args: knownCommand,
		RunE: func(*cobra.Command, []string) error {
			return wiring.Usagef("no command given: install, status or remove")
		},
	}
	install := &cobra.Command{
		Use:   "install [flags] COMMAND [ARGUMENTS...]",
		Short: "Write the definition of a service and start it",
		Long: `Write the definition of a service and start it. COMMAND with its arguments is what you
would run by hand: serve, join, gateway or bootstrap. Relative paths among them are below
the present folder. Flags of install itself come before COMMAND.`,
		Example: "  whorl service install join whorl1... --public-name \"my machine\"\n  whorl service install --print serve owner/name --new-swarm",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.install(cmd, w, args) },
	}
	install.Flags().SetInterspersed(false)
	install.Flags().BoolVar(&f.show, "print", false, "print the definition and change nothing")
	install.Flags().StringVar(&f.system, "system", runtime.GOOS, "with --print: linux, darwin or windows")
	status := &cobra.Command{
		Use: "status", Short: "Show what the system says of the service", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.installed(cmd.Context())
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), w, p.Status)
		},
	}
	remove := &cobra.Command{
		Use: "remove", Short: "End the service and delete its definition; what nodes keep stays", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.remove(cmd.Context(), w) },
	}
	cmd.PersistentFlags().StringVar(&f.name, "name", "whorl", "`NAME` of the service, for several on one machine")
	cmd.AddCommand(install, status, remove)
	return cmd
}

// plan is what a service of this user comes to.
func (f *serviceFlags) plan(ctx context.Context, s service.Service, system string) (service.Plan, error) {
	home := wiring.Getenv(ctx, "HOME")
	if system == "windows" && runtime.GOOS == "windows" {
		home = wiring.Getenv(ctx, "USERPROFILE")
	}
	if home == "" {
		return service.Plan{}, wiring.Usage(errors.New("the environment names no home folder, where the definition of a service belongs: set HOME"))
	}
	s.Name = f.name
	p, err := s.For(system, service.Home{Dir: home, Config: wiring.Getenv(ctx, "XDG_CONFIG_HOME"), UID: os.Getuid()})
	return p, wiring.Usage(err)
}

// installed is the plan of a service whose definition is there.
func (f *serviceFlags) installed(ctx context.Context) (service.Plan, error) {
	p, err := f.plan(ctx, service.Service{Program: "-", Dir: "-"}, runtime.GOOS)
	if err != nil {
		return p, err
	}
	if _, err := os.Stat(p.Path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return p, fmt.Errorf("no service %s is installed: there is no %s", f.name, p.Path)
		}
		return p, err
	}
	return p, nil
}

func (f *serviceFlags) install(cmd *cobra.Command, w *world, args []string) error {
	if err := checkServed(cmd.Root(), args); err != nil {
		return err
	}
	if f.system != runtime.GOOS && !f.show {
		return wiring.Usagef("--system goes with --print: a service of %s can only be installed there", f.system)
	}
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	p, err := f.plan(cmd.Context(), service.Service{About: "whorl " + args[0] + ": a node of a swarm that runs a language model", Program: program, Args: yielding(args), Dir: dir}, f.system)
	if err != nil {
		return err
	}
	if f.show {
		_, err := fmt.Fprint(w.out, p.Text)
		return err
	}
	if _, err := os.Stat(p.Path); err == nil {
		return fmt.Errorf("service %s is installed already, by %s: remove it first with `whorl service remove`, or take another --name", f.name, p.Path)
	}
	if err := os.MkdirAll(filepath.Dir(p.Path), 0o755); err != nil {
		return err
	}
	// An invitation to a private swarm is a secret.
	if err := atomicfile.Write(p.Path, []byte(p.Text), 0o600); err != nil {
		return err
	}
	for _, c := range p.Install {
		if err := f.run(cmd.Context(), w, c); err != nil {
			return fmt.Errorf("%s is written, but the system does not take it: %w: remove it with `whorl service remove`", p.Path, err)
		}
	}
	_, err = fmt.Fprintf(w.out, "service %s runs, by %s\n%s\n", f.name, p.Path, p.Hint)
	return err
}

func (f *serviceFlags) remove(ctx context.Context, w *world) error {
	p, err := f.installed(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range p.Remove { // one that does not run cannot be ended: go on
		failed = append(failed, f.run(ctx, w, c))
	}
	if err := os.Remove(p.Path); err != nil {
		return err
	}
	for _, c := range p.After {
		failed = append(failed, f.run(ctx, w, c))
	}
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(w.err, "whorl: while ending it:", wiring.OneLine(err))
	}
	_, err = fmt.Fprintf(w.out, "service %s is removed\n", f.name)
	return err
}

// checkServed refuses a command line that would fail at every start: flags are read, nothing
// is run.
func checkServed(root *cobra.Command, args []string) error {
	if !slices.Contains(serviceCommands, args[0]) {
		return wiring.Usagef("%q is no command that runs as a service: want one of %s", args[0], strings.Join(serviceCommands, ", "))
	}
	served, rest, err := root.Find(args)
	if err != nil {
		return wiring.Usage(err)
	}
	if err := served.ParseFlags(rest); err != nil {
		return wiring.Usagef("%w: see `%s --help`", err, served.CommandPath())
	}
	return served.ValidateArgs(served.Flags().Args())
}

// yielding are the words of a service: nobody works at its side, unless its owner says so.
func yielding(args []string) []string {
	computes := args[0] == "serve" || args[0] == "join"
	if !computes || slices.ContainsFunc(args, func(a string) bool { return a == "--yield" || strings.HasPrefix(a, "--yield=") }) {
		return args
	}
	return append(slices.Clone(args), "--yield=off")
}

// runCommand runs a program of the system, whose words are ours.
func runCommand(ctx context.Context, w *world, words []string) error {
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdout, c.Stderr = w.out, w.err
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return nil
}
