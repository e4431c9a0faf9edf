// Command whorl runs a large language model over a swarm of machines: a file per
// subcommand, and the wiring of a node. It alone reads flags, the environment and the
// config file, and starts and stops everything; it computes, decides and serves nothing
// itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"whorl/internal/wiring"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes that scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1   // at work
	exitUsage       = 2   // wrong flag, file or value
	exitInterrupted = 130 // as shells say it: 128 + SIGINT
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], world{os.Stdin, os.Stdout, os.Stderr, os.Environ}))
}

// world is what a command sees of the process around it; tests bring their own.
type world struct {
	in       io.Reader
	out, err io.Writer // results; everything else
	environ  func() []string
}

// run is the whole program but for the process: it returns the exit code.
func run(ctx context.Context, args []string, w world) int {
	root := newRoot(&w)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return finish(err, w.err) // which may have become a screen
}

// finish tells of an error, on one line, and gives its exit code.
func finish(err error, to io.Writer) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(to, "whorl: %s\n", wiring.OneLine(err))
	switch {
	case errors.As(err, new(*wiring.UsageError)):
		return exitUsage
	case errors.Is(err, wiring.ErrInterrupted):
		return exitInterrupted
	default:
		return exitFailed
	}
}

// newRoot is the command line.
func newRoot(w *world) *cobra.Command {
	var g globalFlags
	root := &cobra.Command{
		Use:   "whorl",
		Short: "Run a large language model over a swarm of machines",
		Long: `whorl runs a large language model over a swarm of machines, each of which holds a few
of its transformer blocks.

Every flag can also be given as an environment variable (--max-length as
WHORL_MAX_LENGTH) or in the YAML file of --config. The flag wins over the variable,
the variable over the file.

Exit codes: 0 done, 1 failed at work, 2 wrong use, 130 interrupted.`,
		Args:          knownCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return wiring.Usagef("no command given: run `whorl --help` for the list")
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			environ := w.environ()
			sources, err := configure(cmd, g.config, environ)
			if err != nil {
				return err
			}
			log := new(wiring.Logging)
			var drawn *block
			var bar *screen
			to := w.err
			if terminal, ok := wantsBlock(cmd, sources, w); ok {
				drawn = &block{screen: &screen{out: terminal}}
				w.err, to = drawn.screen, drawn.screen
			} else if terminal, ok := wantsBar(cmd, w); ok {
				bar = &screen{out: terminal}
				to = bar
			}
			if err := log.Start(to, g.logFormat, g.logLevel, drawn.calmed()); err != nil {
				return err
			}
			ctx := wiring.WithEnviron(withSources(cmd.Context(), sources), environ)
			if bar != nil {
				ctx = wiring.WithFetching(ctx, bar.fetching)
			}
			ctx = wiring.WithSettings(wiring.WithLogging(ctx, log), settingsFor(cmd, sources, log))
			cmd.SetContext(context.WithValue(ctx, blockKey{}, drawn))
			return nil
		},
	}
	g.add(root.PersistentFlags())
	root.SetIn(w.in)
	root.SetOut(w.out)
	root.SetErr(w.err)
	root.SetGlobalNormalizationFunc(petalsNames)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return wiring.Usagef("%w: see `%s --help`", err, cmd.CommandPath())
	})
	root.AddCommand(newServe(w), newJoin(w), newInvite(w), newGateway(w), newBootstrap(w), newGenerate(w), newChat(w), newScore(w), newTune(w), newClassify(w),
		newTokenize(w), newDetokenize(w), newModels(w), newBench(w), newSim(w), newVersion(w), newService(w),
		newNode(w), newOps(w), newAdapters(w), newBlocks(w), newSessions(w), newPeers(w), newSwarm(w), newEvents(w), newLogs(w), newKeys(w))
	strictArgs(root)
	offerWords(root)
	return root
}

// knownCommand is the argument check of commands that only have commands: an argument is
// the name of one, misspelt.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // letters; cobra's own default, which it sets too late
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
		text += " (did you mean " + strings.Join(close, " or ") + "?)"
	}
	return errors.New(text)
}

// strictArgs makes wrong arguments wrong use, as wrong flags are.
func strictArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return wiring.Usagef("%w: see `%s --help`", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		strictArgs(sub)
	}
}

// globalFlags are those of every command.
type globalFlags struct {
	config, logFormat, logLevel string
}

func (g *globalFlags) add(fs *pflag.FlagSet) {
	fs.StringVarP(&g.config, "config", "c", "", "YAML `FILE` with flags, named as here without dashes in front")
	fs.StringVar(&g.logFormat, "log-format", "text", "form of the log on stderr: text or json")
	fs.StringVar(&g.logLevel, "log-level", "info", "least level that is logged: debug, info, warn or error")
}
