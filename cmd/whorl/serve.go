package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/internal/wiring"
	"whorl/server"
	"whorl/swarm"
	"whorl/swarm/invite"
	"whorl/web/view"
)

func addServe(fs *pflag.FlagSet, f *wiring.Server) {
	f.Defaults()
	addNode(fs, &f.Node)
	addShare(fs, &f.Share)
	fs.BoolVar(&f.MayShare, "share-weights", f.MayShare, "of a model that this node founds: nodes may pass its files on; false by default for gated and private models of a hub")
	addHTTP(fs, &f.HTTP, f.HTTP.HTTP, f.HTTP.Admin)
	addSessionsHTTP(fs, &f.HTTP)
	addModel(fs, &f.Model)
	addCompute(fs, &f.Compute)
	fs.StringVar(&f.BlockIndices, "block-indices", "", "`A:B`: hold blocks A up to but not including B; default: those that are served worst")
	fs.IntVar(&f.NumBlocks, "num-blocks", 0, "how many blocks to choose; 0: as many as fit into memory")
	fs.Var(&f.Memory, "memory", "bytes for weights, cache and buffers, such as 8GiB; 0: what is free, less a tenth")
	fs.IntVar(&f.CacheTokens, "attn-cache-tokens", 0, "size of the KV cache in tokens; 0: by the model's kind of attention")
	fs.IntVar(&f.MaxLength, "inference-max-length", 0, "longest session in tokens; 0: the model's context or the cache, whichever is less")
	fs.IntVar(&f.StepRows, "max-batch-size", f.StepRows, "most rows of one iteration")
	secondsVar(fs, &f.MaxWait, "max-alloc-timeout", "longest wait of a session for cache")
	secondsVar(fs, &f.Idle, "step-timeout", "a session without steps for this long ends; its client replays it when it goes on")
	secondsVar(fs, &f.Session, "session-timeout", "a session ends so long after its prompt was computed; its client replays it when it goes on")
	secondsVar(fs, &f.JoinDelay, "mean-block-selection-delay", "how long a choice of blocks stands before they are loaded, so that servers which choose at one time see each other; 0: no wait")
	addMoves(fs, &f.Moves)
	secondsVar(fs, &f.StatsEvery, "stats-report-interval", "time between lines of the log with steps, sessions, cache and speed; 0: none")
	addCaps(fs, &f.Caps)
	addPasses(fs, &f.Passes)
	fs.StringVar(&f.Throughput, "throughput", f.Throughput, "auto (measure once and remember), eval (measure anew), dry-run (measure and exit) or a number of tokens per second")
	fs.StringSliceVar(&f.Adapters, "adapters", nil, "LoRA adapters that sessions may ask for: `DIR[,DIR...]`, as the PEFT library saves them, or owner/name[@revision] of the hub; may be repeated")
	fs.BoolVar(&f.NoAutoRelay, "no-auto-relay", false, "be reached directly or not at all: look for no relays")
	fs.BoolVar(&f.SkipReach, "skip-reachability-check", false, "serve without asking others whether they can dial this node")
	fs.BoolVar(&f.DryRun, "dry-run", false, "say how many blocks would fit and what they would take, and exit; the folder may hold config.json alone")
	fs.BoolVar(&f.JSON, "json", false, "with --dry-run: print a JSON object")
	fs.StringVar(&f.PublicName, "public-name", "", fmt.Sprintf("`NAME` shown on dashboards, which cut it after %d characters", view.MaxName))
	choiceVar(fs, &f.Yield, "yield", f.Yield, []string{"auto", "on", "off"}, "give way to other programs of this machine; auto: where somebody works at it")
	choiceVar(fs, &f.Compression, "compression", f.Compression, []string{"none"}, "how activations travel")
	addInert(fs, serverFlags)
}

// newJoin is `whorl join`: serve, with all that an invitation says.
func newJoin(w *world) *cobra.Command {
	var f wiring.Server
	cmd := &cobra.Command{
		Use:   "join INVITATION [MODEL]",
		Short: "Contribute to the swarm that somebody invited this machine to",
		Long: `Join the swarm of an invitation (whorl1..., one word) and hold a span of its model's
blocks: whorl serve, with the swarm, its addresses, its key and the model taken from the
invitation. Flags win over what it says. The blocks come from other nodes, or from the hub; MODEL is
the path of the model's files, for a machine that has them.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || !wiring.IsInvitation(args[0]) {
				return errors.New("no INVITATION given: it is a word that begins with " + invite.Prefix + ", as `whorl invite` prints it on a node of the swarm")
			}
			return oneModel(nil, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, w, &f, args) },
	}
	addServe(cmd.Flags(), &f)
	return cmd
}

func newServe(w *world) *cobra.Command {
	var f wiring.Server
	cmd := &cobra.Command{
		Use:   "serve MODEL",
		Short: "Contribute a span of blocks; API and dashboard come with it",
		Long: `Hold a span of the model's blocks and compute it for the swarm. The node is also a
gateway with API and dashboard, unless --http is off. MODEL is a folder with config.json
and safetensors, or a .gguf file; of one in several files any part, or their folder.

Flags of Petals that are not listed here are in docs/flags.md.`,
		Args: atMostOneModel,
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, w, &f, args) },
	}
	addServe(cmd.Flags(), &f)
	return cmd
}

// serve runs the command.
func serve(cmd *cobra.Command, w *world, f *wiring.Server, args []string) error {
	if f.Node.PrintConfig {
		return printConfig(w.out, cmd.Flags(), sourcesOf(cmd))
	}
	if err := checkInert(cmd, serverFlags); err != nil {
		return err
	}
	given := sourcesOf(cmd).given
	f.Args, f.Node.Show = args, showOf(cmd.Context())
	if f.DryRun {
		if err := f.Check(given); err != nil {
			return err
		}
		return printPlan(cmd.Context(), w, f)
	}
	err := f.Run(cmd.Context(), given)
	if errors.Is(err, server.ErrDryRun) {
		printRates(cmd, f.Measured)
		return nil
	}
	return err
}

// printRates is the result of a dry run.
func printRates(cmd *cobra.Command, st swarm.NodeStatus) {
	show := func(r *float64) string {
		if r == nil {
			return "not measured"
		}
		return fmt.Sprintf("%.1f tokens/s", *r)
	}
	network := show(st.Rates.NetworkRPS)
	if st.Rates.AssumedRPS != nil {
		network = fmt.Sprintf("not measured, %s is assumed", show(st.Rates.AssumedRPS))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "inference through one block: %s\nforward through one block: %s\nnetwork: %s\noffered: %.1f tokens/s\n",
		show(st.Rates.InferenceRPS), show(st.Rates.ForwardRPS), network, st.Throughput)
}
